"""Loads the policies of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from colbench_gym.agents.agent import Agent, FunctionAgent
from colbench_gym.agents.chat import Sampling, chat_agent
from colbench_gym.agents.person import PersonAgent
from colbench_gym.digests import module_input, module_of
from colbench_gym.reasoning import AUTO, Reasoning
from sandboxes.named import load_named
from sweetrl_agent.config.evaluate import MODEL_SETTINGS
from sweetrl_agent.config.job import Config
from sweetrl_agent.config.model import TINY
from sweetrl_agent.config.pipeline import policy_files
from sweetrl_agent.core.actions import DialogueActions
from sweetrl_agent.core.agents import AgentPolicy, ConcurrentAgentPolicy
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import ContinuousPolicy, InformedPolicy, Policy, Utterance
from sweetrl_agent.data.inputs import folder_input
from sweetrl_agent.data.run import Run
from sweetrl_agent.evaluation.policies import INITIAL, TRAINED, PolicySpec
from sweetrl_agent.models.folder_check import ADAPTER, CONFIG, adapter_base
from sweetrl_agent.models.quantization_check import Use
from sweetrl_agent.trainers.preflight import check_agent_model


def loader(spec: PolicySpec, config: Config, api: Mapping[str, Any]) -> Callable[[], Policy]:
    """A function that loads the policy, which can be sent to workers."""
    return partial(load, spec, config, api)


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
        sampling = Sampling(model.system_prompt, model.temperature, model.max_new_tokens, **api, reasoning=model.reasoning)
        return ConcurrentAgentPolicy(chat_agent(spec.text, sampling), model.generation_batch)
    if spec.kind == "run":
        return _load_of_run(spec, config)
    if spec.kind == "model":
        load_policy: Callable[..., Policy] = import_module("sweetrl_agent.models.loading").load_policy
        is_tiny = spec.settings.get("model") == TINY  # of the run that the folder is in: it is sampled as there
        return load_policy(spec.place, _base_of(spec), replace(config.model, model=TINY) if is_tiny else config.model)
    if spec.text == "person":
        return AgentPolicy(PersonAgent())
    return (
        own_policy(load_named("policies", spec.text), config.model.reasoning)
        if spec.kind == "own"
        else scripted(spec.text, config)
    )


def _base_of(spec: PolicySpec) -> str:
    """Base model of an adapter: the one that its configuration names, or initial/ of its run where that has moved; a full model is its own."""
    path = Path(spec.place).expanduser() / ADAPTER
    if not path.exists():
        return spec.place
    base = adapter_base(path.parent)
    if Path(base).name != INITIAL or Path(base).is_dir():
        return base
    return next((str(one / INITIAL) for one in path.resolve().parents[1:3] if (one / INITIAL).is_dir()), base)


def model_of(spec: PolicySpec) -> tuple[str, str]:
    """Folder or hub name of the model that a policy samples from, and its base model's where it is an adapter; ("", "") of other policies.

    The base model, which is the same for a full model, has the configuration and the tokenizer.
    """
    if spec.kind == "model":
        return spec.place, _base_of(spec)
    if spec.kind != "run":
        return "", ""
    run, algorithm, folder = _algorithm_of_run(spec)
    if algorithm.is_discrete:
        return "", ""
    own = run.path(folder)
    if not folder or not any((own / name).exists() for name in (CONFIG, ADAPTER)):
        return run.initial_model, run.initial_model
    return str(own), str(own) if (own / CONFIG).exists() else run.initial_model


def check(spec: PolicySpec, config: Config, api: Mapping[str, Any]) -> None:
    """Check that a policy exists and fits the tasks of `config`, without loading weights or making an object of the user's own.

    Raises:
        ValueError: If it does not.
    """
    use: Use = "read" if config.model.engine == "transformers" else "elsewhere"
    if spec.kind == "run":
        run, _, folder = _algorithm_of_run(spec)
        if any((run.path(folder) / name).exists() for name in (CONFIG, ADAPTER)):
            check_agent_model(config, "policies", str(run.path(folder)), base=run.initial_model, use=use)
    elif spec.kind == "own":
        _check_own(load_named("policies", spec.text))
    elif spec.kind == "model":
        check_agent_model(config, "policies", spec.place, base=_base_of(spec), use=use)
    elif spec.kind in ("scripted", "chat") and not spec.is_sequential:
        load(spec, config, api)


def _load_of_run(spec: PolicySpec, config: Config) -> Policy:
    run, algorithm, _ = _algorithm_of_run(spec)
    changed = {name: getattr(config.model, name) for name in MODEL_SETTINGS}
    policy: Policy = algorithm.load(run.with_settings(changed))
    return policy


def _algorithm_of_run(spec: PolicySpec) -> tuple[Run, Any, str]:
    """The run of a policy, the algorithm that it was trained by, and the name of its folder in the run."""
    trained = run_config(spec)
    run = Run(trained, is_dry=True)
    registry = import_module("sweetrl_agent.algorithms.registry")
    named = {INITIAL: "zero_shot"}.get(spec.which, spec.which)
    algorithm = run.algorithm if named == TRAINED else registry.ALGORITHMS[registry.register(named, "policies")]
    folder = algorithm.policy or ("" if algorithm.is_discrete or not trained.has_sft else INITIAL)
    if folder and folder not in run.unchanged and not any(run.path(folder).parent.glob(f"{Path(folder).name}*")):
        raise ValueError(f"`policies`: {spec.place!r} has no policy of {algorithm.name!r}: {folder!r} is missing.")
    return run, algorithm, folder


def policy_inputs(spec: PolicySpec) -> list[str]:
    """What the policy is loaded from, by input names (`colbench_gym.digests`).

    Raises:
        ColBenchError: If files of a run folder's policy are not as its stages wrote them.
    """
    if spec.kind == "own":
        return module_of(spec.text)
    if spec.kind == "model":
        return [name for path in dict.fromkeys((spec.place, _base_of(spec))) for name in folder_input(path)]
    if spec.kind != "run":
        return []
    run, algorithm, _ = _algorithm_of_run(spec)
    files = ["initial/", *(() if algorithm.policy in run.unchanged else policy_files(algorithm))]
    run.records.refuse_changed_files(files)
    base = [] if run.config.has_sft else folder_input(run.config.model.model)
    return [*base, *(str(run.path(file)) for file in files if run.path(file).exists()), *module_input(algorithm.module)]


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


def _check_own(found: Any) -> None:
    """Refuse a class without the methods of a policy, before it is instantiated."""
    if isinstance(found, type) and not (hasattr(found, "generate") or issubclass(found, Agent) or "__call__" in dir(found)):
        raise _not_a_policy(f"the class {found.__name__}")


class SpeechOf:
    """A policy of the user's own, whose thoughts are parted from its speech.

    Args:
        policy: The policy.
        reasoning: How its model marks thoughts, see `colbench_gym.reasoning.Reasoning`.
    """

    def __init__(self, policy: Policy, reasoning: str) -> None:
        self.policy, self.reasoning = policy, Reasoning(reasoning)

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy.generate`."""
        return [self._parted(utterance) for utterance in self.policy.generate(dialogues, seeds)]

    def _parted(self, utterance: Utterance) -> Utterance:
        reply = self.reasoning.split(utterance.text)
        return replace(utterance, text=reply.speech, thought=utterance.thought + reply.thought) if reply.thought else utterance


def own_policy(found: Any, reasoning: str = AUTO) -> Policy:
    """A policy from an object of the user's own; classes are instantiated without arguments.

    Args:
        found: The object.
        reasoning: How its model marks thoughts. A policy that generates in its own steps (`ContinuousPolicy`) and an oracle part them themselves.

    Raises:
        ValueError: If it is neither a `Policy`, an agent of `colbench_gym`, nor a function of the messages.
    """
    made = found() if isinstance(found, type) else found
    if hasattr(made, "generate"):
        parts_itself = isinstance(made, ContinuousPolicy | InformedPolicy)
        return made if parts_itself else SpeechOf(made, reasoning)  # type: ignore[no-any-return]
    if isinstance(made, Agent):
        return AgentPolicy(made)
    if callable(made):
        return AgentPolicy(FunctionAgent(made, reasoning))
    raise _not_a_policy(f"an object of {type(made).__name__}")


def _not_a_policy(got: str) -> ValueError:
    return ValueError(
        f"A policy of your own must have a method `generate` (`sweetrl_agent.Policy`), or be a function of the messages, got {got}."
    )
