"""Fill the tables of `benchmarks/PLANNING.md`: hours and memory of a run of the paper's size, from the figures of `gpu.py` where there are some.

    python benchmarks/planning_page.py [--gpu_results gpu.json ...]

Hours and memory are those of `--dry_run --gpu` (`sweetrl_agent.trainers.gpu_plan`). Without figures every rate says what it is projected from.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sweetrl_agent.models.shape import SHAPES
from sweetrl_agent.train import parse
from sweetrl_agent.trainers.gpu_plan import SOURCES, Rates, rates_of, stage_memory, stage_time, training_memory
from sweetrl_agent.trainers.gpus import parse_gpus
from sweetrl_agent.trainers.planning import assumed_lengths, run_by_settings
from sweetrl_agent.trainers.stage_work import works_of

PAGE = Path(__file__).with_name("PLANNING.md")
BEGIN, END = "<!-- figures: begin, by benchmarks/planning_page.py -->", "<!-- figures: end -->"
SHAPE = SHAPES["llama-3.1-8b"]
#: The parts of `gpu.py` that give the share of the peak in training, the best known first, by what is trained.
TRAINED = {"full": ("critic_full_fsdp", "critic_full", "actor_full"), "lora": ("critic_lora", "critic_lora_fsdp", "actor_lora")}
#: Formula of the seconds of each stage; the symbols are explained on the page.
FORMULAS = {
    "collect": "max(E (T a / (G S) + 2 N (q + (T - 1) u) / R), E T u / H, E / (g cores))",
    "critic": "2 · 0.5 tasks · 2 (d + c) · N (4 k / F + 2 / R)",
    "candidates": "s (16 a / (G S) + 2 N p / R)",
    "rank": "2 · 2 N (s (p + c) + 16 s a) / R",
    "actor": "s · 4 · 2 (p + a) · N (k / F + 2 / R)",
    "evaluate": "as collect, with 2,000 for E, and the critic reads the dialogues that are shown",
}


@dataclass(frozen=True)
class Setting:
    """A column of the tables.

    Attributes:
        title: Its heading.
        trained: "lora" or "full".
        gpus: The GPUs, as in `--gpu`.
        engine: Part of `gpu.py` that gives the rate of sampling.
        changed: Settings that differ from configs/paper_backend.yaml.
    """

    title: str
    trained: str
    gpus: str
    engine: str
    changed: Mapping[str, Any]

    @property
    def config(self) -> Any:
        """All settings."""
        return parse(["--config", "paper_backend"]).with_settings(self.changed)


SETTINGS = (
    Setting(
        "1 GPU, LoRA", "lora", "1 x H100-80GB", "sampling", {"lora": True, "engine": "transformers", "generation_batch": 128}
    ),
    Setting("8 GPUs, all weights, FSDP", "full", "8 x H100-80GB", "sampling_vllm", {}),
)


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


def rates_and_sources(setting: Setting, files: Sequence[Path]) -> tuple[Rates, dict[str, str]]:
    """Rates of a setting and where each is from."""
    values, sources = measured_rates(files, setting.trained, [setting.engine])
    rates = rates_of(setting.config, SHAPE, parse_gpus(setting.gpus), has_server=True, has_sandbox=True)
    return replace(rates, **values), {**SOURCES, **sources}


def longest(setting: Setting) -> float:
    """Memory of the critic with the longest pair that configs/paper_backend.yaml lets through: 8,192 tokens a side."""
    return training_memory(SHAPE, 2 * 8192, setting.config.model, parse_gpus(setting.gpus).count)["sum"]


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
        rates, sources = rates_and_sources(setting, files)
        run, lengths, given = run_by_settings(setting.config), assumed_lengths(setting.config), parse_gpus(setting.gpus)
        works = works_of(run, run.stages, [run.algorithm], lengths)
        times = {name: stage_time(works[name], lengths, rates) for name in FORMULAS}
        memory = {name: stage_memory(SHAPE, works[name], lengths, setting.config.model, given) for name in FORMULAS}
        columns.append((rates, sources, times, memory))
    heads = " | ".join(f"{s.title}: hours | waits for | GiB a GPU" for s in SETTINGS)
    lines = [f"| stage | {heads} |", "|---|" + "---|" * 3 * len(SETTINGS)]
    for name in FORMULAS:
        cells = [f"{of[name].seconds / 3600:.2f} | {of[name].bottleneck} | {memory[name]:.0f}" for _, _, of, memory in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    sums = [f"{sum(of[name].seconds for name in FORMULAS) / 3600:.2f} | | " for _, _, of, _ in columns]
    lines += [f"| all | {' | '.join(sums)} |", ""]
    too_long = ", ".join(f"{longest(s):.0f} GiB ({s.title})" for s in SETTINGS)
    lines += [f"With the longest pair that the critic's stage lets through (8,192 tokens a side): {too_long}.", ""]
    lines += measured_memory(files)
    heads = " | ".join(s.title for s in SETTINGS)
    lines += [f"| rate | {heads} | from |", "|---|" + "---|" * len(SETTINGS) + "---|"]
    for field in fields(Rates):
        if field.name in SOURCES:
            values = " | ".join(f"{getattr(rates, field.name):g}" for rates, _, _, _ in columns)
            origins = list(dict.fromkeys(sources[field.name] for _, sources, _, _ in columns))
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
