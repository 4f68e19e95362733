"""Checks of everything that a run needs, before anything is computed.

`--dry_run` runs all checks and names everything that is missing; a run makes the checks that need no connection. The checks cannot predict
whether a server stays available, and of memory they know only what weights and optimizer take.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from colbench_gym.errors import ColBenchError
from colbench_gym.servers.chat_server import OPENAI_URL, ChatServer, checked_url, read_key
from colbench_gym.servers.errors import RequestError
from sandboxes.extras import pip_install
from sweetrl_agent.config.model import PRETRAINED
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.stage import Need
from sweetrl_agent.policies.server import VLLM, check_log_probs, no_tokens
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm

if TYPE_CHECKING:
    from sweetrl_agent.config.job import Config
    from sweetrl_agent.models.weights_check import Use
    from sweetrl_agent.trainers.run import Run

Check = Callable[[], object]
#: A module, and what `pip_install` takes for it.
Package = tuple[str, str]
NONE: Mapping[Package, Collection[str]] = MappingProxyType({})
#: Errors that a check may raise; any other is a bug.
MISSING = (ColBenchError, ImportError, OSError, ValueError)
#: Timeout of a server's answer, in seconds.
ANSWER_S = 10.0


def unmet_requirements(
    run: Run,
    stages: Collection[str],
    others: Mapping[Package, Collection[str]] = NONE,
    more: Iterable[Check] = (),
    disk: Check | None = None,
) -> list[str]:
    """One sentence for each requirement of the stages that is not met.

    Args:
        run: The run; its tasks are loaded.
        stages: The remaining stages.
        others: Packages of algorithms -> the algorithms that need them.
        more: Further checks, which raise an error of `MISSING`.
        disk: The check of free disk, where the run is not alone on it; None for the run's own.
    """
    found: list[str] = []
    checks: list[Check] = [partial(check_packages, run.config, stages, others), *_checks(run, stages, disk), *more]
    for check in checks:
        try:
            check()
        except MISSING as error:
            found.append(" ".join(str(error).split()))
    return found


def _any(stages: Collection[str], *needs: Need) -> bool:
    """Whether one of the stages has one of the needs; an algorithm's own stage is assumed to have all."""
    return any(name not in STAGES or STAGES[name].needs & {*needs} for name in stages)


def check_packages(config: Config, stages: Collection[str], others: Mapping[Package, Collection[str]] = NONE) -> None:
    """Check for the packages that stages need and, for vLLM, for a GPU.

    Args:
        config: The settings.
        stages: The remaining stages.
        others: Packages of algorithms -> the algorithms that need them.

    Raises:
        ColBenchError: Names everything that is missing.
    """
    import torch

    needed = {**dict.fromkeys(_packages(config, {*stages}), ()), **others}
    missing = [
        f"{name} (`{pip_install(how)}`{', for ' * bool(users)}{' and '.join(map(repr, users))})"
        for (name, how), users in sorted(needed.items())
        if not _is_installed(name)
    ]
    if config.model.engine == "vllm" and _any(stages, "samples") and not torch.cuda.is_available():
        if not _is_vllm_for_cpus():
            missing.append("a CUDA GPU, for `--engine vllm`")
        elif _is_on_policy(config) and not config.model.lora:  # it keeps packed copies of old weights
            missing.append("a CUDA GPU, for on-policy training of all weights with `--engine vllm` (`--lora true` needs none)")
    if missing:
        raise ColBenchError(f"This machine lacks {' and '.join(missing)}.")


def _is_on_policy(config: Config) -> bool:
    return any(isinstance(algorithm, OnPolicyAlgorithm) for algorithm in config.algorithms.values())


def _is_vllm_for_cpus() -> bool:
    """Whether the installed vLLM is a build for CPUs."""
    try:
        from vllm.platforms import current_platform
    except ImportError:
        return False
    return bool(current_platform.is_cpu())


