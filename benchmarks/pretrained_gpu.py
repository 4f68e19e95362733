"""A recipe of a pretrained model several times as large, on one GPU: time, speed, memory, and what the agent learns to ask.

    PYTHONPATH=. python benchmarks/pretrained_gpu.py --model FOLDER --output benchmarks/results/pretrained_gpu.json [--dry_run]

Every seed is a run of `train` in a process of its own; they run at the same time, since a small model leaves most of a GPU idle. The file is written again
after every stage, so what is done when the time is up is kept, and the same command resumes the runs. It has

    seeds: seconds of each stage (loading included), the GPU's peak memory, tokens sampled and trained and their rates (trained: without loading, from
        `timings.jsonl`), and the share of the GPU's peak. Operations: 2 per parameter and token that is sampled or read; a trained token has 2 more for each
        layer that the backward pass reaches. What is read is the forecast's work (`core.work`), as is what is trained where pairs share their dialogue.
        "share_of_peak" beside "seeds" is of all, over the wall time.
    agents, differences: as in the file of recipe_results.py.
    sampling: the first seed's candidates, sampled again by our engine and, if it is installed, by vLLM.

`--dry_run` does the same in about 110 CPU seconds, with the small model of the package.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from recipe_results import over_seeds

from colbench_gym.files import Row, count_rows, read_object, read_rows, write_json
from sweetrl_agent.algorithms.sweet_turns import candidates_of
from sweetrl_agent.config import files
from sweetrl_agent.config.packaged import FOLDER
from sweetrl_agent.config.reading import flat
from sweetrl_agent.core.callback import Callback
from sweetrl_agent.core.policy import sample_each
from sweetrl_agent.evaluation.recorded_run import open_recorded
from sweetrl_agent.models.loading import load_policy, load_tokenizer
from sweetrl_agent.models.shape import find_shape
from sweetrl_agent.train import run_train
from sweetrl_agent.trainers.gpus import here
from sweetrl_agent.trainers.lengths import find_lengths, known_dialogues
from sweetrl_agent.trainers.running import TRAINED_TOKENS
from sweetrl_agent.trainers.stage_work import works_of

SCALED = ("sft_dialogues", "num_tasks", "sweet.num_states")
ON_GPU = {"generation_batch": 512, "sft_batch": 8, "sft_micro_batch": 8, "sweet.actor_micro_batch": 32}
DRY = {
    "model": str(FOLDER), "lora_layers": 1, "system_prompt": "", "eval_pretrained": "brief", "max_new_tokens": 60, "sft_dialogues": 8, "num_tasks": 8,
    "sweet.num_states": 8, "sweet.num_candidates": 6, "eval_tasks": 4, "unseen_tasks": "", "novel_tasks": "", "hint_turns": 2, "shown_dialogues": 1, "sandbox": "embedded", "threads": 1,
}  # fmt: skip
SPOKEN = {"collect": "trajectories.jsonl", "candidates": "candidates.jsonl", "evaluate": "evaluation.jsonl"}
#: Turns whose candidates the engines sample again.
TURNS = 64


def main() -> int:
    """Run the seeds at the same time, then the engines one by one, and write the results as they come; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="qwen_1.5b_cpu")
    parser.add_argument("--model", default="", help="folder or hub name; by default the recipe's")
    parser.add_argument("--times", type=int, default=4, help=f"multiple of {', '.join(SCALED)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--peak_tflops", type=float, default=0.0, help="dense bfloat16 peak; by default that of the GPU's name")
    parser.add_argument("--folder", type=Path, default=Path("runs/pretrained_gpu"), help="folder of the runs")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--dry_run", action="store_true")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        (train if given.part[0] == "seed" else sample)(given, given.part[1])
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    engines = ["transformers", *(["vllm"] if importlib.util.find_spec("vllm") else [])]
    results: Row = {
        "settings": {name: value for name, value in vars(given).items() if name not in ("folder", "output", "part")}
    }
    start, failed = time.monotonic(), list[str]()
    for parts in ([("seed", str(seed)) for seed in given.seeds], *([("engine", engine)] for engine in engines)):
        are_seeds, left = parts[0][0] == "seed", {part: _start(given, *part) for part in parts}
        while left:
            time.sleep(1)
            ended = {part: process.returncode for part, process in left.items() if process.poll() is not None}
            failed += ["_".join(part) for part, status in ended.items() if status]
            left = {part: process for part, process in left.items() if part not in ended}
            results |= _measured(given, time.monotonic() - start) if are_seeds else {}
            results |= _learned(given) if are_seeds and ended else {}
            sampling = {path.stem.partition("_")[2]: read_object(path) for path in given.folder.glob("sampling_*.json")}
            write_json(given.output, {**results, "sampling": sampling, "failed": failed})
    return int(bool(failed))


def _start(given: argparse.Namespace, *part: str) -> subprocess.Popen[bytes]:
    with (given.folder / f"{'_'.join(part)}.log").open("ab") as log:
        return subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--part", *part], stdout=log, stderr=log)


