"""Checks of a comparison's settings before anything runs: unknown names, numbers out of range, missing capabilities of the environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweetrl_agent.config.evaluation import CompareArguments
    from sweetrl_agent.config.job import Config

#: The most seeds of a comparison.
MOST_SEEDS = 10_000


def check(given: CompareArguments, config: Config) -> None:
    """Refuse invalid settings before anything runs.

    Raises:
        ValueError: If a name is unknown or given twice, the environment lacks a capability that an algorithm requires, or a number is too small.
    """
    from sandboxes.named import nearest
    from sweetrl_agent.core.settings import check_settings, refuse_secrets
    from sweetrl_agent.evaluation.dials import read_results
    from sweetrl_agent.evaluation.simulators import simulator_spec
    from sweetrl_agent.evaluation.win_rate import recorded
    from sweetrl_agent.rollouts.trial import check_trial

    check_settings(given)
    seed_numbers(given.seeds, config.run.seed)
    _check_names(given, config)
    _check_numbers(given, config)
    if config.run.stage != "all":
        raise ValueError("`stage` is a setting of `train`; `compare` runs all missing stages: leave it out.")
    if config.algorithms.critic != "sweet":
        raise ValueError("`critic` is a setting of `train`; in `compare` name critics in `--algorithms` and `--critics`.")
    record = config.record
    record.check(config)
    for simulator in given.simulators:
        refuse_secrets("simulators", simulator)
        simulator_spec(simulator, record)
    if given.baseline:
        recorded(given.baseline, record.metric)
    for own in own_settings(given).values():
        config.with_settings(own)
    for folder in given.dials:
        read_results(folder)
    if given.against.upper() not in ("", "PAPER"):
        raise ValueError(
            f"`against` must be 'PAPER' or empty, got {given.against!r}.{nearest(given.against.upper(), ['PAPER'])}"
        )
    check_trial(config)


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


def own_settings(given: CompareArguments) -> dict[str, dict[str, Any]]:
    """Parse the setting `own_settings`: settings by algorithm.

    Raises:
        ValueError: If it is not JSON of that form, an algorithm is not compared or has no critic, a setting does not belong to the training of
            its critic or actor, or a value has the wrong type.
    """
    import json

    from sweetrl_agent.algorithms.registry import ALGORITHMS
    from sweetrl_agent.algorithms.sweet import SweetConfig
    from sweetrl_agent.config.job import first_stage

    try:
        found = json.loads(given.own_settings or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`own_settings` must be JSON, got {given.own_settings[:200]!r}: {error}.") from None
    if not isinstance(found, dict) or not all(isinstance(own, dict) for own in found.values()):
        raise ValueError(f"`own_settings` must map algorithms to settings, got {given.own_settings!r}.")
    known = {setting.name: type(setting.default) for setting in fields(SweetConfig)}
    allowed = sorted(name for name in known if first_stage(name) in ("critic", "rank", "actor"))
    for name, own in found.items():
        if name not in given.algorithms:
            raise ValueError(f"`own_settings` must name algorithms that are compared, {given.algorithms}, got {name!r}.")
        if not ALGORITHMS[name].critic:
            raise ValueError(f"`own_settings` must name algorithms that train an actor with a critic, got {name!r}.")
        if wrong := sorted(own.keys() - set(allowed)):
            raise ValueError(f"`own_settings` of {name!r} may contain {allowed}, got {wrong}.")
        for setting, value in own.items():
            if type(value) is not known[setting] and not (known[setting] is float and type(value) is int):
                raise ValueError(
                    f"`own_settings` of {name!r}: `{setting}` must be of type {known[setting].__name__}, got {value!r}."
                )
    return found


def _check_names(given: CompareArguments, config: Config) -> None:
    from sweetrl_agent.algorithms.critics import check_needs
    from sweetrl_agent.algorithms.registry import ALGORITHMS, refuse_missing, register, register_own_critic
    from sweetrl_agent.config.evaluation import CompareArguments

    given.algorithms = [register(name, "algorithms") for name in given.algorithms]
    has_critic = any(ALGORITHMS[name].critic for name in given.algorithms)
    if given.credit_tasks == CompareArguments.credit_tasks and not (has_critic and "exact" in config.record.oracles(config)):
        given.credit_tasks = 0  # left at its default, and no algorithm has a critic, or the exact advantage is not known
    capabilities = config.record.capabilities(config)
    are_default = given.critics == CompareArguments().critics
    if given.credit_tasks and are_default:  # those of them that the environment allows
        given.critics = [name for name in given.critics if ALGORITHMS[name].requires <= capabilities]
        if not given.critics:
            raise ValueError(
                f"Credit accuracy on {config.task.env} needs `--critics` that see nothing hidden, such as no_hidden and value_head."
            )
    given.critics = [register_own_critic(name, "critics") for name in given.critics]
    for setting, names in (("algorithms", given.algorithms), ("critics", given.critics)):
        if len(set(names)) < len(names):
            raise ValueError(f"`{setting}` must not contain duplicates, got {names}.")
    used = dict.fromkeys([*given.algorithms, *(given.critics if given.credit_tasks or given.best_of else ())])
    for name in used:
        ALGORITHMS[name].refuse_model(config.model)
    refuse_missing(used, capabilities, config.task.env)
    if any(ALGORITHMS[name].is_discrete for name in given.algorithms):
        config.record.check_actions(config)
    check_needs([*used, *(["credit_tasks"] if given.credit_tasks else [])], config)


def _check_numbers(given: CompareArguments, config: Config) -> None:
    if min([1, *given.best_of]) < 1:
        raise ValueError(f"`best_of` takes positive numbers, got {given.best_of}.")
    if given.dials and not 0 <= given.dial_place <= len(given.dials):
        raise ValueError(f"`dial_place` must be from 0 to {len(given.dials)}, the number of `dials`, got {given.dial_place}.")
    per_task, most = config.collect.trajectories_per_task, config.collect.num_tasks * config.collect.trajectories_per_task
    if not all(per_task <= count <= (most or count) for count in given.scaling):
        raise ValueError(f"`scaling` takes counts from {per_task} to {most or 'all'} trajectories, got {given.scaling}.")
