"""Loads the policies of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from colbench_gym.agents.agent import Agent
from colbench_gym.agents.chat import Sampling, chat_agent
from colbench_gym.agents.menu import NOT_A_POLICY, MenuAgent, own_agent, uniform
from colbench_gym.agents.person import PersonAgent
from colbench_gym.digests import module_input, module_of
from colbench_gym.evaluation.policies import PolicySpec
from colbench_gym.reasoning import Reasoning
from sandboxes.named import load_named
from sweetrl_agent.algorithms.collab import Collab, mixture
from sweetrl_agent.algorithms.registry import ALGORITHMS, refuse_missing, register
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.config.evaluate import MODEL_SETTINGS
from sweetrl_agent.config.job import Config
from sweetrl_agent.config.model import TINY
from sweetrl_agent.config.pipeline import files_needed, policy_files
from sweetrl_agent.core.agents import AgentPolicy, ConcurrentAgentPolicy
from sweetrl_agent.core.dialogues import AGENT, speaks_as
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import ContinuousPolicy, InformedPolicy, Policies, Policy, Utterance, one_or_each
from sweetrl_agent.data.inputs import folder_input
from sweetrl_agent.evaluation.mixtures import MixtureSpec, run_of_values
from sweetrl_agent.evaluation.model_policies import INITIAL, TRAINED, ModelSpec
from sweetrl_agent.evaluation.teams import TeamSpec
from sweetrl_agent.models.folder_check import ADAPTER, CONFIG, adapter_base
from sweetrl_agent.models.loading import load_policy, load_tokenizer
from sweetrl_agent.models.weights_check import Use
from sweetrl_agent.policies.collab import refuse_other_tokenizers
from sweetrl_agent.trainers.preflight import check_agent_model
from sweetrl_agent.trainers.run import Run


def load(spec: PolicySpec, config: Config, api: Mapping[str, Any]) -> Policies:
    """Load a policy; of a run with several agents, those of the agents by their names.

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
    if not isinstance(spec, ModelSpec):
        if spec.text == "person":
            return AgentPolicy(PersonAgent())
        return scripted(spec.text, config) if spec.kind == "scripted" else own_policy(load_named("policies", spec.text), config)
    if isinstance(spec, MixtureSpec):
        return _load_mixture(spec, config, api)
    if isinstance(spec, TeamSpec):
        loaded = {part: load(part, config, api) for part in spec.parts}
        return one_or_each({agent: _of_agent(loaded[spec.policy_of(agent)], agent) for agent in _agents(spec, config)})
    if spec.kind == "model":
        is_tiny = spec.settings.get("model") == TINY  # of the run that the folder is in: it is sampled as there
        return load_policy(spec.place, _base_of(spec), replace(config.model, model=TINY) if is_tiny else config.model)
    run, _ = _run_of(spec)
    policies: Policies = run.algorithm.load(_sampled_by(run, config))
    return policies


def _sampled_by(run: Run, config: Config) -> Run:
    """A run whose policies are sampled by other settings."""
    return run.with_settings({name: getattr(config.model, name) for name in MODEL_SETTINGS})


def _load_mixture(spec: MixtureSpec, config: Config, api: Mapping[str, Any]) -> Policy:
    def reference() -> Policy:
        """The initial policy of the first agent's run, or the first agent's base model."""
        first = spec.agents[0]
        if first.kind == "run":
            return _sampled_by(_run_of(first)[0], config).load_policy()
        return load_policy(_base_of(first), _base_of(first), config.model)

    run: Any = run_of_values(spec, _open_run)
    agents = {agent.text: load(agent, config, api) for agent in spec.agents}
    return mixture(agents, reference, run and _sampled_by(run, config), spec.config)


def _of_agent(policies: Policies, agent: str) -> Policy:
    return policies[speaks_as(agent, policies)] if isinstance(policies, Mapping) else policies


def _agents(spec: TeamSpec, config: Config) -> Sequence[str]:
    """Names of the agents of a team: the environment's or, where it does not name them, those that the run has policies of."""
    return config.record.agents(config) or _trained_agents(spec.base)


def _trained_agents(spec: ModelSpec) -> Sequence[str]:
    """Names of the agents that a run has policies of; () if one policy speaks for all."""
    names = [*_run_of(spec)[0].algorithm.policies] if spec.kind == "run" else []
    return names if names != [AGENT] else ()