def _is_installed(module: str) -> bool:
    """Whether a module can be imported; a plain folder of its name, such as the `wandb` that W&B leaves behind, is none."""
    spec = importlib.util.find_spec(module)
    return spec is not None and not (spec.submodule_search_locations and spec.origin is None)


def _packages(config: Config, stages: set[str]) -> Iterator[Package]:
    """Packages beyond those of `[train]` that the stages need, as `Package`."""
    yield from config.algorithm.packages if stages & {*config.algorithm.stages} else ()
    if config.model.engine == "vllm" and _any(stages, "samples"):
        yield "vllm", "vllm"
    if config.run.ray_workers and (_any(stages, "samples") or "rank" in stages):
        yield "ray", "[ray]"
    yield from ((tracker, "[trackers]") for tracker in config.run.report_to if tracker != "none")
    if config.record.has_pages and _any(stages, "episodes"):
        yield "playwright", "[frontend]"


def _checks(run: Run, stages: Collection[str], disk: Check | None) -> Iterator[Check]:
    config, left = run.config, {*stages}
    yield from _model_checks(config, left)
    if config.demonstration_file and config.has_sft and "sft" in left:
        from sweetrl_agent.trainers.demonstration_file import file_dialogues

        yield partial(file_dialogues, run)
    if _any(left, "samples"):
        for url in config.model.server_urls:
            yield partial(check_server, url, "OPENAI_API_KEY", _is_on_policy(config), config.model.temperature)
    if _any(left, "episodes"):
        yield partial(_check_environment, run)
    yield partial(check_resources, run, left, disk)
    if config.run.ray_workers and config.run.ray_address:
        from sweetrl_agent.rollouts.workers import check_cluster

        yield partial(check_cluster, config.run.ray_address)


def check_resources(run: Run, stages: Collection[str], disk: Check | None = None) -> None:
    """Check free disk and memory against the least that the stages need.

    Args:
        run: The run.
        stages: The remaining stages.
        disk: As in `unmet_requirements`.

    Raises:
        ColBenchError: Says what is needed, what there is and what to do.
    """
    from sweetrl_agent.trainers.resources import check_disk, check_memory

    if {*stages} - {"report"}:
        (disk or partial(check_disk, [run]))()
        check_memory(run, stages)


def check_models(config: Config, stages: Collection[str]) -> None:
    """Check the models that the stages read, see `check_model`.

    Args:
        config: The settings.
        stages: The remaining stages.

    Raises:
        ColBenchError: Names the setting and the fault.
    """
    for check in _model_checks(config, {*stages}):
        check()


def _model_checks(config: Config, left: Collection[str]) -> Iterator[Check]:
    if not config.is_tiny and ("sft" in left or _any(left, "samples", "training")):
        yield partial(check_agent_model, config, "model", config.model.model)
    reads_hints = [algorithm for algorithm in config.algorithms.values() if algorithm.critic and config.evaluation.hint_turns]
    for critic, setting in (("judge", "judge_model"), ("gain", "gain_model"), ("vision_head", "vision_model")):
        opened = [config.algorithms[critic]] if critic in config.algorithms else reads_hints if critic == "gain" else []
        for path in {getattr(algorithm.config, setting) for algorithm in opened} - {"", PRETRAINED}:
            yield partial(check_model, f"sweet.{setting}", path, config.model)


def check_model(setting: str, path: str, arguments: Any, base: str = "", use: Use = "read") -> str:
    """Check a model's folder or hub name; its weights are not loaded.

    Args:
        setting: The setting that names it.
        path: The folder or hub name.
        arguments: Settings of the agent's model.
        base: Base model of an adapter; "" for the one that its configuration names.
        use: What is done with the weights: quantized ones are not trained, and not read everywhere.

    Raises:
        ColBenchError: If it is not a model, or cannot be loaded from the hub.
    """
    from sweetrl_agent.models.folder_check import check_model_files
    from sweetrl_agent.models.loading import system_prompt

    try:
        has_pictures, prompt = setting == "sweet.vision_model", system_prompt(arguments)
        return check_model_files(path, arguments.revision, prompt, has_pictures, base, arguments.reasoning, use)
    except ColBenchError as error:
        raise ColBenchError(f"`{setting}` must be a folder or hub name of a chat model, got {path!r}: {error}.") from None


