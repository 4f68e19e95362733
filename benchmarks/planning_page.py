"""Fill the tables of `benchmarks/PLANNING.md`: hours and memory of a run of the paper's size, from the figures of `gpu.py` where there are some.

    python benchmarks/planning_page.py [--gpu_results gpu.json ...]

The arithmetic of the hours is `plan.py`'s, that of the memory `gpu_model.memory`. Without figures every rate says what it is projected from.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gpu_model import SHAPES, Part, Sizes, memory
from plan import SOURCES, Rates, Work, measured_rates, plan

PAGE = Path(__file__).with_name("PLANNING.md")
BEGIN, END = "<!-- figures: begin, by benchmarks/planning_page.py -->", "<!-- figures: end -->"
SHAPE = "llama-3.1-8b"
#: The run of `--config paper_backend`: 5,000 tasks, three dialogues each, candidates at 15,000 turns, 1,000 test tasks for two policies.
PAPER = Work(tasks=5_000, state_share=0.2)
#: Formula of the seconds of each stage; the symbols are explained on the page.
FORMULAS = {
    "collect": "max(E (T a / (G S) + 2 N (q + T u) / R), E T u / H, E / (g cores))",
    "critic": "2 · 0.5 tasks · 2 (d + c) · N (4 k + 2) / F",
    "candidates": "s (16 a / (G S) + 2 N p / R)",
    "rank": "2 · 2 N (s (p + c) + 16 s a) / R",
    "actor": "s · 4 · 2 (p + a) · N (k + 2) / F",
    "evaluate": "as collect, with 2,000 for E",
}


@dataclass(frozen=True)
class Setting:
    """A column of the tables.

    Attributes:
        title: Its heading.
        trained: "lora" or "full".
        gpus: GPUs of the agent.
        engine: Part of `gpu.py` that gives the rate of sampling.
        sampled: That rate where it is not measured, in tokens a second and GPU.
        sampled_from: What it is projected from.
    """

    title: str
    trained: str
    gpus: int
    engine: str
    sampled: float
    sampled_from: str

    def part(self, what: str) -> Part:
        """What a stage's memory is estimated as; activations are recomputed, as in configs/paper_backend.yaml."""
        is_training = what in ("critic", "actor")
        return Part(what, self.trained if is_training else "", "", is_training and self.gpus > 1, is_training)


SETTINGS = (
    Setting(
        "1 GPU, LoRA", "lora", 1, "sampling", 2_000, "1 GPU: not measured here: our engine, assumed to have half of vLLM's rate"
    ),
    Setting("8 GPUs, all weights, FSDP", "full", 8, "sampling_vllm", Rates.sampled, f"8 GPUs: {SOURCES['sampled']}"),
)
#: The kind of work of each stage.
KINDS = {
    "collect": "sampling", "critic": "critic", "candidates": "sampling", "rank": "ranking", "actor": "actor", "evaluate": "sampling",
}  # fmt: skip


def rates_of(setting: Setting, files: Sequence[Path]) -> tuple[Rates, dict[str, str]]:
    """Rates of a setting and where each is from."""
    values, sources = measured_rates(files, setting.trained, [setting.engine])
    rates = Rates(
        gpus=setting.gpus, train_operations=4 if setting.trained == "lora" else 6, parameters=SHAPES[SHAPE].parameters
    )
    return replace(rates, **{"sampled": setting.sampled, **values}), {**SOURCES, "sampled": setting.sampled_from, **sources}


def memory_gib(setting: Setting, stage: str) -> float:
    """Estimate of a GPU's peak memory in a stage."""
    kind, shape = KINDS[stage], SHAPES[SHAPE]
    needed = memory(shape, setting.part(kind), Sizes(), setting.gpus)["sum"]
    if (
        kind == "ranking" and setting.trained == "full"
    ):  # critic and reference; with LoRA, the reference is the critic without its adapter
        needed += shape.parameters * 2 / 2**30
    return needed


def longest(setting: Setting) -> float:
    """As `memory_gib`, of the critic with the longest pair that configs/paper_backend.yaml lets through: 8,192 tokens a side."""
    sizes = Sizes()
    longer = replace(sizes, request=8192 - (sizes.dialogue - sizes.request) - sizes.hidden)
    return memory(SHAPES[SHAPE], setting.part("critic"), longer, setting.gpus)["sum"]


def measured_memory(files: Sequence[Path]) -> list[str]:
    """Lines on the peak memory of the parts of `gpu.py`, beside the estimate."""
    lines = []
    for file in files:
        found: dict[str, Any] = json.loads(file.read_text())
        for name, shape in found["shapes"].items():
            peaks = {part: figures.get("peak_memory_gib") for part, figures in shape["parts"].items()}
            said = ", ".join(f"{part} {peak:.1f}" for part, peak in peaks.items() if peak)
            lines += [f"Peak memory measured on {found['device']['name']}, {name}, in GiB: {said}.", ""] if said else []
    return lines


def figures(files: Sequence[Path] = ()) -> str:
    """The generated section of the page."""
    columns = []
    for setting in SETTINGS:
        rates, sources = rates_of(setting, files)
        columns.append((setting, rates, sources, {stage.name: stage for stage in plan(PAPER, rates)}))
    heads = " | ".join(f"{s.title}: hours | waits for | GiB a GPU" for s in SETTINGS)
    lines = [f"| stage | {heads} |", "|---|" + "---|" * 3 * len(SETTINGS)]
    for name in FORMULAS:
        cells = [
            f"{own[name].seconds / 3600:.2f} | {own[name].bottleneck} | {memory_gib(s, name):.0f}" for s, _, _, own in columns
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    sums = [f"{sum(own[name].seconds for name in FORMULAS) / 3600:.2f} | | " for _, _, _, own in columns]
    lines += [f"| all | {' | '.join(sums)} |", ""]
    too_long = ", ".join(f"{longest(s):.0f} GiB ({s.title})" for s in SETTINGS)
    lines += [f"With the longest pair that the critic's stage lets through (8,192 tokens a side): {too_long}.", ""]
    lines += measured_memory(files)
    heads = " | ".join(s.title for s in SETTINGS)
    lines += [f"| rate | {heads} | from |", "|---|" + "---|" * len(SETTINGS) + "---|"]
    for field in fields(Rates):
        if field.name in SOURCES:
            values = " | ".join(f"{getattr(rates, field.name):g}" for _, rates, _, _ in columns)
            origins = list(dict.fromkeys(sources[field.name] for _, _, sources, _ in columns))
            lines.append(f"| `{field.name}` | {values} | {'; '.join(origins)} |")
    lines += ["", "| stage | seconds |", "|---|---|", *(f"| {name} | {formula} |" for name, formula in FORMULAS.items())]
    return "\n".join(lines) + "\n"


def filled(page: str, files: Sequence[Path] = ()) -> str:
    """The page with a new generated section."""
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    return f"{before}{BEGIN}\n\n{figures(files)}\n{END}{after}"


def main() -> None:
    """Rewrite the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu_results", type=Path, nargs="+", default=[], help="Outputs of benchmarks/gpu.py.")
    try:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), parser.parse_args().gpu_results), encoding="utf-8")
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