def _base_of(spec: ModelSpec) -> str:
    """Base model of an adapter: the one that its configuration names, or initial/ of its run where that has moved; a full model is its own."""
    path = Path(spec.place).expanduser() / ADAPTER
    if not path.exists():
        return spec.place
    base = adapter_base(path.parent)
    if Path(base).name != INITIAL or Path(base).is_dir():
        return base
    return next((str(run / INITIAL) for run in path.resolve().parents[1:3] if (run / INITIAL).is_dir()), base)


def model_of(spec: PolicySpec) -> tuple[str, str]:
    """Folder or hub name of the model that a policy samples from, and its base model's where it is an adapter; ("", "") of other policies.

    The base model, which is the same for a full model, has the configuration and the tokenizer.
    """
    if not isinstance(spec, ModelSpec):
        return "", ""
    if spec.kind == "model":
        return spec.place, _base_of(spec)
    run, folder = _run_of(spec)
    if run.algorithm.is_discrete:
        return "", ""
    trained = run.path(folder)
    if not folder or not any((trained / name).exists() for name in (CONFIG, ADAPTER)):
        return run.initial_model, run.initial_model
    return str(trained), str(trained) if (trained / CONFIG).exists() else run.initial_model


def check(spec: PolicySpec, config: Config, api: Mapping[str, Any]) -> None:
    """Check that a policy exists and fits the tasks of `config`, without loading weights or making an object of the user's own.

    Raises:
        ValueError: If it does not.
    """
    use: Use = "read" if config.model.engine == "transformers" else "elsewhere"
    if isinstance(spec, MixtureSpec):
        _check_mixture(spec, config, api)
    elif isinstance(spec, TeamSpec):
        _check_team(spec, config, api)
    elif isinstance(spec, ModelSpec):
        place, base = model_of(spec)
        if place:
            check_agent_model(config, "policies", place, base=base, use=use)
    elif spec.kind == "own":
        _check_own(load_named("policies", spec.text))
    elif not spec.is_sequential:
        load(spec, config, api)


def _check_mixture(spec: MixtureSpec, config: Config, api: Mapping[str, Any]) -> None:
    algorithm = Collab(spec.config)
    algorithm.refuse_model(config.model)
    refuse_missing([algorithm], config.record.capabilities(config), config.task.env)
    for agent in spec.agents:
        check(agent, config, api)
        if names := _trained_agents(agent):
            raise ValueError(
                f"`policies`: {agent.text!r} is a team of {', '.join(names)}, and a mixture takes single policies: name one's folder, such as "
                f"{Path(agent.place) / next(filter(None, _run_of(agent)[0].algorithm.folders))}."
            )
    bases = {agent.text: model_of(agent)[1] for agent in spec.agents}
    if discrete := [name for name, base in bases.items() if not base]:
        raise ValueError(f"`policies`: only language models can be mixed, and {discrete[0]!r} is not one.")
    refuse_other_tokenizers({name: load_tokenizer(base, config.model) for name, base in bases.items()})
    run_of_values(spec, _open_run)


def _check_team(spec: TeamSpec, config: Config, api: Mapping[str, Any]) -> None:
    agents = _agents(spec, config)
    if not agents:
        raise ValueError(
            f"`policies`: {config.task.env} names no agents (attribute `agents`), so {spec.text!r} cannot replace one: name a policy without team:."
        )
    for agent, _ in spec.named:
        if agent not in agents:
            raise ValueError(
                f"`policies`: {spec.text!r} names the agent {agent!r}, and {config.task.env} has {', '.join(agents)}: name one of these."
            )
    for agent in agents:
        part = spec.policy_of(agent)
        if (trained := _trained_agents(part)) and speaks_as(agent, trained) not in trained:
            raise ValueError(
                f"`policies`: {part.text!r} has policies of {', '.join(trained)}, and none of {agent!r}: name its policy, as in "
                f"+{agent}={part.place}:{INITIAL}."
            )
    for part in spec.parts:
        check(part, config, api)


def _open_run(spec: ModelSpec, *algorithms: str) -> Run:
    """The run of a policy as it was trained, with these of its algorithms; with none, that which it was trained with."""
    settings = {**spec.settings, "output": spec.place}
    if settings.get("engine") == "server":  # its servers' addresses are not recorded
        settings["engine"] = "transformers"
    return Run(make_config(settings, list(algorithms) or None), is_dry=True)


