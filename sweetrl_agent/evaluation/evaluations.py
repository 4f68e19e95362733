"""Evaluation of any policies on any environment: plays their episodes into evaluation.jsonl, then writes results and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import torch
import yaml

from colbench_gym.digests import inputs_of_source
from colbench_gym.evaluation.cells import Cell, find_invalid, in_order, prepare, recorded, write_results
from colbench_gym.evaluation.folder import ROWS, SETTINGS, Settings, make_results, merged_settings, split_name, unique_names
from colbench_gym.evaluation.prices import Prices
from colbench_gym.evaluation.summary import HUMAN_TOKENS
from colbench_gym.stage_records import EVALUATION, StageRecords
from sandboxes.cpus import usable_cpus
from sweetrl_agent.config.evaluate import MODEL_SETTINGS, RUN_SETTINGS, TASK_SETTINGS, EvaluateArguments
from sweetrl_agent.config.job import Config
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.data.files import Row, write_json, write_text
from sweetrl_agent.data.inputs import input_names
from sweetrl_agent.data.machine import versions
from sweetrl_agent.data.run import TEST_FRACTION, beside_browsers
from sweetrl_agent.evaluation.evaluate import episode_row, read_evaluation
from sweetrl_agent.evaluation.failures import explain_shown, failures_of, summarize_failures
from sweetrl_agent.evaluation.policies import PolicySpec, pretrained_defaults
from sweetrl_agent.evaluation.policy_loading import loader, policy_inputs
from sweetrl_agent.evaluation.wishes import summarize_wishes
from sweetrl_agent.reporting.run_report import write_report
from sweetrl_agent.rollouts import play
from sweetrl_agent.rollouts.episode_files import EpisodeFile
from sweetrl_agent.rollouts.play import episodes_of

#: Settings that may change when an evaluation resumes.
_MOVABLE = ("sandbox",)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What is evaluated.

    Attributes:
        given: Settings of the command.
        shared: Settings that it shares with `train`.
        policies: The policies.
        explicit: Names of the settings that were given, which override those of run folders.
        prices: Price of every model; {} for none.
    """

    given: EvaluateArguments
    shared: Any
    policies: Sequence[PolicySpec]
    explicit: frozenset[str]
    prices: Prices

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return Path(self.given.output)

    @cache  # noqa: B019  (one object per process)
    def config(self, spec: PolicySpec | None, source: str = "") -> Config:
        """Settings of a policy on a source of tasks; None for those of the environment alone.

        Raises:
            ValueError: If a setting is wrong.
        """
        shared = self.shared
        model = {name: getattr(shared, name) for name in MODEL_SETTINGS}
        if spec is not None:
            model |= {
                name: spec.settings[name] for name in MODEL_SETTINGS if name in spec.settings and name not in self.explicit
            }
            if spec.settings.get("engine") == "server" and "engine" not in self.explicit:
                model["engine"] = "transformers"  # the addresses of the run's servers are not recorded
            defaults = pretrained_defaults(spec, shared.env)
            model |= {name: value for name, value in defaults.items() if name not in self.explicit}
            if not spec.is_model:
                model |= {"engine": "transformers", "server_urls": []}
        others = {name: getattr(shared, name) for name in (*TASK_SETTINGS, *RUN_SETTINGS)}
        place = {"tasks": source or "none", "model": spec.place if spec is not None and spec.is_model else "none"}
        return Config().with_settings(
            {**others, **model, **place, "output": self.given.output, "eval_episodes": self.given.episodes}
        )

    @cached_property
    def sources(self) -> dict[str, str]:
        """The source of tasks of every split."""
        return dict(
            zip(unique_names(self.given.tasks, [split_name(one) for one in self.given.tasks]), self.given.tasks, strict=True)
            if "tasks" in self.explicit
            else self._default_sources()
        )

    def _default_sources(self) -> Iterator[tuple[str, str]]:
        settings = next((spec.settings for spec in self.policies if spec.settings), None)
        record = self.config(None).record
        if settings is None:
            yield "test", str({**asdict(Config().task), **record.all_defaults()}["test_tasks"])
            return
        yield "test", settings["test_tasks"] or self._last_fifth(settings["tasks"])
        yield from ((split, settings[f"{split}_tasks"]) for split in ("unseen", "novel") if settings[f"{split}_tasks"])

    def _last_fifth(self, source: str) -> str:
        """The test tasks of a run without a source of its own for them; see `data.run.load_splits`."""
        config = self.config(None)
        if "[" in source:
            raise ValueError(f"The run's test tasks are the last fifth of {source!r}; name them with `--tasks`.")
        count = len(config.record.load_tasks(source, config.task))
        return f"{source}[{count - count // TEST_FRACTION}:]"

    @cache  # noqa: B019
    def tasks(self) -> dict[str, Sequence[Any]]:
        """The tasks of every split.

        Raises:
            ColBenchError: If they cannot be loaded.
        """
        config = self.config(None)
        limit = self.given.num_tasks or None
        return {split: config.record.load_tasks(source, config.task)[:limit] for split, source in self.sources.items()}

    def settings(self) -> Settings:
        """What the rows depend on, for `settings.json`."""
        names = [name for name in TASK_SETTINGS if name not in _MOVABLE]
        human = self.config(None).task.simulator_spec()
        if isinstance(human, dict):  # the address of its server and the name of its key may change
            human = {name: value for name, value in human.items() if name not in ("base_url", "api_key_env")}
        fixed = {**{name: getattr(self.shared, name) for name in names}, "simulator": human, "episodes": self.given.episodes}
        full = self.config(None).record.full_name
        limit = f", the first {self.given.num_tasks}" if self.given.num_tasks else ""
        return {
            "evaluation": fixed,
            "policies": {spec.name: spec.sampling(self.config(spec)) for spec in self.policies},
            "tasks": {split: full(source) + limit for split, source in self.sources.items()},
        }

    @cache  # noqa: B019
    def cells(self) -> list[Cell]:
        """The episodes of each policy, split and seed, and what they depend on.

        Raises:
            ColBenchError: If the files of a run folder's policy are not as its stages wrote them.
        """
        return [
            Cell(
                spec.name, split, seed, (*inputs_of_source(source), *input_names(self.config(spec), ("env", "human")), *policy)
            )
            for spec in self.policies
            for policy in [policy_inputs(spec)]
            for split, source in self.sources.items()
            for seed in self.given.seeds
        ]

    def api(self) -> dict[str, Any]:
        """Settings of requests to chat servers."""
        return {name: getattr(self.given, name) for name in ("api_key_env", "timeout_s", "max_retries")}


