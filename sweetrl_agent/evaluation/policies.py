"""Policies by name: run folders, model folders and hub names, chat servers, scripted policies, a person, a user's own.

A policy of a run folder, or of a model folder inside one, brings the settings that it was trained with; settings given on the command line
override them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from colbench_gym.agents.agent import Agent, FunctionAgent
from colbench_gym.agents.chat import PREFIX, Sampling, chat_agent, short_name, split_name
from colbench_gym.agents.person import PersonAgent
from colbench_gym.agents.prompts import PROMPT_OF
from colbench_gym.evaluation.folder import labelled, unique_names
from sweetrl_agent.config.evaluate import MODEL_SETTINGS
from sweetrl_agent.config.job import Config
from sweetrl_agent.core.actions import DialogueActions
from sweetrl_agent.core.agents import AgentPolicy, ConcurrentAgentPolicy
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.named import load_named
from sweetrl_agent.core.policy import Policy, Utterance

SCRIPTED = ("random", "oracle", "person")
#: Names of the policies of a run folder besides the names of algorithms.
INITIAL, TRAINED = "initial", "trained"
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
        names = ["system_prompt", "max_new_tokens", "temperature"] if self.kind == "chat" else names
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
    if text.startswith(("/", ".", "~")) or ":" in text or text.count("/") > 1:
        raise ValueError(
            f"`policies` takes run folders, model folders, hub names, openai:MODEL@URL, {', '.join(SCRIPTED)} and module:NAME; "
            f"{text[:200]!r} names no folder."
        )
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
    return found


def run_config(spec: PolicySpec) -> Config:
    """The configuration of a run folder, as it was trained."""
    settings = dict(spec.settings)
    registry = import_module("sweetrl_agent.algorithms.registry")
    if ":" in str(settings.get("algorithm")):
        registry.register(settings["algorithm"])
    engine = {"engine": "transformers"} if settings.get("engine") == "server" else {}  # its servers' addresses are not recorded
    return Config().with_settings({**settings, **engine, "output": spec.place})


def load(spec: PolicySpec, config: Config, api: Mapping[str, Any]) -> Policy:
    """Load a policy.

    Args:
        spec: The policy.
        config: Its settings; `task.tasks` is the source of the tasks.
        api: "api_key_env", "timeout_s" and "max_retries" of chat servers.

    Raises:
        ValueError: If it does not fit the environment, or a run folder lacks it.
        ColBenchError: If it cannot be loaded.
    """
    if spec.kind == "chat":
        model = config.model
        sampling = Sampling(model.system_prompt, model.temperature, model.max_new_tokens, **api)
        return ConcurrentAgentPolicy(chat_agent(spec.text, sampling), model.generation_batch)
    if spec.kind == "run":
        return _load_of_run(spec, config)
    if spec.kind == "model":
        load_policy: Callable[..., Policy] = import_module("sweetrl_agent.models.loading").load_policy
        return load_policy(spec.place, _base_of(spec), config.model)
    if spec.text == "person":
        return AgentPolicy(PersonAgent())
    return own_policy(load_named("policies", spec.text)) if spec.kind == "own" else scripted(spec.text, config)


def _base_of(spec: PolicySpec) -> str:
    """Base model of an adapter: the one that its configuration names; a full model is its own."""
    path = Path(spec.place).expanduser() / "adapter_config.json"
    if not path.exists():
        return spec.place
    from peft import PeftConfig

    return str(PeftConfig.from_pretrained(str(path.parent)).base_model_name_or_path)


def _load_of_run(spec: PolicySpec, config: Config) -> Policy:
    from sweetrl_agent.data.run import Run

    trained = run_config(spec)
    run = Run(trained, is_dry=True)
    registry = import_module("sweetrl_agent.algorithms.registry")
    named = {INITIAL: "zero_shot"}.get(spec.which, spec.which)
    algorithm = run.algorithm if named == TRAINED else registry.find_algorithm(named)
    folder = algorithm.policy or ("" if algorithm.is_discrete or not trained.is_tiny else INITIAL)
    if folder and folder not in run.unchanged and not any(run.path(folder).parent.glob(f"{Path(folder).name}*")):
        raise ValueError(f"`policies`: {spec.place!r} has no policy of {algorithm.name!r}: {folder!r} is missing.")
    changed = {name: getattr(config.model, name) for name in MODEL_SETTINGS}
    return algorithm.load(run.with_settings(changed))


def scripted(name: str, config: Config) -> Policy:
    """The environment's scripted policy; `random` of an environment without one takes random discrete actions, or random texts.

    Raises:
        ValueError: If the environment has no oracle.
    """
    record: EnvironmentRecord = config.record
    found: Policy | None = record.scripted_policy(name, config)
    if found is not None:
        return found
    if name == "oracle":
        raise ValueError(
            f"{config.task.env} has no oracle: give its record (`--env_record`) a method `scripted_policy` that returns one."
        )
    if "discrete_actions" in record.capabilities(config):
        return RandomActions(record.actions(config))
    return RandomTexts(record, config)


class RandomActions:
    """Chooses one of the valid discrete actions, all with the same probability."""

    def __init__(self, actions: DialogueActions) -> None:
        self.actions = actions

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy.generate`."""
        return [
            Utterance(self.actions.say(self._choice(dialogue, seed), dialogue), usage=(0, 0))
            for dialogue, seed in zip(dialogues, seeds, strict=True)
        ]

    def _choice(self, dialogue: Messages, seed: int) -> int:
        return int(np.random.default_rng(seed).choice(np.flatnonzero(self.actions.allowed(dialogue))))


class RandomTexts:
    """Samples texts of the environment's action space."""

    def __init__(self, record: EnvironmentRecord, config: Config) -> None:
        env = record.make(config.task)
        self.space = env.action_space
        env.close()

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy.generate`."""
        return [Utterance(self._sample(seed), usage=(0, 0)) for seed in seeds]

    def _sample(self, seed: int) -> str:
        self.space.seed(seed % 2**31)
        return str(self.space.sample())


def own_policy(found: Any) -> Policy:
    """A policy from an object of the user's own; classes are instantiated without arguments.

    Raises:
        ValueError: If it is neither a `Policy`, an agent of `colbench_gym`, nor a function of the messages.
    """
    made = found() if isinstance(found, type) else found
    if hasattr(made, "generate"):
        return made  # type: ignore[no-any-return]
    if isinstance(made, Agent):
        return AgentPolicy(made)
    if callable(made):
        return AgentPolicy(FunctionAgent(made))
    raise ValueError(
        "A policy of your own must have a method `generate` (`sweetrl_agent.Policy`), or be a function of the messages, "
        f"got an object of {type(made).__name__}."
    )


def default_prompt(spec: PolicySpec, env: str) -> str | None:
    """Name of the system prompt that a pretrained chat model gets without any given; None if the policy's run folder decides."""
    is_pretrained = spec.kind == "chat" or (spec.kind == "model" and not spec.settings)
    return PROMPT_OF.get(env, "") if is_pretrained else None


def loader(spec: PolicySpec, config: Config, api: Mapping[str, Any]) -> Callable[[], Policy]:
    """A function that loads the policy, which can be sent to workers."""
    return partial(load, spec, config, api)
