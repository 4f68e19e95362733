"""Estimate machines, hours, cost and bottleneck of a run for each stage, from its size and from measured or assumed rates.

    python benchmarks/plan.py [--tasks 10000] [--gpus 8] [--gpu_results benchmarks/results/gpu.json] ...

The estimate uses 2 operations per parameter and token for forward passes and 6 for forward and backward passes, without attention: the error is
about a tenth for dialogues of some thousand tokens. The default amounts are those of the paper. The default rates are assumed, except that of
grading (see docs/planning.md). Defaults are marked below the table. The row "each candidate by itself" is for comparison and not in the sum. Cost is
in the unit of the price.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class Work:
    """The size of the run: arXiv:2503.15478, Table 5, except for the number of tasks; tokens as in dialogues on real rows.

    Attributes:
        tasks, trajectories: Number of tasks, and of dialogues per task.
        turns: Agent turns per dialogue.
        agent_tokens, human_tokens: Tokens per turn.
        request_tokens, hidden_tokens: Tokens per task.
        pair_share: Share of tasks that give pairs for the critic, two pairs each.
        state_share: Share of turns with sampled candidates.
        candidates, pairs_per_turn: Numbers per such turn.
        critic_epochs, actor_epochs: Training epochs.
        evaluated: Evaluation episodes of the initial and the trained policy together.
    """

    tasks: int = 10_000
    trajectories: int = 3
    turns: float = 5
    agent_tokens: float = 120
    human_tokens: float = 60
    request_tokens: float = 350
    hidden_tokens: float = 250
    pair_share: float = 0.5
    state_share: float = 0.1
    candidates: int = 16
    pairs_per_turn: int = 4
    critic_epochs: int = 4
    actor_epochs: int = 1
    evaluated: int = 2_000


@dataclass(frozen=True)
class Rates:
    """The rates of the machines.

    Attributes:
        gpus: GPUs of the agent; those of the simulated human are separate.
        parameters: Parameters of the agent, and of the critic.
        peak: Peak operations per second of one GPU.
        training_share, reading_share: Share of the peak in training, and in prefill and ranking.
        sampled: Tokens per second that one GPU samples for the agent, with many concurrent dialogues.
        human_sampled: Tokens per second of all GPUs of the simulated human's server.
        human_gpus: GPUs of the simulated human's server.
        graded: Answers per second that one core grades, with ten tests each.
        cores: Number of grading cores.
        price: Price of a GPU hour.
    """

    gpus: int = 8
    parameters: float = 8e9
    peak: float = 989e12
    training_share: float = 0.35
    reading_share: float = 0.5
    sampled: float = 4_000
    human_sampled: float = 3_000
    human_gpus: int = 8
    graded: float = 100
    cores: int = 16
    price: float = 2.5


@dataclass(frozen=True)
class Stage:
    """Seconds of a stage by resource. The resources work in parallel, so the longest time counts."""

    name: str
    agent: float = 0.0
    human: float = 0.0
    grading: float = 0.0

    @property
    def seconds(self) -> float:
        """Time of the slowest resource."""
        return max(self.agent, self.human, self.grading)

    @property
    def bottleneck(self) -> str:
        """The slowest resource."""
        return max(("agent", "human", "grading"), key=lambda name: float(getattr(self, name)))


def plan(work: Work, rates: Rates) -> list[Stage]:
    """The stages in order."""
    turn = work.agent_tokens + work.human_tokens
    dialogue = work.request_tokens + work.turns * turn
    prefix = work.request_tokens + work.turns / 2 * turn
    training = rates.gpus * rates.peak * rates.training_share / rates.parameters
    reading = rates.gpus * rates.peak * rates.reading_share / (2 * rates.parameters)

    def dialogues(count: float) -> dict[str, float]:
        read = work.request_tokens + work.turns * work.human_tokens  # with a prefix cache every token is read once
        return {
            "agent": count * (work.turns * work.agent_tokens / (rates.sampled * rates.gpus) + read / reading),
            "human": count * work.turns * work.human_tokens / rates.human_sampled,
            "grading": count / (rates.graded * rates.cores),
        }

    episodes = work.tasks * work.trajectories
    pairs = 2 * work.tasks * work.pair_share
    states = episodes * work.turns * work.state_share
    said = states * work.candidates * work.agent_tokens

    def trained(tokens: float, epochs: int) -> float:
        return tokens * (6 * epochs + 2) / training  # forward and backward in every epoch, and once the reference's forward

    return [
        Stage("collect", **dialogues(episodes)),
        Stage("critic", trained(pairs * 2 * (dialogue + work.hidden_tokens), work.critic_epochs)),
        Stage("candidates", said / (rates.sampled * rates.gpus) + states * prefix / reading),
        Stage("rank", 2 * (states * (prefix + work.hidden_tokens) + said) / reading),
        Stage(
            "rank, each candidate by itself",
            2 * (states * work.candidates * (prefix + work.hidden_tokens) + said) / reading,
        ),
        Stage("actor", trained(states * work.pairs_per_turn * 2 * (prefix + work.agent_tokens), work.actor_epochs)),
        Stage("evaluate", **dialogues(work.evaluated)),
    ]


def table(work: Work, rates: Rates) -> str:
    """The plan as Markdown."""
    lines = ["| stage | hours | waits for | agent's GPUs | human's GPUs | grading |", "|---|---|---|---|---|---|"]
    total = human = 0.0
    for stage in plan(work, rates):
        hours = [seconds / 3600 for seconds in (stage.seconds, stage.agent, stage.human, stage.grading)]
        lines.append(
            f"| {stage.name} | {hours[0]:.2f} | {stage.bottleneck} | {hours[1]:.2f} | {hours[2]:.2f} | {hours[3]:.2f} |"
        )
        if "by itself" not in stage.name:
            total += hours[0]
            human += hours[0] if stage.human else 0.0
    cost = (total * rates.gpus + human * rates.human_gpus) * rates.price
    lines.append(
        f"| all | {total:.2f} | | {rates.gpus} GPUs | {rates.human_gpus} GPUs for {human:.2f} h | {rates.cores} cores; cost {cost:.0f} |"
    )
    return "\n".join(lines)


def main() -> None:
    """Print the plan and its assumptions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part in (Work, Rates):
        for field in fields(part):
            parser.add_argument(f"--{field.name}", type=type(field.default))
    parser.add_argument(
        "--gpu_results", type=Path, help="Output of benchmarks/gpu.py; its shares of the peak replace the assumed ones."
    )
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    for name, value in given.items():
        if name != "gpu_results" and value <= 0:
            parser.error(f"--{name} must be above 0, got {value:g}.")
        if name.endswith("share") and value > 1:
            parser.error(f"--{name} is a share, at most 1, got {value:g}.")
    if results := given.pop("gpu_results", None):
        try:
            found = json.loads(results.read_text())
            found["peak"], found["critic"], found["ranking"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            parser.error(f"{results} is not what gpu.py wrote on a GPU ({error!r}).")
        if found["peak"] is None:
            parser.error(f"{results} is of a GPU whose peak gpu.py does not know; add it there, to PEAKS.")
        given = {
            "peak": found["peak"], "training_share": found["critic"]["share_of_peak"], "reading_share": found["ranking"]["shared"]["share_of_peak"],
        } | given  # fmt: skip
    work, rates = (part(**{f.name: given[f.name] for f in fields(part) if f.name in given}) for part in (Work, Rates))
    print(table(work, rates))
    for part in (work, rates):
        for field in fields(part):
            print(f"{field.name} = {getattr(part, field.name):g}{'' if field.name in given else '  (default)'}")


if __name__ == "__main__":
    main()
