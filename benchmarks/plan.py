"""Machines, hours and cost of a run, stage by stage, from its size and from rates: where is the bottleneck?

    python benchmarks/plan.py [--tasks 10000] [--gpus 8] [--gpu_results benchmarks/results/gpu.json] ...

Operations are 2 a parameter and token forward and 6 forward and backward, attention left out: right to a tenth for dialogues of some thousand
tokens. The defaults of the work are the paper's, those of the rates are assumed but for the grading (see PLANNING.md); what is left at its
default is marked so below the table. The row "each candidate by itself" is for comparison and not in the sum. Cost is in the unit of the price.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class Work:
    """The run: arXiv:2503.15478, Table 5, but for the number of tasks; tokens as in dialogues on real rows.

    Attributes:
        tasks, trajectories: Tasks, and dialogues on each.
        turns: Of the agent in a dialogue.
        agent_tokens, human_tokens: Of a turn.
        request_tokens, hidden_tokens: Of a task.
        pair_share: Tasks that give a pair for the critic, two of each.
        state_share: Turns whose candidates are sampled.
        candidates, pairs_per_turn: Of such a turn.
        critic_epochs, actor_epochs: Passes.
        evaluated: Episodes of start and result together.
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
    """What the machines do.

    Attributes:
        gpus: GPUs of the agent; the human's are counted apart.
        parameters: Of the agent, and of the critic.
        peak: Operations a second of one GPU.
        training_share, reading_share: Share of the peak in training, and in reading prompts and ranking.
        sampled: Tokens a second that one GPU samples for the agent, many dialogues together.
        human_sampled: Tokens a second of all GPUs of the human's server.
        human_gpus: GPUs of the human's server.
        graded: Answers a second that one core grades, with ten tests each.
        cores: Cores that grade.
        price: Of a GPU for an hour.
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
    """Seconds of a stage by what it waits for; they overlap, so the longest counts."""

    name: str
    agent: float = 0.0
    human: float = 0.0
    grading: float = 0.0

    @property
    def seconds(self) -> float:
        """Of the slowest."""
        return max(self.agent, self.human, self.grading)

    @property
    def bottleneck(self) -> str:
        """The slowest."""
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
    """Print the plan, and what it rests on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part in (Work, Rates):
        for field in fields(part):
            parser.add_argument(f"--{field.name}", type=type(field.default))
    parser.add_argument(
        "--gpu_results", type=Path, help="What benchmarks/gpu.py wrote: its shares of the peak in place of the assumed."
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
