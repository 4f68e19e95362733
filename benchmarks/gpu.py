"""Speed and memory on one GPU, within minutes, on the shapes of Qwen2.5-1.5B and Llama-3.1-8B with random weights.

    PYTHONPATH=. python benchmarks/gpu.py --output gpu.json                        # on a GPU
    PYTHONPATH=. python benchmarks/gpu.py --dry_run                                # what would run, and its memory by estimate
    PYTHONPATH=. python benchmarks/gpu.py --device cpu --shape tiny                # the same code on a CPU: the figures mean nothing

Nothing is downloaded: speed and memory do not depend on the weights, but what the models say is noise. Parts:

    sampling, sampling_vllm     tokens a second of 128 concurrent dialogues of six turns, with our continuous batching and with vLLM
    ranking                     16 candidates of a turn, with a shared prompt and each by itself
    critic_*, actor_*           tokens a second of training steps with the paper's batch, with LoRA and of all weights
    *_fsdp                      the same under `accelerate launch` with configs/accelerate/fsdp.yaml and one process

Every part runs in its own process on a GPU, so that its peak memory is its own and its failure is only its own. Figures have n, median and range.
Shares of the peak count 6 operations per weight and token for all weights, 4 with LoRA, and attention; not what gradient checkpointing computes
twice. `planning_page.py --gpu_results gpu.json` projects a run of the paper's size.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gpu_model import PARTS, SHAPES, SMALL, Sizes, described, memory

ROOT = Path(__file__).resolve().parents[1]
FSDP = ROOT / "sweetrl_agent" / "configs" / "accelerate" / "fsdp.yaml"
WEIGHTS = "random, from a config: nothing was downloaded, and what the models say is noise"
#: Memory that a dry run compares with where there is no GPU: that of an H100.
H100_GIB = 79.1
Figures = dict[str, Any]


def sizes_on(device: str) -> Sizes:
    """Sizes of the dialogues."""
    return Sizes() if device == "cuda" else SMALL


def command(name: str, shape: str, given: argparse.Namespace, folder: str, result: str) -> list[str]:
    """The command of the process that measures a part."""
    launcher: list[str] = []
    if name in PARTS and PARTS[name].is_fsdp:
        launcher = ["-m", "accelerate.commands.launch", "--num_processes", "1", "--num_machines", "1", "--dynamo_backend", "no"]
        launcher += ["--config_file", str(FSDP)] if given.device == "cuda" else ["--cpu", "--mixed_precision", "no"]
    own = ["--device", given.device, "--shape", shape, "--repeats", str(given.repeats)]
    return [sys.executable, *launcher, __file__, *own, "--worker", name, folder, result]


def work(name: str, shape: str, given: argparse.Namespace, folder: str) -> Figures:
    """Measure a part in this process."""
    import gpu_parts
    import gpu_words

    if name == "build":
        return gpu_words.build(SHAPES[shape], Path(folder), given.device)
    found = gpu_parts.measure(name, SHAPES[shape], sizes_on(given.device), folder, given.device, given.repeats)
    if PARTS[name].is_fsdp and given.device == "cpu":
        found["note"] = "launched by accelerate without FSDP, which shards on GPUs only"
    return found


def in_own_process(name: str, shape: str, given: argparse.Namespace, folder: str, limit_s: float) -> Figures:
    """Measure a part in another process; a failure or a timeout is a result."""
    if limit_s < 20:
        return {"gap": "not run: the time limit was reached before"}
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "result.json"
        line = command(name, shape, given, folder, str(result))
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        try:
            done = subprocess.run(
                line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s
            )
        except subprocess.TimeoutExpired:
            return {"failure": f"stopped after {limit_s:.0f} s, at the time limit"}
        if not result.exists():
            return {"failure": f"exit status {done.returncode}: {done.stdout[-1500:]}"}
        found: Figures = json.loads(result.read_text())
        return found


def gap(name: str, shape: str, device: str, memory_gib: float | None) -> str:
    """Why a part cannot run; "" if it can."""
    if PARTS[name].engine == "vllm" and importlib.util.find_spec("vllm") is None:
        return "vLLM is not installed here: `pip install vllm`"
    needed = memory(SHAPES[shape], PARTS[name], sizes_on(device))["sum"]
    if memory_gib is not None and needed > memory_gib:
        return f"needs about {needed:.0f} GiB by estimate, more than {memory_gib:.0f}"
    return ""


def show_plan(given: argparse.Namespace) -> None:
    """Print what would run, with an estimate of its memory."""
    sizes = sizes_on(given.device)
    print(f"Weights: {WEIGHTS}. Dialogues: {sizes}.")
    for shape in given.shape:
        print(f"\n{shape}: {SHAPES[shape].parameters / 1e9:.2f} billion parameters; fits means {given.memory_gib:.0f} GiB")
        for name in given.parts:
            found = memory(SHAPES[shape], PARTS[name], sizes)
            parts = ", ".join(f"{what} {value:.1f}" for what, value in found.items() if what != "sum")
            reason = gap(name, shape, given.device, given.memory_gib)
            print(f"  {name:17} about {found['sum']:6.1f} GiB ({parts})  {'NOT RUN: ' + reason if reason else 'runs'}")
            if PARTS[name].is_fsdp:
                print(f"  {'':17} {' '.join(command(name, shape, given, 'MODEL', 'RESULT')[1:])}")


def measure_all(given: argparse.Namespace) -> Figures:
    """Measure the parts of all shapes; the output file is written after each."""
    end = time.monotonic() + given.limit_s
    found = begun(given)
    for shape in given.shape:
        with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
            built = run("build", shape, given, folder, end)
            if "device" not in built:
                raise SystemExit(f"{shape}: the model was not built ({built.get('failure') or built.get('gap')}).")
            found["device"] = built["device"]
            own = found["shapes"].setdefault(shape, {"parts": {}})
            own |= {**described(SHAPES[shape]), "sizes": asdict(sizes_on(given.device)), "build_s": built["seconds"]}
            for name in given.parts:
                reason = gap(name, shape, given.device, built["device"]["memory_gib"])
                own["parts"][name] = {"gap": reason} if reason else run(name, shape, given, folder, end)
                compare(own["parts"])
                print(json.dumps({shape: {name: own["parts"][name]}}), flush=True)
                if given.output:
                    given.output.parent.mkdir(parents=True, exist_ok=True)
                    given.output.write_text(json.dumps(found, indent=2) + "\n")
    return found


def run(name: str, shape: str, given: argparse.Namespace, folder: str, end: float) -> Figures:
    """Measure a part: on a GPU, or under a launcher, in its own process."""
    if given.device == "cuda" or (name in PARTS and PARTS[name].is_fsdp):
        return in_own_process(name, shape, given, folder, end - time.monotonic())
    return work(name, shape, given, folder)


def compare(parts: Figures) -> None:
    """Add the speed of FSDP at one process to its part, as a ratio to the same part without."""
    for name, part in parts.items():
        plain = parts.get(name.removesuffix("_fsdp"), {})
        if name.endswith("_fsdp") and "tokens_per_second" in part and "tokens_per_second" in plain:
            part["speed_ratio_to_plain"] = part["tokens_per_second"]["median"] / plain["tokens_per_second"]["median"]


def begun(given: argparse.Namespace) -> Figures:
    """What stands above the figures; shapes of an earlier output file are kept."""
    packages = {}
    for name in ("torch", "triton", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "vllm"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    kept = json.loads(given.output.read_text())["shapes"] if given.output and given.output.exists() else {}
    return {
        "weights": WEIGHTS,
        "when": datetime.now(UTC).date().isoformat(),
        "python": sys.version.split()[0],
        "versions": packages,
        "repeats": given.repeats,
        "device": {},
        "shapes": kept,
    }


def parsed(words: list[str] | None) -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES), default=["qwen2.5-1.5b", "llama-3.1-8b"])
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=3, help="measured repetitions; training has steps instead")
    parser.add_argument(
        "--limit_s", type=float, default=3600, help="parts that would begin or end after these seconds are left out"
    )
    parser.add_argument("--scratch", help="folder for the weights, 16 GB for 8B; /dev/shm is fastest")
    parser.add_argument("--output", type=Path, help="JSON; parts of other shapes that are in it are kept")
    parser.add_argument("--dry_run", action="store_true", help="print what would run")
    parser.add_argument("--memory_gib", type=float, default=H100_GIB, help="memory that --dry_run compares with")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.device == "cpu" and given.shape != ["tiny"]:
        parser.error("--device cpu is for --shape tiny: it tests the code, and larger shapes would take hours.")
    return given


def main(words: list[str] | None = None) -> None:
    """Measure and print; write the figures if `--output` is given."""
    given = parsed(words)
    if given.worker:
        name, folder, result = given.worker
        Path(result).write_text(json.dumps(work(name, given.shape[0], given, folder)))
        return
    if given.dry_run:
        show_plan(given)
        return
    if given.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            print("No GPU here: nothing was measured. `--device cpu --shape tiny` runs the same code on a CPU.")
            return
    measure_all(given)


if __name__ == "__main__":
    main()
