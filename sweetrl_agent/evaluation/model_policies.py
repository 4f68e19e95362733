"""Policies that are language models, by name: run folders, model folders and hub names. With `colbench_gym`'s own they are `KINDS`.

A policy of a run folder, or of a model folder inside one, brings the settings that it was trained with; settings given on the command line
override them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from colbench_gym.agents.prompts import PROMPT_OF
from colbench_gym.evaluation.policies import SCRIPTED, PolicySpec, chat_policy, own_policy, scripted_policy
from colbench_gym.stage_records import FILE, StageRecords
from sandboxes.named import nearest

#: Length of a message of a chat model that we did not train, in tokens, as in the paper; and dialogues at once on a chat server.
PRETRAINED_TOKENS, CHAT_CONCURRENCY = 1024, 16
#: Names of the policies of a run folder besides the names of algorithms; the first is the base model, with the prompt `eval_pretrained`.
PRETRAINED, INITIAL, TRAINED = "pretrained", "initial", "trained"


@dataclass(frozen=True)
class ModelSpec(PolicySpec):
    """A language model in this process, or on the servers of `engine`. Its kind is "run" or "model".

    Attributes:
        place: The folder of a run, or the folder or hub name of a model.
        which: Of a run: the algorithm, "initial" or "trained".
        settings: Settings that its run folder brings; {} without one.
    """

    place: str = ""
    which: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def parts(self) -> tuple[ModelSpec, ...]:
        """The policies that it is made of, each once: itself, if it is none of several."""
        return (self,)


def run_settings(spec: PolicySpec | None) -> Mapping[str, Any]:
    """Settings that the run folder of a policy brings; {} without one."""
    return spec.settings if isinstance(spec, ModelSpec) else {}


def folder_policy(text: str) -> ModelSpec | None:
    """A policy of a run folder, or a model folder.

    Raises:
        ValueError: If the folder holds neither.
    """
    folder, colon, which = text.rpartition(":") if not Path(text).is_dir() else (text, "", "")
    if colon and Path(folder).is_dir() and _is_run(Path(folder)):
        return _of_run(text, Path(folder), which)
    path = Path(text).expanduser()
    return _of_folder(text, path) if path.is_dir() else None


def hub_policy(text: str) -> ModelSpec:
    """A model of the hub: what no other kind knows.

    Raises:
        ValueError: If the text rather names a folder or a policy that does not exist.
    """
    path = Path(text).expanduser()
    if path.is_file():
        raise ValueError(
            f"`policies` takes folders of models, and {text[:200]!r} is a file; a policy of your own code is named by module:NAME."
        )
    if path.parent != Path() and path.parent.is_dir():  # a folder of the user's, and no owner on the hub
        raise ValueError(
            f"`policies` names no folder: {text[:200]!r}.{nearest(text, [str(entry) for entry in path.parent.iterdir()])}"
        )
    if text.startswith(("/", ".", "~")) or ":" in text or text.count("/") > 1:
        raise ValueError(
            f"`policies` takes run folders, model folders, hub names, openai:MODEL@URL, {', '.join(SCRIPTED)} and module:NAME; "
            f"{text[:200]!r} names no folder."
        )
    if "/" not in text and (near := nearest(text, SCRIPTED)):
        raise ValueError(f"`policies` names no folder and no policy: {text[:200]!r}.{near}")
    return ModelSpec(text.rpartition("/")[2], text, "model", text)


def member_policy(text: str) -> ModelSpec:
    """A policy of a team or a mixture: of a run folder, a model folder, or a model of the hub.

    Raises:
        ValueError: If it is of another kind, or does not exist.
    """
    of_folder = folder_policy(text)
    if of_folder is None and (text in SCRIPTED or ":" in text):
        raise ValueError(
            f"`policies`: the agents of a team or a mixture are run folders (RUN or RUN:ALGORITHM), model folders and hub names, and {text[:200]!r} is none of these."
        )
    return of_folder or hub_policy(text)


KINDS = (chat_policy, scripted_policy, folder_policy, own_policy, hub_policy)


def _of_folder(text: str, path: Path) -> ModelSpec:
    if _is_run(path):
        return _of_run(text, path, TRAINED)
    if not any((path / name).exists() for name in ("config.json", "adapter_config.json")):
        seeds = sorted(entry.name for entry in path.glob("seed_*") if _is_run(entry))
        hint = f"; it is a comparison, name one of its seeds, such as {path / seeds[0]}:ALGORITHM" if seeds else ""
        raise ValueError(f"`policies`: {text!r} is neither a run folder (config.yaml) nor a model folder (config.json){hint}.")
    above = next((entry for entry in path.resolve().parents[:2] if _is_run(entry)), None)
    return ModelSpec(path.resolve().name, text, "model", str(path), settings=read_run(above) if above else {})


def _of_run(text: str, folder: Path, which: str) -> ModelSpec:
    settings = read_run(folder)
    name = folder.resolve().name if which == TRAINED else f"{folder.resolve().name}/{which}"
    if which == PRETRAINED and settings.get("eval_pretrained") and settings.get("model", "tiny") != "tiny":
        untrained = {**settings, "system_prompt": settings["eval_pretrained"]}
        return ModelSpec(name, text, "model", str(settings["model"]), settings=untrained)
    return ModelSpec(name, text, "run", str(folder), which, settings)


def _is_run(folder: Path) -> bool:
    return (folder / "config.yaml").is_file() and not (folder / "settings.json").exists()  # which an evaluation has


def read_run(folder: Path) -> dict[str, Any]:
    """The settings in a run folder's config.yaml.

    Raises:
        ValueError: If the file does not hold settings.
    """
    path = folder / "config.yaml"
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{path} does not hold the settings of a run: {' '.join(str(error).split())[:200]}.") from None
    if not isinstance(settings, dict) or "env" not in settings:
        raise ValueError(f"{path} does not hold the settings of a run; give another folder.")
    recorded = StageRecords(folder).settings
    changed = [name for name, value in recorded.items() if settings.get(name) != value]
    if changed:
        raise ValueError(
            f"{path} is not as the run wrote it ({changed[0]}: {recorded[changed[0]]!r} in {FILE}, {settings.get(changed[0])!r} here); restore it, or "
            "give the run's command again, which writes it again."
        )
    return settings


def pretrained_defaults(spec: PolicySpec, env: str) -> dict[str, Any]:
    """Defaults of settings for a chat model that we did not train: our prompt of the environment, and room for a whole program or page."""
    if spec.kind != "chat" and (spec.kind != "model" or run_settings(spec)):
        return {}
    return {
        "system_prompt": PROMPT_OF.get(env, ""),
        "max_new_tokens": PRETRAINED_TOKENS,
        **({"generation_batch": CHAT_CONCURRENCY} if spec.kind == "chat" else {}),
    }
