"""Policies by name: run folders, model folders and hub names, chat servers, scripted policies, a person, a user's own.

A policy of a run folder, or of a model folder inside one, brings the settings that it was trained with; settings given on the command line
override them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from colbench_gym.agents.chat import PREFIX, short_name, split_name
from colbench_gym.agents.prompts import PROMPT_OF
from colbench_gym.evaluation.folder import labelled, unique_names
from colbench_gym.stage_records import FILE, StageRecords
from sandboxes.named import nearest
from sweetrl_agent.config.evaluate import MODEL_SETTINGS
from sweetrl_agent.config.job import Config

SCRIPTED = ("random", "oracle", "person")
#: Length of a message of a chat model that we did not train, in tokens, as in the paper; and dialogues at once on a chat server.
PRETRAINED_TOKENS, CHAT_CONCURRENCY = 1024, 16
#: Names of the policies of a run folder besides the names of algorithms; the first is the model as it came, with the prompt `eval_pretrained`.
PRETRAINED, INITIAL, TRAINED = "pretrained", "initial", "trained"
_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
Kind = str


@dataclass(frozen=True, eq=False)
class PolicySpec:
    """A policy as it was named.

    Attributes:
        name: Its name in the results.
        text: What it is, without the name.
        kind: "scripted", "chat", "run", "model" or "own".
        place: The folder of a run, or the folder or hub name of a model.
        which: Of a run: the algorithm, "initial" or "trained".
        settings: Settings that its run folder brings; {} without one.
    """

    name: str
    text: str
    kind: Kind
    place: str = ""
    which: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_model(self) -> bool:
        """Whether it is a language model in this process, or on the servers of `engine`."""
        return self.kind in ("run", "model")

    @property
    def is_sequential(self) -> bool:
        """Whether it holds one dialogue at a time."""
        return self.text == "person"

    @property
    def model(self) -> str:
        """Name of its model in a file of prices."""
        return split_name(self.text)[0] if self.kind == "chat" else self.name

    def sampling(self, config: Config) -> dict[str, Any]:
        """What its rows depend on, for `settings.json`."""
        if self.kind in ("scripted", "own"):
            return {"policy": self.text}
        names = [name for name in MODEL_SETTINGS if name not in ("server_urls", "generation_batch")]
        names = ["system_prompt", "reasoning", "max_new_tokens", "temperature"] if self.kind == "chat" else names
        return {"policy": self.text, "model": self.model, **{name: getattr(config.model, name) for name in names}}


def find_policies(texts: Sequence[str]) -> list[PolicySpec]:
    """The policies of the command line, each with a name of its own.

    Raises:
        ValueError: If one of them is unknown, or two have the same name.
    """
    if not texts:
        raise ValueError("Name a policy first, such as random, a run folder, or openai:MODEL@http://HOST:PORT/v1.")
    given = [("", text) if Path(text).exists() else labelled(text) for text in texts]
    found = [_spec(text) for _, text in given]
    names = unique_names(
        [name or spec.text for (name, _), spec in zip(given, found, strict=True)],
        [name or spec.name for (name, _), spec in zip(given, found, strict=True)],
    )
    return [
        PolicySpec(name, spec.text, spec.kind, spec.place, spec.which, spec.settings)
        for name, spec in zip(names, found, strict=True)
    ]


def _spec(text: str) -> PolicySpec:
    if text.startswith(PREFIX):
        split_name(text)
        return PolicySpec(short_name(text), text, "chat")
    if text in SCRIPTED:
        return PolicySpec(text, text, "scripted")
    folder, colon, which = text.rpartition(":") if not Path(text).is_dir() else (text, "", "")
    if colon and Path(folder).is_dir() and _is_run(Path(folder)):
        return _of_run(text, Path(folder), which)
    path = Path(text).expanduser()
    if path.is_dir():
        return _of_folder(text, path)
    if _OBJECT.fullmatch(text):
        return PolicySpec(short_name(text), text, "own")
    if path.parent != Path() and path.parent.is_dir():  # a folder of the user's, and no owner on the hub
        raise ValueError(
            f"`policies` names no folder: {text[:200]!r}.{nearest(text, [str(one) for one in path.parent.iterdir()])}"
        )
    if text.startswith(("/", ".", "~")) or ":" in text or text.count("/") > 1:
        raise ValueError(
            f"`policies` takes run folders, model folders, hub names, openai:MODEL@URL, {', '.join(SCRIPTED)} and module:NAME; "
            f"{text[:200]!r} names no folder."
        )
    if "/" not in text and (near := nearest(text, SCRIPTED)):
        raise ValueError(f"`policies` names no folder and no policy: {text[:200]!r}.{near}")
    return PolicySpec(text.rpartition("/")[2], text, "model", text)


def _of_folder(text: str, path: Path) -> PolicySpec:
    if _is_run(path):
        return _of_run(text, path, TRAINED)
    if not any((path / name).exists() for name in ("config.json", "adapter_config.json")):
        seeds = sorted(one.name for one in path.glob("seed_*") if _is_run(one))
        hint = f"; it is a comparison, name one of its seeds, such as {path / seeds[0]}:ALGORITHM" if seeds else ""
        raise ValueError(f"`policies`: {text!r} is neither a run folder (config.yaml) nor a model folder (config.json){hint}.")
    above = next((one for one in path.resolve().parents[:2] if _is_run(one)), None)
    return PolicySpec(path.resolve().name, text, "model", str(path), settings=read_run(above) if above else {})


def _of_run(text: str, folder: Path, which: str) -> PolicySpec:
    settings = read_run(folder)
    name = folder.resolve().name if which == TRAINED else f"{folder.resolve().name}/{which}"
    if which == PRETRAINED and settings.get("eval_pretrained") and settings.get("model", "tiny") != "tiny":
        as_it_came = {**settings, "system_prompt": settings["eval_pretrained"]}
        return PolicySpec(name, text, "model", str(settings["model"]), settings=as_it_came)
    return PolicySpec(name, text, "run", str(folder), which, settings)


def _is_run(folder: Path) -> bool:
    return (folder / "config.yaml").is_file() and not (folder / "settings.json").exists()  # which an evaluation has


def read_run(folder: Path) -> dict[str, Any]:
    """The settings in a run folder's config.yaml.

    Raises:
        ValueError: If the file does not hold settings.
    """
    path = folder / "config.yaml"
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{path} does not hold the settings of a run: {' '.join(str(error).split())[:200]}.") from None
    if not isinstance(found, dict) or "env" not in found:
        raise ValueError(f"{path} does not hold the settings of a run; give another folder.")
    recorded = StageRecords(folder).settings
    changed = [name for name, value in recorded.items() if found.get(name) != value]
    if changed:
        raise ValueError(
            f"{path} is not as the run wrote it ({changed[0]}: {recorded[changed[0]]!r} in {FILE}, {found.get(changed[0])!r} here); restore it, or "
            "give the run's command again, which writes it again."
        )
    return found


def pretrained_defaults(spec: PolicySpec, env: str) -> dict[str, Any]:
    """Defaults of settings for a chat model that we did not train: our prompt of the environment, and room for a whole program or page."""
    if spec.kind != "chat" and (spec.kind != "model" or spec.settings):
        return {}
    return {
        "system_prompt": PROMPT_OF.get(env, ""),
        "max_new_tokens": PRETRAINED_TOKENS,
        **({"generation_batch": CHAT_CONCURRENCY} if spec.kind == "chat" else {}),
    }