def _run_of(spec: ModelSpec) -> tuple[Run, str]:
    """The run of a policy, as it was trained, with the policy's algorithm; and the folder of its first policy in the run."""
    run = _open_run(spec, *(() if spec.which == TRAINED else (register(spec.which, "policies"),)))
    if needed := run.algorithm.algorithms_needed:
        run = _open_run(spec, run.algorithm.name, *needed)
    is_initial = run.config.has_sft and not run.algorithm.is_discrete
    folders = run.algorithm.folders or (INITIAL if is_initial else "",)
    for folder in filter(None, folders):
        if folder not in run.unchanged and not any(run.path(folder).parent.glob(f"{Path(folder).name}*")):
            trained = [entry.name for entry in sorted(run.folder.iterdir()) if entry.name in ALGORITHMS]
            raise ValueError(
                f"`policies`: {spec.place!r} has no policy of {run.algorithm.name!r}: {folder!r} is missing. It has {', '.join(trained) or 'none'}."
            )
    return run, folders[0]


def policy_inputs(spec: PolicySpec) -> list[str]:
    """What the policy is loaded from, by input names (`colbench_gym.digests`).

    Raises:
        ColBenchError: If files of a run folder's policy are not as its stages wrote them.
    """
    if not isinstance(spec, ModelSpec):
        return module_of(spec.text) if spec.kind == "own" else []
    if isinstance(spec, TeamSpec):
        return list(dict.fromkeys(name for part in spec.parts for name in policy_inputs(part)))
    if isinstance(spec, MixtureSpec):
        run = run_of_values(spec, _open_run)
        of_values = (
            _files_in(run, files_needed(Collab(replace(spec.config, agents=["initial"])), run.config.algorithms)) if run else []
        )
        return list(dict.fromkeys([*(name for agent in spec.agents for name in policy_inputs(agent)), *of_values]))
    if spec.kind == "model":
        return [name for path in dict.fromkeys((spec.place, _base_of(spec))) for name in folder_input(path)]
    run, _ = _run_of(spec)
    algorithm = run.algorithm
    files = ["initial/", *(() if all(folder in run.unchanged for folder in algorithm.folders) else policy_files(algorithm))]
    base = [] if run.config.has_sft else folder_input(run.config.model.model)
    needed = files_needed(algorithm, run.config.algorithms)
    return [*base, *_files_in(run, [*files, *needed]), *module_input(algorithm.module)]


def _files_in(run: Run, files: Sequence[str]) -> list[str]:
    """Those of a run's files that exist, as input names; refuses ones that are not as their stages wrote them."""
    run.records.refuse_changed_files(files)
    return [str(run.path(file)) for file in files if run.path(file).exists()]


def scripted(name: str, config: Config) -> Policy:
    """The environment's scripted policy; `random` of an environment without one takes random discrete actions, or random texts.

    Raises:
        ValueError: If the environment has no oracle, or no discrete actions.
    """
    record: EnvironmentRecord = config.record
    policy: Policy | None = record.scripted_policy(name, config)
    if policy is not None:
        return policy
    if name == "oracle":
        raise ValueError(
            f"{config.task.env} has no oracle: give its record (`--env_record`) a method `scripted_policy` that returns one."
        )
    if "discrete_actions" in record.capabilities(config):
        record.check_actions(config)
        menu: Any = record.actions(config)
        return AgentPolicy(MenuAgent(menu, uniform))
    if name == "random_actions":
        raise ValueError(f"'random_actions' needs a menu of actions, which {config.task.env} does not have.")
    return RandomTexts(record, config)


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


def _check_own(policy: Any) -> None:
    """Refuse a class without the methods of a policy, before it is instantiated."""
    has_method = hasattr(policy, "generate") or hasattr(policy, "act") or "__call__" in dir(policy)
    if isinstance(policy, type) and not (has_method or issubclass(policy, Agent)):
        raise ValueError(f"{NOT_A_POLICY}, got the class {policy.__name__}.")


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


def own_policy(named: Any, config: Config) -> Policy:
    """A policy from an object of the user's own; classes are instantiated without arguments.

    A policy that generates in its own steps (`ContinuousPolicy`) and an oracle part thoughts from speech themselves.

    Args:
        named: A `Policy`, or what `colbench_gym.agents.scripted.own_agent` takes.
        config: All settings.

    Raises:
        ValueError: If it is none of these.
    """
    made = named() if isinstance(named, type) else named
    if hasattr(made, "generate"):
        parts_itself = isinstance(made, ContinuousPolicy | InformedPolicy)
        return made if parts_itself else SpeechOf(made, config.model.reasoning)  # type: ignore[no-any-return]

    def menu() -> Any:
        return config.record.actions(config) if "discrete_actions" in config.record.capabilities(config) else None

    return AgentPolicy(own_agent(made, menu, config.model.reasoning))
