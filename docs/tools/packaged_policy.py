"""Make the initial policy that comes with the package, by the SFT stage at the default settings (two to four minutes on two cores).

    python -m docs.tools.packaged_policy

Run it in a checkout, after a change of the embedded tasks, the demonstrations, the tiny model or SFT; tests/sweetrl_agent/config/test_packaged.py fails until then.
Weights are stored in bfloat16, which halves the file; training and evaluation load them in the dtype of the run. Processors round differently, so
another machine makes other bits of the same quality.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from colbench_gym.files import read_rows, write_json
from sweetrl_agent.config.command_line import prepare_process
from sweetrl_agent.config.packaged import FOLDER, RECORD, sha256, shaping_settings
from sweetrl_agent.core.environment import Demonstrations

#: Steps whose losses are recorded, for the test that SFT still begins alike.
RECORDED_STEPS = 10
WEIGHTS = "model.safetensors"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the SFT stage and write the package's folder; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs.tools.packaged_policy", description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder to write (default: the package's)")
    folder = parser.parse_args(arguments).folder
    prepare_process()
    from sweetrl_agent.config.job import Config
    from sweetrl_agent.config.model import SFTArguments
    from sweetrl_agent.config.run import RunArguments
    from sweetrl_agent.core.algorithm import Algorithm
    from sweetrl_agent.trainers.run import Run
    from sweetrl_agent.trainers.sft_stage import train_initial

    with tempfile.TemporaryDirectory() as work:
        parts = {"run": RunArguments(output=work), "sft": SFTArguments(initial_policy="sft")}
        run = Run(Config(**parts, algorithms={"": Algorithm()}))  # nothing is trained after SFT
        train_initial(run)
        keep(run, folder)
    print(f"written: {folder}")
    return 0


def keep(run: Any, folder: Path) -> None:
    """Write the initial policy of a run, with a record of how it was made, to the package's folder.

    Args:
        run: A run whose SFT stage has ended.
        folder: Folder to write; replaced.
    """
    from sweetrl_agent.data.machine import versions
    from sweetrl_agent.trainers.sft_stage import demonstrations

    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run.path("initial"), folder)
    weights = {name: tensor.bfloat16() for name, tensor in load_file(folder / WEIGHTS).items()}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)
    losses = [row for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "sft" and row["step"] <= RECORDED_STEPS]
    record = {
        "command": "python -m docs.tools.packaged_policy",
        "settings": shaping_settings(run.config),
        "demonstrations": checksum(demonstrations(run)),
        "losses": {str(row["step"]): row["loss"] for row in losses},
        "sha256": {path.name: sha256(path) for path in sorted(folder.iterdir())},
        "versions": {name: value for name, value in versions().items() if name != "git_commit"},
    }
    write_json(folder / RECORD, record)


def checksum(dialogues: Demonstrations) -> str:
    """SHA-256 of demonstrated dialogues."""
    return hashlib.sha256(json.dumps(dialogues, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
