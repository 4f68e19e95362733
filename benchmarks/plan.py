"""Estimate machines, hours, cost and bottleneck of a run for each stage, from its size and from measured or assumed rates.

    python benchmarks/plan.py [--tasks 10000] [--gpus 8] [--gpu_results gpu.json ...] ...

The estimate uses 2 operations per parameter and token for forward passes and 6 for forward and backward passes (4 with LoRA: `--train_operations 4`),
without attention: the error is about a tenth for dialogues of some thousand tokens. The default amounts are those of the paper, except the number of
tasks. Most default rates are not measured; `SOURCES` says where each is from, and so do the lines below the table. The row "each candidate by
itself" is for comparison and not in the sum. Cost is in the unit of the price. `planning_page.py` writes the tables of a paper-sized run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

#: What the default rates are projected from.
SOURCES = {
    "peak": "not measured here: H100 data sheet, dense bfloat16",
    "training_share": "not measured here: projected from torchtitan's 33% for Llama 3.1 8B on 8 H100 with FSDP (its benchmarks/llama3_h100_202412), "
    "times 3/4 because all activations are recomputed",
    "reading_share": "measured once on an H100: the reference's pass over 56 pairs of 8B's shape with random weights, one pair of 2,052 tokens at a time, "
    "8.5 pairs a second",
    "sampled": "not measured here: assumed, below the 5,777 of Red Hat's MLPerf Inference 5.1 entry for Llama 3.1 8B on an H100 (vLLM, FP8)",
    "human_sampled": "not measured here: assumed, for 70B on 8 H100",
    "graded": "measured here on two CPU cores: 5,000 answers of ten tests each, while runners were killed at random",
}
#: The parts of `gpu.py` that give the share of the peak in training, the best known first, by what is trained.
TRAINED = {"full": ("critic_full_fsdp", "critic_full", "actor_full"), "lora": ("critic_lora", "critic_lora_fsdp", "actor_lora")}


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
        train_operations: Operations per parameter and token of forward and backward pass: 6 for all weights, 4 with LoRA.
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
    train_operations: float = 6
    training_share: float = 0.25
    reading_share: float = 0.25
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
        return (
            tokens * (rates.train_operations * epochs + 2) / training
        )  # forward and backward in every epoch, and once the reference's forward

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


def measured_rates(
    files: Sequence[Path], trained: str, engines: Sequence[str] = ("sampling_vllm", "sampling")
) -> tuple[dict[str, float], dict[str, str]]:
    """Rates from the figures of `gpu.py`, of its largest shape that has each, and where each is from.

    Args:
        files: Outputs of `gpu.py`.
        trained: "full" or "lora".
        engines: Parts that give the rate of sampling, the first known first.

    Raises:
        ValueError: If a file is not an output of `gpu.py` on a GPU that it knows.
    """
    values: dict[str, float] = {}
    sources: dict[str, str] = {}
    shapes: list[tuple[float, str, str, dict[str, Any]]] = []
    for file in files:
        try:
            found = json.loads(file.read_text())
            device, peak = found["device"]["name"], found["device"]["peak"]
            shapes += [(shape["parameters"], name, device, shape["parts"]) for name, shape in found["shapes"].items()]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file} is not what gpu.py wrote ({error!r}).") from None
        if peak is None:
            raise ValueError(f"{file} is of {device}, whose peak gpu.py does not know; add it to PEAKS of gpu_model.py.")
        values["peak"], sources["peak"] = peak, f"{device}: {found['device']['peak_source']}"
    wanted = {
        "training_share": [(part, ("share_of_peak",)) for part in TRAINED[trained]],
        "reading_share": [("ranking", ("shared", "share_of_peak"))],
        "sampled": [(part, ("tokens_per_second",)) for part in engines],
    }
    for field, places in wanted.items():
        for _, name, device, parts in sorted(shapes, key=lambda shape: -shape[0]):
            for part, keys in places:
                figure: Any = parts.get(part, {})
                for key in keys:
                    figure = (figure or {}).get(key)
                if figure and field not in values:
                    values[field] = figure["median"]
                    sources[field] = f"measured: {device}, shape {name} with random weights, {part}, median of {figure['n']}"
    return values, sources


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
        "--gpu_results",
        type=Path,
        nargs="+",
        help="Outputs of benchmarks/gpu.py; their figures replace those that are not measured.",
    )
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    files = given.pop("gpu_results", [])
    for name, value in given.items():
        if value <= 0:
            parser.error(f"--{name} must be above 0, got {value:g}.")
        if name.endswith("share") and value > 1:
            parser.error(f"--{name} is a share, at most 1, got {value:g}.")
    sources = dict(SOURCES)
    if files:
        trained = "lora" if given.get("train_operations") == 4 else "full"
        try:
            found, origins = measured_rates(files, trained)
        except ValueError as error:
            parser.error(str(error))
        sources |= origins | dict.fromkeys(given, "given")
        given = found | given
    work, rates = (part(**{f.name: given[f.name] for f in fields(part) if f.name in given}) for part in (Work, Rates))
    print(table(work, rates))
    for part in (work, rates):
        for field in fields(part):
            origin = "given" if field.name in given and not files else sources.get(field.name, "default")
            print(f"{field.name} = {getattr(part, field.name):g}  ({origin})")


if __name__ == "__main__":
    main()