def run_evaluation(evaluation: Evaluation) -> dict[str, Any]:
    """Play the missing episodes of every policy, split and seed; write results.json and report.html. Returns the results.

    Raises:
        ColBenchError: If a service fails; the same command resumes.
        ValueError: If the folder has rows of other settings.
    """
    folder = evaluation.folder
    records, cells = StageRecords(folder, kind=EVALUATION), evaluation.cells()
    settings = merged_settings(records, evaluation.settings())
    redo = evaluation.given.redo
    prepare(records, settings, cells, find_invalid(records, cells, redo), redo, evaluation.shared.replay_void)
    write_json(folder / SETTINGS, settings)
    write_text(folder / "config.yaml", yaml.safe_dump(_written(evaluation), sort_keys=False))
    torch.set_num_threads(evaluation.shared.threads or usable_cpus())
    for spec in evaluation.policies:
        for split, tasks in evaluation.tasks().items():
            _play_split(evaluation, records, spec, split, tasks)
    record = evaluation.config(None).record
    rows = in_order(read_evaluation(folder / ROWS, record.metric), records)
    human = _human_model(settings["evaluation"]["simulator"])
    results = make_results(rows, settings, record.metric, record.success_means, human, evaluation.prices, versions())
    _explain(evaluation, rows, results)
    write_results(records, results)
    write_json(folder / "versions.json", results["versions"])
    write_report(folder)
    return results


