"""Checks of settings before anything runs: unknown names, numbers out of range, missing capabilities of the environment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from colbench_gym.evaluation.prices import check_limit, read_prices
from colbench_gym.servers.usage import USAGE, Meter
from sandboxes.named import nearest
from sweetrl_agent.algorithms.critic_settings import SWEET
from sweetrl_agent.algorithms.critics import CRITICS, check_needs
from sweetrl_agent.algorithms.registry import refuse_missing
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.job import Config
from sweetrl_agent.config.task import human_model
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.settings import refuse_secrets
from sweetrl_agent.evaluation.dials import read_results
from sweetrl_agent.evaluation.simulators import simulator_spec
from sweetrl_agent.evaluation.win_rate import recorded, refuse_other_settings
from sweetrl_agent.rollouts.trial import check_trial
from sweetrl_agent.trainers.gpus import parse_gpus
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm
from sweetrl_agent.trainers.run import without_endpoints

#: The most seeds of a comparison.
MOST_SEEDS = 10_000


def check(config: Config, others: Collection[str] = ()) -> None:
    """Refuse settings that no run can work with.

    Args:
        config: All settings, with the algorithms that are trained.
        others: Other things that need an oracle, see `critics.check_needs`.

    Raises:
        ValueError: Names the setting, or the capability that the environment lacks.
    """
    if config.run.gpu:
        parse_gpus(config.run.gpu)
    algorithms = config.algorithms.values()
    for algorithm in algorithms:
        algorithm.refuse_model(config.model)
    pairing = [algorithm.name for algorithm in algorithms if "pairs" in algorithm.shared]
    if pairing and config.collect.trajectories_per_task < 2:
        raise ValueError(
            f"`trajectories_per_task` must be at least 2 for {pairing[0]!r}, which learns from pairs of episodes, got 1."
        )
    if config.has_sft and config.model.history < 0 and config.sft.sft_dialogues < config.sft.sft_batch:
        raise ValueError(
            f"`sft_dialogues` must be at least `sft_batch`, {config.sft.sft_batch}, the dialogues of an optimizer step, got {config.sft.sft_dialogues}."
        )
    config.record.check(config)
    refuse_missing(algorithms, config.record.capabilities(config), config.task.env)
    _check_agents(config)
    if any(algorithm.is_discrete for algorithm in algorithms):
        config.record.check_actions(config)
    names = list(config.algorithms)
    for algorithm in algorithms:
        if missing := [name for name in algorithm.algorithms_needed if name not in names[: names.index(algorithm.name)]]:
            raise ValueError(
                f"{algorithm.name!r} uses {' and '.join(map(repr, missing))}, to be trained in the same run before it: "
                f"`compare --algorithms {' '.join(missing)} {algorithm.name}`."
            )
        for name in algorithm.algorithms_needed:
            algorithm.refuse_needed(config.algorithms[name])
    check_needs([*config.algorithms, *others], config)
    check_costs(config)
    check_trial(config)


def check_costs(config: Config, simulators: Sequence[Any] = ()) -> None:
    """Refuse a limit of costs without the prices of all models on servers.

    Args:
        config: All settings.
        simulators: Specifications of further simulated humans.

    Raises:
        ValueError: As `check_limit` and `read_prices`.
    """
    models = [*served(config), config.task.human_model, *map(human_model, simulators)]
    check_limit(config.run.max_cost, read_prices(config.run.prices), models)


def served(config: Config) -> list[str]:
    """The models of the agent that are on servers, by their names in the prices."""
    return [config.model.model] if config.model.engine == "server" else []


def meter_of(config: Config) -> Meter:
    """What counts the requests of a run or a comparison to model servers, in its folder."""
    given = config.run
    return Meter(Path(given.output) / USAGE, read_prices(given.prices), given.max_cost, served(config))


def _check_agents(config: Config) -> None:
    """Refuse algorithms of several agents whose agents are not the environment's, and algorithms of one agent in an environment of several."""
    algorithms, env = config.algorithms.values(), config.task.env
    teams = [algorithm for algorithm in algorithms if algorithm.policies and [*algorithm.policies] != [AGENT]]
    of_one = [algorithm for algorithm in algorithms if "collect" in algorithm.shared]
    named = config.record.agents(config) if teams or of_one else ()
    is_unknown = bool(of_one) and not named and config.record.known_trial(config) is None
    first = _first_agent(config) if teams or is_unknown else AGENT
    if of_one and (others := {*named, first} - {AGENT}):
        raise ValueError(
            f"{of_one[0].name!r} learns from the dialogues of one agent, and {env} has {', '.join(named or others)}: "
            "take an on-policy algorithm, such as grpo."
        )
    for algorithm in teams:
        agents = [*algorithm.policies]
        if algorithm.is_ordered:
            fits = [*named] == agents if named else first == agents[0]
        else:
            fits = {*named} == {*agents} if named else first in agents
        if not fits:
            met = f"{env} has {', '.join(named)}" if named else f"in {env} {first!r} speaks first"
            advice = algorithm.settings_for(named) if named else ""
            raise ValueError(
                f"{algorithm.name!r} takes an environment of the agents {', '.join(agents)}{' in this order' * algorithm.is_ordered}, and {met}: "
                + (f"give {advice}." if advice else "take another environment (`--env`, `--env_kwargs`), or name its agents.")
            )


def _first_agent(config: Config) -> str:
    """The agent that speaks first in the first task."""
    task = config.record.load_tasks(config.task.tasks, config.task)[0]
    with closing(config.record.environments(config, (task,), 1)) as envs:
        envs.envs[0].reset(seed=0, options={"task_id": task.id})
        return getattr(envs.envs[0], "agent", AGENT)


