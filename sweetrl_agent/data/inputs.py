"""Inputs of a run's stages from outside its folder: files of tasks, demonstrations, model folders, and the user's modules.

Callbacks are no inputs: they may change whenever a run resumes.
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from colbench_gym.digests import inputs_of_source, module_input, module_of
from sweetrl_agent.core.settings import is_file

Finder = Callable[[Any], list[str]]


def input_names(config: Any, kinds: Iterable[str]) -> tuple[str, ...]:
    """Input names (`colbench_gym.digests`) of the inputs of a stage.

    Args:
        config: All settings.
        kinds: Keys of `FINDERS`; input names stay as they are.
    """
    names = [name for kind in kinds for name in (FINDERS[kind](config) if kind in FINDERS else [kind])]
    return tuple(dict.fromkeys(names))


def _tasks(config: Any) -> list[str]:
    return inputs_of_source(config.task.tasks)


def _held_out(config: Any) -> list[str]:
    task = config.task
    sources = (task.test_tasks or task.tasks, task.unseen_tasks, task.novel_tasks)
    return [name for source in sources for name in inputs_of_source(source)]


def _demonstrations(config: Any) -> list[str]:
    source = config.task.demonstrations
    return [source] if source and is_file(source) else inputs_of_source(source)


def folder_input(path: str) -> list[str]:
    """Input name of a model: its folder; [] for a name of the hub."""
    return [path] if path and Path(path).expanduser().is_dir() else []


def _model(path: str) -> list[str]:
    """Input names of a model: its folder and, for an adapter, the folder of its base model. Other code checks their content."""
    try:
        base = json.loads((Path(path).expanduser() / "adapter_config.json").read_bytes())["base_model_name_or_path"]
    except (OSError, ValueError, LookupError, TypeError):
        base = ""
    return [*folder_input(path), *(folder_input(base) if isinstance(base, str) else [])]


def _of_critics(config: Any, setting: str) -> list[str]:
    """Input names of a further model of the critics."""
    paths = {getattr(algorithm.config, setting) for algorithm in config.algorithms.values() if algorithm.critic}
    return [name for path in sorted(paths) for name in folder_input(path)]


def _environment(config: Any) -> list[str]:
    """Modules of the environment: the ones named in the settings, or the module of a registered id outside installed packages."""
    import gymnasium

    env, record = config.task.env, config.task.env_record
    if ":" in env:
        return [*module_input(env.partition(":")[0]), *module_of(record)]
    spec = gymnasium.registry.get(env)
    entry: Any = spec.entry_point if spec is not None else ""
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    return [*(module_input(module) if module and not _is_installed(module) else []), *module_of(record)]


def _is_installed(module: str) -> bool:
    """Whether a module is in a package that was installed, as gymnasium's own environments are."""
    import importlib.util

    spec = importlib.util.find_spec(module.partition(".")[0])
    folders = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")]
    return spec is not None and any(str(spec.origin).startswith(folder) for folder in folders)


FINDERS: Mapping[str, Finder] = {
    "tasks": _tasks,
    "held_out": _held_out,
    "demonstrations": _demonstrations,
    "model": lambda config: _model(config.model.model),
    "judge_model": lambda config: _of_critics(config, "judge_model"),
    "gain_model": lambda config: _of_critics(config, "gain_model"),
    "vision_model": lambda config: _of_critics(config, "vision_model"),
    "env": _environment,
    "human": lambda config: [*module_of(config.task.simulator_spec()), *module_of(config.task.sandbox_spec())],
}