def check_agent_model(config: Config, setting: str, path: str, base: str = "", use: Use = "trained") -> None:
    """`check_model` of the agent's model, and that a short dialogue fits into its context.

    Args:
        config: The settings; the dialogue is one on their first task.
        setting: As in `check_model`.
        path: As in `check_model`.
        base: As in `check_model`.
        use: As in `check_model`.

    Raises:
        ColBenchError: As `check_model`, or if the dialogue does not fit.
    """
    from sweetrl_agent.models.folder_check import context_size

    check_model(setting, path, config.model, base, use)
    if config.record.waits or not (window := context_size(path, config.model.revision, base)):
        return  # its first message may take a model server
    length = _shortest_dialogue(config, base or path)
    if length + config.model.max_new_tokens > window:
        raise ColBenchError(
            f"`{setting}` {path!r} has a context of {window} tokens; a dialogue of short messages takes {length}, and the agent's last one up to "
            f"{config.model.max_new_tokens} more (`max_new_tokens`): choose another model, or a smaller `max_new_tokens` or `max_turns`."
        )


def _shortest_dialogue(config: Config, place: str) -> int:
    """Tokens before the last turn of a dialogue on the first task, if both sides say a few words a turn."""
    from sweetrl_agent.core.messages import system_message
    from sweetrl_agent.models.loading import load_chat, system_prompt

    task = config.record.load_tasks(config.task.tasks, config.task)[0]
    with closing(config.record.environments(config, [task], 1)) as env:
        env.envs[0].reset(seed=0, options={"task_id": task.id})
        opening = env.envs[0].messages
    turns = (config.record.turn_limit(task, config.task) or 1) if config.model.history < 0 else 1
    short = [{"role": "assistant", "content": "Is there more?"}, {"role": "user", "content": "Yes, there is."}]
    messages = [*system_message(system_prompt(config.model)), *opening, *short * (turns - 1)]
    return len(load_chat(place, config.model).prompt(messages))


def check_server(url: str | None, key_variable: str, needs_tokens: bool = False, temperature: float = 1.0) -> None:
    """Request the list of models of an OpenAI-compatible server. Any answer is accepted except a refused key.

    Args:
        url: Its address; None for OpenAI's.
        key_variable: Environment variable with the key.
        needs_tokens: Whether it must be vLLM's, which returns tokens and loads adapters.
        temperature: Sampling temperature of these tokens, whose log-probabilities must be of it.

    Raises:
        ColBenchError: If the server does not answer, refuses the key, or is not as it must be.
    """
    address = OPENAI_URL if url is None else checked_url(url)
    models: list[tuple[str, str]] = []
    with closing(ChatServer(address, read_key(key_variable), ANSWER_S)) as server:
        try:
            models = server.models()
        except RequestError as error:
            if error.status is None:
                raise ColBenchError(f"No server answers at {address} ({error}); start it, or correct its address.") from None
            if error.status in (401, 403):
                raise ColBenchError(
                    f"The server at {address} refuses the key in {key_variable} (status {error.status})."
                ) from None
        ours = [name for name, owner in models if owner == VLLM]
        if needs_tokens and not ours:
            raise no_tokens(address)
        if needs_tokens and temperature != 1.0:
            check_log_probs(server, ours[0])


def check_human(record: EnvironmentRecord, human: Any) -> None:
    """Check that the server of a simulated human answers, if it uses one.

    Raises:
        ColBenchError: As `check_server`.
    """
    if server := record.human_server(human):
        check_server(*server)


def _check_environment(run: Run) -> None:
    """Make the environment as a stage does, check the simulator's server, and start the sandbox."""
    with closing(run.environment(run.tasks[:1], 1)) as env:
        check_human(run.record, getattr(env.envs[0], "simulator", None))
        env.envs[0].prepare()