def check_comparison(given: CompareArguments, config: Config) -> None:
    """Refuse settings that no comparison can work with.

    Raises:
        ValueError: As `check`; or if a critic is named twice, or a number is too small.
    """
    seed_numbers(given.seeds, config.run.seed)
    for setting, names in (
        ("algorithms", given.algorithms),
        ("critics", given.critics),
        ("credit_algorithms", given.credit_algorithms),
    ):
        if len({*names}) < len(names):
            raise ValueError(f"`{setting}` must not contain duplicates, got {names}.")
    _check_numbers(given, config)
    if config.run.stage != "all":
        raise ValueError("`stage` is a setting of `train`; `compare` runs all missing stages: leave it out.")
    if config.run.critic != SWEET:
        raise ValueError("`critic` is a setting of `train`; in `compare` name critics in `--algorithms` and `--critics`.")
    for simulator in given.simulators:
        refuse_secrets("simulators", simulator)
    check_costs(config, [simulator_spec(simulator, config.record) for simulator in given.simulators])
    if given.baseline:
        recorded(given.baseline, config.record.metric)
        refuse_other_settings(given.baseline, config.task)
    for folder in given.dials:
        there = read_results(folder).get("settings", {})
        for name, here in (("model", config.model.model), ("simulator", config.task.simulator)):
            if without_endpoints({name: there.get(name, here)}) != without_endpoints({name: here}):
                raise ValueError(
                    f"`dials`: {folder} has {name} {there[name]!r}, here it is {here!r}; the chart compares tasks, and nothing else may differ."
                )
    if given.against.upper() not in ("", "PAPER"):
        raise ValueError(
            f"`against` must be 'PAPER' or empty, got {given.against!r}.{nearest(given.against.upper(), ['PAPER'])}"
        )
    check(config, ["credit_tasks"] if given.credit_tasks else [])
    _check_credit(given, config)


def seed_numbers(seeds: Sequence[int], first: int) -> list[int]:
    """The seeds of a comparison: one number is how many, counted from the setting `seed`; several numbers are the seeds themselves.

    Raises:
        ValueError: If there is none, or one twice, or one below 0.
    """
    if len(seeds) == 1:
        count = seeds[0]
        if not 1 <= count <= MOST_SEEDS:
            bound = "at least 1" if count < 1 else f"at most {MOST_SEEDS}"
            raise ValueError(
                f"`seeds` must be {bound}, got {count}: one number is how many seeds; seed {abs(count)} alone is `--seed {abs(count)} --seeds 1`."
            )
        return list(range(first, first + count))
    if not seeds or min(seeds) < 0 or len({*seeds}) < len(seeds):
        raise ValueError(f"`seeds` must be one number for how many, or different seeds from 0 on, got {seeds}.")
    return list(seeds)


def chosen_critics(given: CompareArguments, config: Config) -> list[str]:
    """The critics for credit accuracy and best-of-N; their defaults are those that the environment allows.

    Credit accuracy at its default is left out where no algorithm has a critic, or the exact advantage is not known.

    Raises:
        ValueError: If the environment allows none of the default ones.
    """
    has_critic = any(algorithm.critic for algorithm in config.algorithms.values()) or bool(given.credit_algorithms)
    if given.credit_tasks == CompareArguments.credit_tasks and not (has_critic and "exact" in config.record.oracles(config)):
        given.credit_tasks = 0
    if not given.credit_tasks or given.critics != CompareArguments().critics:
        return given.critics
    capabilities = config.record.capabilities(config)
    if allowed := [name for name in given.critics if CRITICS[name].needs <= capabilities]:
        return allowed
    raise ValueError(
        f"Credit accuracy on {config.task.env} needs `--critics` that see nothing hidden, such as no_hidden and value_head."
    )


def _check_credit(given: CompareArguments, config: Config) -> None:
    """Refuse algorithms without a rule for turns, and an environment in which candidates cannot be played on."""
    if not given.credit_algorithms:
        return
    if not given.credit_tasks:
        raise ValueError(
            "`credit_algorithms` are measured on held-out tasks with a known exact advantage: give their number by `--credit_tasks N`, or leave `credit_algorithms` out."
        )
    for name in given.credit_algorithms:
        algorithm = config.algorithms[name]
        if not isinstance(algorithm, OnPolicyAlgorithm) or len(algorithm.policies) > 1:
            raise ValueError(
                f"`credit_algorithms` takes on-policy algorithms of one agent, got {name!r}; critics go into `--critics`."
            )
    if "snapshot" not in config.record.capabilities(config):
        raise ValueError(
            f"`credit_algorithms` play candidates on from snapshots, which {config.task.env} does not have; leave it out."
        )


def _check_numbers(given: CompareArguments, config: Config) -> None:
    if min([1, *given.best_of]) < 1:
        raise ValueError(f"`best_of` takes positive numbers, got {given.best_of}.")
    if given.dials and not 0 <= given.dial_place <= len(given.dials):
        raise ValueError(f"`dial_place` must be from 0 to {len(given.dials)}, the number of `dials`, got {given.dial_place}.")
    per_task, most = config.collect.trajectories_per_task, config.collect.num_tasks * config.collect.trajectories_per_task
    if not all(per_task <= count <= (most or count) for count in given.scaling):
        raise ValueError(f"`scaling` takes counts from {per_task} to {most or 'all'} trajectories, got {given.scaling}.")