@dataclass
class _Evaluated:
    """See `failures.Evaluated`."""

    record: Any
    config: Config
    held_out: Mapping[str, Sequence[Any]]
    folder: Path


def _explain(evaluation: Evaluation, rows: Sequence[Row], results: dict[str, Any]) -> None:
    """Add why episodes fail, and what was heard and written down, to the results.

    For one seed, also write the files that the report shows: their rows are told apart without the seed.
    """
    config = evaluation.config(None, next(iter(evaluation.sources.values())))
    evaluated = _Evaluated(config.record, config, evaluation.tasks(), evaluation.folder)
    failures = failures_of(evaluated, rows)
    if failures:
        results["failures"] = summarize_failures(config.record.failure_kinds, failures)
    if wishes := summarize_wishes(evaluated, rows):
        results["wishes"] = wishes
    if len(evaluation.given.seeds) == 1:
        explain_shown(evaluated, rows, failures)


def _play_split(evaluation: Evaluation, records: StageRecords, spec: PolicySpec, split: str, tasks: Sequence[Any]) -> None:
    """Play a policy's episodes on a split, with every seed. The policy is loaded once, and only if episodes are left."""
    config = evaluation.config(spec, evaluation.sources[split])
    load = loader(spec, config, evaluation.api())
    policy = load if config.run.ray_workers else cache(load)
    episodes = episodes_of([task.id for task in tasks], config.evaluation.eval_episodes)
    size = 1 if spec.is_sequential else min(config.model.generation_batch, len(episodes))
    environment = partial(config.record.environments, config, tasks, size)
    for cell in evaluation.cells():
        if (cell.agent, cell.split) != (spec.name, split) or records.is_done(cell.name):
            continue
        player = partial(play.player, policy, environment, cell.seed, f"evaluate {split}")
        file = EpisodeFile(evaluation.folder / ROWS, partial(_row, config, {task.id: task for task in tasks}), cell.label)
        with recorded(records, cell), beside_browsers(config.record.has_pages):
            file.play(episodes, size, player, config.run, f"{spec.name}: {split}, seed {cell.seed}")


def _row(config: Config, tasks: Mapping[str, Any], episode: Episode) -> Row:
    """A run folder's row of the episode, with the task and the answer for `colbench_gym.grade`, and the tokens."""
    record, task = config.record, tasks[episode.task_id]
    task_row, last = record.task_row(task), episode.turns[-1].text if episode.turns else ""
    found = record.answer(last) if last else None
    human = {name: episode.metrics.get(name) for name in HUMAN_TOKENS}
    usage = episode.usage or (None, None)
    return {
        **episode_row(episode, task, record),
        **({"task": task_row} if task_row else {}),
        "answer": last if found is None else found,
        "prompt_tokens": usage[0],
        "generated_tokens": usage[1],
        **(human if _human_model(config.task.simulator_spec()) else {}),
    }


def _human_model(simulator: Any) -> str:
    """Name of the model that plays the human; "" if none does."""
    return str(simulator.get("model", "")) if isinstance(simulator, dict) else ""


def _written(evaluation: Evaluation) -> dict[str, Any]:
    """The settings as `--config` reads them back, without those of the machine and the folder."""
    given = {name: value for name, value in asdict(evaluation.given).items() if name not in ("output", "redo")}
    given["tasks"] = list(evaluation.sources.values())
    shared = {name: value for name, value in asdict(evaluation.shared).items() if name not in (*RUN_SETTINGS, "server_urls")}
    return given | {name: value for name, value in shared.items() if name in TASK_SETTINGS or name in evaluation.explicit}
