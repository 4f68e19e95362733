"""The plan of an evaluation, and checks of what it needs before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from functools import partial

from colbench_gym.agents.chat import split_name
from colbench_gym.digests import complete_lines
from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.cells import name_of
from colbench_gym.evaluation.folder import ROWS
from sweetrl_agent.config.model import TINY
from sweetrl_agent.evaluation.evaluate import read_evaluation
from sweetrl_agent.evaluation.evaluations import Evaluation
from sweetrl_agent.evaluation.policy_loading import check, model_of
from sweetrl_agent.rollouts.trial import check_trial, print_trial
from sweetrl_agent.trainers.preflight import check_human, check_model, check_packages, check_server


def refuse(evaluation: Evaluation) -> None:
    """Refuse what no evaluation can work with, before anything runs.

    Raises:
        ValueError: If the environment cannot be made or fails in a trial episode, or a policy does not exist or does not fit the tasks.
        ColBenchError: If tasks cannot be loaded.
    """
    evaluation.tasks()
    for i, source in enumerate(evaluation.sources.values()):
        config = evaluation.config(None, source)
        if not i:
            config.record.check(config)
            check_trial(config)
        for spec in evaluation.policies:
            check(spec, evaluation.config(spec, source), evaluation.api())


def plan(evaluation: Evaluation) -> None:
    """Print what would be played."""
    for spec in evaluation.policies:
        model = evaluation.config(spec).model
        sampling = f", temperature {model.temperature:g}, at most {model.max_new_tokens} tokens a message"
        print(f"policy     {spec.name}: {spec.text} ({spec.kind}{sampling if spec.is_model or spec.kind == 'chat' else ''})")
        place, base = model_of(spec)
        if place and spec.settings.get("model") != TINY:
            with suppress(ColBenchError):  # a fault is printed with the others
                print(f"template   {spec.name}: {check_model('policies', place, model, base, 'elsewhere')}")
    tasks = evaluation.tasks()
    for split, own in tasks.items():
        print(f"tasks      {split}: {len(own)} of {evaluation.sources[split]}; human: {evaluation.shared.simulator}")
    count = sum(map(len, tasks.values())) * evaluation.given.episodes * len(evaluation.given.seeds)
    print(f"episodes   {count} of each policy, seeds {' '.join(map(str, evaluation.given.seeds))}; {evaluation.shared.env}")
    print_trial(evaluation.config(None, next(iter(evaluation.sources.values()))))


def checks(evaluation: Evaluation) -> Iterator[Callable[[], object]]:
    """Checks of what the evaluation needs: packages, models, servers, the simulated human and the sandbox."""
    for spec in evaluation.policies:
        config = evaluation.config(spec)
        if spec.is_model:
            yield partial(check_packages, config, ["evaluate"])
            yield from (partial(check_server, url, "OPENAI_API_KEY") for url in config.model.server_urls)
        if spec.kind == "chat":
            yield partial(check_server, split_name(spec.text)[1], evaluation.given.api_key_env)

    def environment() -> None:
        config = evaluation.config(None, next(iter(evaluation.sources.values())))
        tasks = next(iter(evaluation.tasks().values()))
        with closing(config.record.environments(config, tasks[:1], 1)) as env:
            check_human(config.record, getattr(env.envs[0], "simulator", None))
            env.envs[0].prepare()

    yield environment


def episodes_left(evaluation: Evaluation, invalid: Collection[str]) -> dict[str, int]:
    """Number of rows of each policy that are missing in the folder, with those of the cells that are to be played again."""
    path, given = evaluation.folder / ROWS, evaluation.given
    if invalid:  # what cannot be read is removed with their rows
        rows = [row for _, row in complete_lines(path) if row is not None] if path.is_file() else []
    else:
        rows = read_evaluation(path, evaluation.config(None).record.metric)
    mine = {cell.name: cell.agent for cell in evaluation.cells() if cell.name not in invalid}
    done = Counter(mine[name] for name in map(name_of, rows) if name in mine)
    each = sum(map(len, evaluation.tasks().values())) * given.episodes * len(given.seeds)
    return {spec.name: max(0, each - done[spec.name]) for spec in evaluation.policies}
