"""What `python -m sweetrl_agent.evaluate` evaluates: policies of all kinds on any environment, for the evaluator of `colbench_gym.evaluation`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import yaml

from colbench_gym.digests import inputs_of_source
from colbench_gym.evaluation.evaluation import EvaluatedPolicy, Evaluation, Players, Split
from colbench_gym.evaluation.folder import without_address
from colbench_gym.evaluation.names import named_sources
from colbench_gym.evaluation.policies import PolicySpec, sampled_with
from colbench_gym.evaluation.prices import Prices
from colbench_gym.evaluation.rows import evaluator_fields
from colbench_gym.files import Row
from sweetrl_agent.config.evaluate import MODEL_SETTINGS, TASK_SETTINGS, EvaluateArguments
from sweetrl_agent.config.job import Config
from sweetrl_agent.config.task import TaskArguments
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.data.inputs import input_names
from sweetrl_agent.data.machine import versions
from sweetrl_agent.evaluation.failures import explain_shown, failures_of, summarize_failures
from sweetrl_agent.evaluation.held_out import row_of
from sweetrl_agent.evaluation.mixtures import MixtureSpec
from sweetrl_agent.evaluation.model_policies import ModelSpec, pretrained_defaults, run_settings
from sweetrl_agent.evaluation.policy_loading import load, policy_inputs
from sweetrl_agent.evaluation.wishes import summarize_wishes
from sweetrl_agent.rollouts import play
from sweetrl_agent.rollouts.player import RolloutPlayer
from sweetrl_agent.trainers.run import TEST_FRACTION, reserve_browser_cores

#: Settings that may change when an evaluation resumes.
_MOVABLE = ("sandbox",)
#: How a chat server, and any other model, is asked: settings that its rows depend on.
SAMPLING = ("system_prompt", "reasoning", "max_new_tokens", "temperature")
_OF_MODELS = tuple(name for name in MODEL_SETTINGS if name not in ("server_urls", "generation_batch"))


@dataclass(frozen=True, eq=False)
class Request:
    """The settings of the command, from which the evaluation is made.

    Attributes:
        given: Settings of the command.
        base: Settings that it shares with `train`, of the environment alone.
        policies: The policies.
        explicit: Names of the settings that were given, which override those of run folders.
        prices: Price of every model; {} for none.
    """

    given: EvaluateArguments
    base: Config
    policies: Sequence[PolicySpec]
    explicit: frozenset[str]
    prices: Prices

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return Path(self.given.output)

    @property
    def config(self) -> Config:
        """Settings of the environment, on the tasks of the first split."""
        return self.config_of(None, next(iter(self.sources.values())))

    @property
    def record(self) -> EnvironmentRecord:
        """What is known of the environment."""
        return self.base.record

    @cache  # noqa: B019  (one object per process)
    def config_of(self, spec: PolicySpec | None, source: str = "") -> Config:
        """Settings of a policy on a source of tasks; None for those of the environment alone.

        Raises:
            ValueError: If a setting is wrong.
        """
        changed: dict[str, Any] = {"tasks": source or "none"}
        if spec is not None:
            brought = run_settings(spec)
            changed |= {name: value for name, value in brought.items() if name in MODEL_SETTINGS and name not in self.explicit}
            if brought.get("engine") == "server" and "engine" not in self.explicit:
                changed["engine"] = "transformers"  # the addresses of the run's servers are not recorded
            defaults = pretrained_defaults(spec, self.base.task.env)
            changed |= {name: value for name, value in defaults.items() if name not in self.explicit}
            changed |= {"model": spec.place} if isinstance(spec, ModelSpec) else {"engine": "transformers", "server_urls": []}
        return self.base.with_settings(changed)

    @cached_property
    def sources(self) -> dict[str, str]:
        """The source of tasks of every split."""
        return named_sources(self.given.tasks) if "tasks" in self.explicit else self._default_sources()

    def _default_sources(self) -> dict[str, str]:
        parts = (part for spec in self.policies if isinstance(spec, ModelSpec) for part in spec.parts)
        of_runs = {part.text: self._held_out_of(settings) for part in parts if (settings := run_settings(part))}
        if not of_runs:
            return {"test": str(self.record.all_defaults().get("test_tasks", TaskArguments.test_tasks))}
        (first, sources), *others = of_runs.items()
        for name, other in others:
            if other != sources:
                raise ValueError(
                    f"{name} holds out other tasks ({', '.join(other.values())}) than {first} ({', '.join(sources.values())}), and may have trained on these: "
                    "name tasks that none has trained on with `--tasks`."
                )
        return sources

    def _held_out_of(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """The sources of the held-out tasks of a run."""
        further = {split: settings[f"{split}_tasks"] for split in ("unseen", "novel") if settings[f"{split}_tasks"]}
        return {"test": settings["test_tasks"] or self._last_fifth(settings["tasks"]), **further}

    def _last_fifth(self, source: str) -> str:
        """The test tasks of a run without a source of its own for them; see `trainers.run.load_splits`."""
        if "[" in source:
            raise ValueError(f"The run's test tasks are the last fifth of {source!r}; name them with `--tasks`.")
        count = len(self.record.load_tasks(source, self.base.task))
        return f"{source}[{count - count // TEST_FRACTION}:]"

    @cached_property
    def held_out(self) -> dict[str, Sequence[Any]]:
        """The tasks of every split.

        Raises:
            ColBenchError: If they cannot be loaded.
        """
        task, limit = self.base.task, self.given.num_tasks or None
        return {split: self.record.load_tasks(source, task)[:limit] for split, source in self.sources.items()}

    def api(self) -> dict[str, Any]:
        """Settings of requests to chat servers."""
        return {name: getattr(self.given, name) for name in ("api_key_env", "timeout_s", "max_retries")}

    @property
    def human(self) -> str:
        """Name of the model that plays the simulated human; "" if none does."""
        return self.base.task.human_model

    def evaluation(self) -> Evaluation:
        """What is evaluated.

        Raises:
            ColBenchError: If tasks cannot be loaded, or the files of a run folder's policy are not as its stages wrote them.
        """
        record, given = self.record, self.given
        limit = f", the first {given.num_tasks}" if given.num_tasks else ""
        installed = versions()
        return Evaluation(
            folder=self.folder,
            env=self.base.task.env,
            metric=record.metric,
            success_means=record.success_means,
            policies=[self._evaluated(spec) for spec in self.policies],
            splits={
                split: Split(source, record.full_name(source) + limit, self.held_out[split], inputs_of_source(source))
                for split, source in self.sources.items()
            },
            seeds=given.seeds,
            episodes=given.episodes,
            fixed=self._fixed(),
            versions=installed,
            human=self.human,
            prices=self.prices,
            max_cost=self.base.run.max_cost,
            redo=given.redo,
            replay_void=self.base.run.replay_void,
            max_void=self.base.run.max_void,
            files={
                "config.yaml": yaml.safe_dump(self._written(), sort_keys=False),
                "versions.json": json.dumps(installed, indent=2) + "\n",
            },
        )

    def _evaluated(self, spec: PolicySpec) -> EvaluatedPolicy:
        config = self.config_of(spec)
        sampling = f", temperature {config.model.temperature:g}, at most {config.model.max_new_tokens} tokens a message"
        has_model = isinstance(spec, ModelSpec) or spec.kind == "chat"
        about = f"{spec.text} ({spec.kind}{sampling if has_model else ''})"
        settings = sampled_with(spec, config.model, SAMPLING if spec.kind == "chat" else _OF_MODELS)
        if isinstance(spec, MixtureSpec):
            settings |= spec.sampled_with
        inputs = (*input_names(config, ("env", "human")), *policy_inputs(spec))
        is_served = spec.kind == "chat" or (isinstance(spec, ModelSpec) and config.model.engine == "server")
        served = spec.model if is_served else ""
        return EvaluatedPolicy(spec.name, about, settings, inputs, partial(self._players, spec), served)

    @contextmanager
    def _players(self, spec: PolicySpec, split: str) -> Iterator[Players]:
        """Players of a policy on a split. The policy is loaded once for all seeds, and only if episodes are left."""
        config, tasks = self.config_of(spec, self.sources[split]), self.held_out[split]
        loader = partial(load, spec, config, self.api())
        policy = loader if config.run.ray_workers else cache(loader)
        size = 1 if spec.is_sequential else min(config.model.generation_batch, len(tasks) * self.given.episodes)
        environment = partial(config.record.environments, config, tasks, size)
        to_row = partial(_row, config, {task.id: task for task in tasks}, bool(self.human))

        def player(seed: int) -> RolloutPlayer:
            worker = partial(play.player, policy, environment, seed, f"evaluate {split}")
            return RolloutPlayer(worker, size, to_row, config.run)

        with reserve_browser_cores(config.record.has_pages):
            yield player

    def _fixed(self) -> dict[str, Any]:
        """Settings that all rows depend on."""
        fixed = {name: getattr(self.base.task, name) for name in TASK_SETTINGS if name not in _MOVABLE}
        human = without_address(self.base.task.simulator_spec())
        return {**fixed, "simulator": human, "episodes": self.given.episodes}

    def _written(self) -> dict[str, Any]:
        """The settings as `--config` reads them back, without those of the machine and the folder."""
        given = {name: value for name, value in asdict(self.given).items() if name not in ("output", "redo")}
        given["tasks"] = list(self.sources.values())
        task = {name: getattr(self.base.task, name) for name in TASK_SETTINGS}
        model = {name: getattr(self.base.model, name) for name in MODEL_SETTINGS if name in self.explicit}
        mixtures = next((spec.sampled_with for spec in self.policies if isinstance(spec, MixtureSpec)), {})
        return {
            **given,
            "prices": self.base.run.prices,
            **task,
            **{name: value for name, value in model.items() if name != "server_urls"},
            **mixtures,
        }

    def explain(self, rows: Sequence[Row], results: dict[str, Any]) -> None:
        """Add why episodes fail, and what was heard and written down, to the results.

        For one seed, also write the files that the report shows: their rows are told apart without the seed.
        """
        failures = failures_of(self, rows)
        if failures:
            results["failures"] = summarize_failures(self.record.failure_kinds, failures)
        if wishes := summarize_wishes(self, rows):
            results["wishes"] = wishes
        if len(self.given.seeds) == 1:
            explain_shown(self, rows, failures)


def _row(config: Config, tasks: Mapping[str, Any], has_human_model: bool, episode: Episode) -> Row:
    """A run folder's row of the episode, with what the evaluator's rows have besides."""
    record, task = config.record, tasks[episode.task_id]
    last = episode.turns[-1].text if episode.turns else ""
    answer = record.answer(last) if last else None
    more = evaluator_fields(
        record.task_row(task),
        last if answer is None else answer,
        episode.usage or (None, None),
        episode.metrics,
        has_human_model,
    )
    return {**row_of(episode, task, record), **more}
