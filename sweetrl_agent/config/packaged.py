"""The initial policy of the default settings, which comes with the package: the SFT stage has the same result for everyone.

`train` uses it in place of SFT if all settings that shape SFT are those it was made with, and its files are intact. `compare` never does: intervals
over seeds include the variance of SFT, so it makes an initial policy for every seed. `docs/tools/packaged_policy.py` makes the files; a test fails if they are stale.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError

FOLDER = Path(__file__).parents[1] / "models" / "initial"
#: How the files were made: settings, checksums, losses, versions.
RECORD = "made_from.json"
#: Settings of the task that shape the demonstrations.
_TASK = ("env", "env_kwargs", "env_record", "demonstrations", "max_turns", "on_error")
#: Settings of SFT that do not shape the tiny model.
_OTHERS = ("initial_policy", "sft_micro_batch")


def shaping_settings(config: Any) -> dict[str, Any]:
    """The settings that shape the result of SFT, by their flat names.

    Args:
        config: All settings (`config.job.Config`).
    """
    task = asdict(config.task)
    sft = {name: value for name, value in asdict(config.sft).items() if name not in _OTHERS}
    return {
        "seed": config.run.seed,
        "model": config.model.model,
        "gradient_checkpointing": config.model.gradient_checkpointing,
        **{name: task[name] for name in _TASK},
        "tasks": config.record.full_name(task["tasks"]),
        "tests_from_tasks": not task["test_tasks"],  # then a fifth of the tasks is not trained on
        **sft,
    }


def differences(config: Any, folder: Path = FOLDER) -> list[str]:
    """Settings in which a run differs from those that the packaged policy was made with; empty if the packaged policy fits.

    Args:
        config: All settings.
        folder: Folder of the packaged policy.

    Returns:
        Parts of a sentence, such as "seed 3 (0 there)".
    """
    made = made_from(folder)["settings"]
    here = shaping_settings(config)
    return [
        f"{name} {here.get(name)!r} ({made.get(name)!r} there)" for name in {**made, **here} if made.get(name) != here.get(name)
    ]


def made_from(folder: Path = FOLDER) -> dict[str, Any]:
    """How the packaged policy was made: "settings", "sha256" of its files, "demonstrations", "losses", "versions", "command".

    Raises:
        ColBenchError: If the record is missing or not JSON.
    """
    try:
        found: dict[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ColBenchError(
            f"The initial policy of the package is not intact ({folder / RECORD}: {error}); install the package again, or give `--initial_policy sft`."
        ) from None
    return found


def copy_to(target: Path, folder: Path = FOLDER) -> None:
    """Copy the packaged policy into a folder, after a check of all its files.

    Args:
        target: The folder; created if it does not exist.
        folder: Folder of the packaged policy.

    Raises:
        ColBenchError: If a file differs from its checksum.
    """
    expected = made_from(folder)["sha256"]
    for name, checksum in expected.items():
        if not (folder / name).is_file() or sha256(folder / name) != checksum:
            raise ColBenchError(
                f"The initial policy of the package is not intact ({folder / name} has another checksum); install the package again, or give "
                "`--initial_policy sft`."
            )
    target.mkdir(parents=True, exist_ok=True)
    for name in expected:
        shutil.copyfile(folder / name, target / name)


def sha256(path: Path) -> str:
    """Checksum of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