def _measured(given: argparse.Namespace, seconds: float) -> Row:
    seeds = {str(seed): read_object(given.folder / f"seed_{seed}" / "measured.json") for seed in given.seeds}
    done = sum(stage["teraflop"] for of in seeds.values() for stage in of.get("stages", {}).values())
    peak = max(of.get("peak_tflops", 0.0) for of in seeds.values())
    return {"seconds": round(seconds, 1), "share_of_peak": done / seconds / peak if peak else None, "seeds": seeds}


def _learned(given: argparse.Namespace) -> Row:
    """What the agents of the seeds that have ended asked, heard and wrote down, and paired differences."""
    folders = {str(seed): given.folder / f"seed_{seed}" for seed in given.seeds}
    runs = {seed: open_recorded(str(path)) for seed, path in folders.items() if (path / "results.json").exists()}
    return over_seeds(runs) if runs else {}


def train(given: argparse.Namespace, seed: str) -> None:
    """Run the recipe with one seed."""
    recipe, folder = flat(files.read(given.config)), given.folder / f"seed_{seed}"
    settings = recipe | {name: given.times * recipe[name] for name in SCALED} | ON_GPU | (DRY if given.dry_run else {})
    settings |= {"output": str(folder), "seed": int(seed)} | ({"model": given.model} if given.model else {})
    run_train([Measure(folder / "measured.json", given.peak_tflops)], **settings)


class Measure(Callback):
    """Adds every stage that ends to a file; the peak is the GPU's, in TFLOP/s, or 0 for that of its name."""

    def __init__(self, path: Path, peak: float) -> None:
        """Take the peak of the GPU's name if none is given."""
        self.path, self.on_gpu = path, torch.cuda.is_available()
        self.peak = peak or (here().peak / 1e12 if self.on_gpu else 0.0)

    def on_stage_end(self, run: Any, stage: str, values: Any) -> None:
        """See `Callback`."""
        row = {**values, **tokens_of(run, stage, values["seconds"])}
        row |= {"gpu_peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)} if self.on_gpu else {}
        row |= {"share_of_peak": row["teraflop"] / values["seconds"] / self.peak} if self.peak and values["seconds"] else {}
        facts: Row = {"device": torch.cuda.get_device_name() if self.on_gpu else "cpu", "peak_tflops": self.peak}
        facts["turn_pairs"] = count_rows(run.artifact(run.algorithm.critic, "turn_pairs.jsonl"))
        facts["hint_reading"] = read_object(run.path("hint_reading.json"))
        write_json(self.path, {**facts, "stages": {**read_object(self.path).get("stages", {}), stage: row}})


def tokens_of(run: Any, stage: str, seconds: float) -> Row:
    """Tokens that a stage sampled and trained, their rates, its optimizer steps, and its operations in 10^12."""
    tokenizer, (shape, _) = load_tokenizer(run.initial_model, run.config.model), find_shape(run.config)
    work = works_of(run, run.stages, [run.algorithm], find_lengths(run, tokenizer, *known_dialogues(run)))[stage]
    rows = read_rows(run.path(SPOKEN[stage])) if stage in SPOKEN else []
    texts = [text for row in rows for text in row.get("texts") or [m["content"] for m in row["dialogue_history"][1::2]]]
    sampled = sum(len(tokenizer(text)["input_ids"]) + 1 for text in texts)  # and the end of the turn
    metrics, times = (
        [r for r in read_rows(run.path(f"{name}.jsonl")) if r["stage"] == stage] for name in ("metrics", "timings")
    )
    metrics = [r for r in metrics if TRAINED_TOKENS in r]  # not those of collected dialogues
    trained, steps = (int(metrics[-1][TRAINED_TOKENS]), int(metrics[-1]["step"])) if metrics else (0, 0)
    backward = min(run.config.model.lora_layers or shape.layers, shape.layers) / shape.layers
    row: Row = {"sampled": sampled, "trained": trained, "steps": steps}
    row |= {"sampled_per_s": round(sampled / seconds, 1)} if sampled and seconds else {}
    if metrics and times[-1]["seconds"]:  # the clock's last row is of the last logged step
        row["trained_per_s"] = round(trained * times[-1]["step"] / steps / times[-1]["seconds"], 1)
    passes = sampled + work.prompts + work.read + (1 + backward) * min(trained, work.trained)
    return row | {"teraflop": 2e-12 * shape.parameters * passes}


def sample(given: argparse.Namespace, engine: str) -> None:
    """Sample the first seed's candidates again, after a turn to warm up; loading is not counted."""
    run = open_recorded(str(given.folder / f"seed_{given.seeds[0]}"))
    policy = load_policy(run.initial_model, run.initial_model, replace(run.config.model, engine=engine))
    states = list(islice(candidates_of(run, run.algorithm.critic), TURNS))
    prompts = [episode.prefix(turn) for episode, turn, _ in states]
    seeds = [[1000 * number + i for i in range(len(candidates.texts))] for number, (*_, candidates) in enumerate(states)]
    sample_each(policy, prompts[:1], seeds[:1])
    start = time.perf_counter()
    tokens = sum(len(utterance.token_ids) for of_turn in sample_each(policy, prompts, seeds) for utterance in of_turn)
    rate = tokens / (time.perf_counter() - start)
    write_json(given.folder / f"sampling_{engine}.json", {"tokens": tokens, "tokens_per_s": round(rate, 1)})


if __name__ == "__main__":
    sys.exit(main())
