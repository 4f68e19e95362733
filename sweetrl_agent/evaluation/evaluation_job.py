"""The work of `python -m sweetrl_agent.evaluate`: what is checked before anything runs, and the evaluation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import Any

from colbench_gym.agents.chat import split_name
from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.evaluation import Evaluation, evaluate, plan, result_lines
from colbench_gym.evaluation.policies import PolicySpec, find_policies
from colbench_gym.evaluation.prices import read_prices
from colbench_gym.files import check_output, locked
from sandboxes.logs import shown_logs
from sandboxes.programs import program_name
from sweetrl_agent.algorithms.settings import make_config, read, with_defaults_of_environment
from sweetrl_agent.config.command_line import NONE, conclude, ending_with
from sweetrl_agent.config.evaluate import SECTIONS, SHARED, TASK_SETTINGS, EvaluateArguments
from sweetrl_agent.config.model import TINY
from sweetrl_agent.core.settings import build, refuse_secrets
from sweetrl_agent.evaluation.evaluation_times import time_lines
from sweetrl_agent.evaluation.evaluations import SAMPLING, Request
from sweetrl_agent.evaluation.mixtures import SETTINGS as MIXTURES
from sweetrl_agent.evaluation.mixtures import labelled, mixture_config, mixture_policy, refuse_unused
from sweetrl_agent.evaluation.model_policies import KINDS, ModelSpec, run_settings
from sweetrl_agent.evaluation.policy_loading import check, model_of
from sweetrl_agent.evaluation.teams import team_policy
from sweetrl_agent.evaluation.wishes import wish_lines
from sweetrl_agent.reporting.run_report import write_report
from sweetrl_agent.rollouts.trial import check_trial, print_trial
from sweetrl_agent.trainers.preflight import MISSING, check_human, check_model, check_packages, check_server
from sweetrl_agent.trainers.stage_runner import set_threads


def run(words: Sequence[str] | None, defaults: Mapping[str, Any], description: str | None, is_command: bool = True) -> int:
    """Play the missing episodes, write results and report, and print them; returns the exit status.

    Arguments and errors as in `main_job.run`.
    """
    with ExitStack() as held, ending_with(ColBenchError, ValueError, ImportError, OSError):
        request = parse(words, defaults, description)
        held.enter_context(shown_logs(request.base.run.log_level, always=is_command))
        refuse(request)
        evaluation = request.evaluation()
        set_threads(request.base.run.threads)
        if request.base.run.dry_run:
            return dry_run(request, evaluation)
        held.enter_context(locked(evaluation.folder))
        results = evaluate(evaluation, request.explain)
        page = write_report(evaluation.folder)
    lines = [*result_lines(results, evaluation.folder), f"report:  {page}"]
    wishes = wish_lines(results.get("wishes", []))
    print("\n".join([lines[0], *(["", *wishes] if wishes else []), *lines[1:]]))
    return 0


def parse(words: Sequence[str] | None, defaults: Mapping[str, Any] = NONE, description: str | None = None) -> Request:
    """The settings of the command line and, with `--config`, a YAML file; see `algorithms.settings.read`.

    Raises:
        ValueError: If a setting is invalid.
    """
    words = _with_policies(list(sys.argv[1:] if words is None else words))
    program = program_name("sweetrl_agent.evaluate")
    settings = read(words, program, description, (*SECTIONS, MIXTURES), has_algorithms=False, defaults=defaults)
    for text in (*settings.get("policies", []), *settings.get("tasks", [])):
        refuse_secrets("policies", str(text))
    kinds = (partial(mixture_policy, config=mixture_config(settings)), team_policy, *KINDS)
    policies = [labelled(spec) for spec in find_policies(settings.get("policies", []), kinds)]
    refuse_unused(settings, policies)
    given = build(EvaluateArguments, settings)
    of_first = next(filter(None, map(run_settings, policies)), {})
    given.seeds = list(given.seeds) or [int(of_first.get("seed", 0))]
    for name, of_run in (("num_tasks", "eval_tasks"), ("episodes", "eval_episodes")):
        if not {name, "tasks"} & {*settings}:  # the run's own held-out tasks, as often as the run played them
            setattr(given, name, int(of_first.get(of_run, getattr(given, name))))
    if len(set(given.seeds)) < len(given.seeds):
        raise ValueError(f"`seeds` must not contain duplicates, got {given.seeds}.")
    parts = {spec: spec.parts if isinstance(spec, ModelSpec) else (spec,) for spec in policies}
    for of_policy in parts.values():
        _brought(of_policy, {*settings}, SAMPLING)
    brought = _brought([part for of_policy in parts.values() for part in of_policy], {*settings})
    shared = with_defaults_of_environment({**brought, **settings})
    place = {"tasks": "none", "model": "none", "output": given.output, "eval_episodes": given.episodes}
    base = make_config({name: value for name, value in shared.items() if name in SHARED.settings} | place, ["initial"])
    return Request(given, base, tuple(policies), frozenset(settings), read_prices(base.run.prices))


def _with_policies(words: Sequence[str]) -> list[str]:
    """The words before the first option are policies."""
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return [*(["--policies", *words[:first]] if first else []), *words[first:]]


def _brought(policies: Sequence[PolicySpec], explicit: set[str], names: Sequence[str] = TASK_SETTINGS) -> dict[str, Any]:
    """Settings that the run folders bring, by default those of the environment.

    Raises:
        ValueError: If run folders differ in one that is not given.
    """
    brought: dict[str, Any] = {}
    for name in names:
        values = {str(run_settings(spec)[name]): spec for spec in policies if name in run_settings(spec)}
        if len(values) > 1 and name not in explicit:
            first, other = list(values.values())[:2]
            raise ValueError(
                f"Policies of run folders with different `{name}`, {run_settings(first)[name]!r} in {first.text!r} and "
                f"{run_settings(other)[name]!r} in {other.text!r}: give `--{name}`, or evaluate them one at a time."
            )
        if values and name not in explicit:
            brought[name] = run_settings(next(iter(values.values())))[name]
    return {name: value for name, value in brought.items() if value != ""}


def dry_run(request: Request, evaluation: Evaluation) -> int:
    """Print the plan and check all requirements; plays nothing and writes no files. Returns the exit status, 2 if it would fail."""
    check_output(evaluation.folder)
    lines, left = plan(evaluation)
    print("\n".join([*lines, *_template_lines(request)]))
    print_trial(request.config)
    for line in time_lines(request, left):
        print(line)
    unmet = []
    for check_requirement in _checks(request):
        try:
            check_requirement()
        except MISSING as error:
            unmet.append(" ".join(str(error).split()))
    return conclude(list(dict.fromkeys(unmet)))


def refuse(request: Request) -> None:
    """Refuse what no evaluation can work with, before anything runs.

    Raises:
        ValueError: If the environment cannot be made or fails in a trial episode, or a policy does not exist or does not fit the tasks.
        ColBenchError: If tasks cannot be loaded.
    """
    for i, source in enumerate(request.sources[split] for split in request.held_out):
        config = request.config_of(None, source)
        if not i:
            config.record.check(config)
            check_trial(config)
        for spec in request.policies:
            check(spec, request.config_of(spec, source), request.api())


def _template_lines(request: Request) -> Iterator[str]:
    """How the chat template of each model is read, as lines for the screen."""
    for spec in request.policies:
        place, base = model_of(spec)
        if place and run_settings(spec).get("model") != TINY:
            with suppress(ColBenchError):  # a fault is printed with the others
                shown = check_model("policies", place, request.config_of(spec).model, base, "elsewhere")
                yield f"template   {spec.name}: {shown}"


def _checks(request: Request) -> Iterator[Callable[[], object]]:
    """Checks of what the evaluation needs: packages, models, servers, the simulated human and the sandbox."""
    for spec in request.policies:
        config = request.config_of(spec)
        if isinstance(spec, ModelSpec):
            yield partial(check_packages, config, ["evaluate"])
            yield from (partial(check_server, url, "OPENAI_API_KEY") for url in config.model.server_urls)
        if spec.kind == "chat":
            yield partial(check_server, split_name(spec.text)[1], request.given.api_key_env)

    def environment() -> None:
        config = request.config
        tasks = next(iter(request.held_out.values()))
        with closing(config.record.environments(config, tasks[:1], 1)) as env:
            check_human(config.record, getattr(env.envs[0], "simulator", None))
            env.envs[0].prepare()

    yield environment
