"""All settings of a run: one dataclass per part, and the algorithms with theirs.

Settings of an algorithm are declared with the algorithm (`core.algorithm`). Defaults suit the embedded tasks on two cores; the paper's are
in `configs/paper_backend.yaml` of the package. Where a default differs from the paper, the help text gives the paper's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from colbench_gym.agents.prompts import ENV_OF_PROMPT
from colbench_gym.reasoning import Reasoning
from sandboxes.logs import LEVELS
from sweetrl_agent.config.evaluation import CollectArguments, CompareArguments, EvaluationArguments
from sweetrl_agent.config.model import TINY, ModelArguments, SFTArguments
from sweetrl_agent.config.packaged import differences
from sweetrl_agent.config.pipeline import STAGES, first_stage
from sweetrl_agent.config.run import RunArguments, check_report_to
from sweetrl_agent.config.task import TaskArguments
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.settings import (
    build,
    check_servers,
    is_file,
    refuse_secrets,
    require,
    require_file,
    require_folder,
    section,
)
from sweetrl_agent.envs.registry import check_env, find_record

#: Settings that affect no result: of the folder, the stage and the machine.
_OF_MACHINE = (
    "output", "stage", "redo", "dry_run", "gpu", "threads", "ray_workers", "ray_address", "server_urls", "max_void", "max_leak", "prices", "max_cost",
    "replay_void", "require_reproducible", "report_to", "log_level",
)  # fmt: skip
#: Settings by part; each part is an attribute of `Config`.
PARTS: Mapping[str, type] = {
    "run": RunArguments, "task": TaskArguments, "model": ModelArguments, "sft": SFTArguments, "collect": CollectArguments,
    "evaluation": EvaluationArguments,
}  # fmt: skip
#: The same with what they are, for `--help` and the documentation; and the settings of `compare` besides.
SECTIONS = tuple(section(title, kind) for title, kind in PARTS.items())
COMPARE = section("compare", CompareArguments)
#: Settings of the initial policy's model and of SFT.
OF_MODEL = frozenset(item.name for kind in (ModelArguments, SFTArguments) for item in fields(kind))


@dataclass
class Config:
    """All settings of a run; `algorithms.settings.make_config` makes it.

    Attributes:
        run: Folder, seed, stages and machine.
        task: Environment and tasks.
        model: The agent's model.
        sft: SFT.
        collect: Collection.
        evaluation: Evaluation.
        algorithms: The algorithms (`core.algorithm.Algorithm`) with their settings, by name: that of `train`, or those that are compared.
    """

    run: RunArguments = field(default_factory=RunArguments)
    task: TaskArguments = field(default_factory=TaskArguments)
    model: ModelArguments = field(default_factory=ModelArguments)
    sft: SFTArguments = field(default_factory=SFTArguments)
    collect: CollectArguments = field(default_factory=CollectArguments)
    evaluation: EvaluationArguments = field(default_factory=EvaluationArguments)
    algorithms: Mapping[str, Any] = field(kw_only=True)

    def __post_init__(self) -> None:
        """Refuse invalid settings before anything runs."""
        for name, value in (
            ("simulator", self.task.simulator),
            ("sandbox", self.task.sandbox),
            ("algorithm", self.run.algorithm),
            ("ray_address", self.run.ray_address),
        ):
            refuse_secrets(name, value)
        for url in self.model.server_urls:
            refuse_secrets("server_urls", url)
        Reasoning(self.model.reasoning)
        check_env(self.task.env, self.task.env_record)
        algorithm = self.algorithm
        algorithm.refuse_model(self.model)
        if self.run.stage not in algorithm.stages and f"{self.run.stage} {algorithm.critic}" in algorithm.stages:
            self.run = replace(self.run, stage=f"{self.run.stage} {algorithm.critic}")
        require("stage", self.run.stage, ("all", *dict.fromkeys([*STAGES, *algorithm.stages])))
        refuse_secrets("env_kwargs", self.task.env_kwargs)
        self.task.keyword_arguments()
        check_report_to(self.run.report_to)
        require("log_level", self.run.log_level, LEVELS)
        require("on_error", self.task.on_error, ("raise", "skip"))
        require("isolate_generators", self.task.isolate_generators, ("auto", "true", "false"))
        self.record.check_sandbox(self.task.sandbox_spec())
        check_servers(self.model.engine, self.model.server_urls)
        for name, prompt in (("system_prompt", self.model.system_prompt), ("eval_pretrained", self.evaluation.eval_pretrained)):
            is_for = ENV_OF_PROMPT.get(prompt, self.task.env)
            if is_for != self.task.env:
                raise ValueError(f"`{name}` {prompt!r} is for {is_for}, got `env`={self.task.env!r}.")
        require("dtype", self.model.dtype, ("auto", "float32", "bfloat16"))
        require("initial_policy", self.sft.initial_policy, ("packaged", "sft"))
        self._check_hinted()
        require_folder("model", self.model.model)
        if file := self.demonstration_file:
            require_file("demonstrations", file)
        elif (
            not self.task.demonstrations and self.is_tiny and any(algorithm.has_model for algorithm in self.algorithms.values())
        ):
            self.record.check_tiny(self.task)
        if self.is_tiny and not self.sft.sft_dialogues:
            raise ValueError("`sft_dialogues` may be 0 only with a pretrained `model`: the tiny one knows nothing before SFT.")

    def _check_hinted(self) -> None:
        hinted, file = self.sft.sft_hinted, self.demonstration_file
        if -1 < hinted < 0:
            raise ValueError(f"`sft_hinted` must be from 0 to 1, or -1 for the environment's own share, got {hinted}.")
        if hinted != -1 and file:
            raise ValueError(f"`sft_hinted` is for an environment's own demonstrations, got `demonstrations`={file!r}.")

    @property
    def algorithm(self) -> Any:
        """The algorithm that `train` trains with."""
        return next(iter(self.algorithms.values()))

    @property
    def record(self) -> EnvironmentRecord:
        """The record of the environment."""
        record = find_record(self.task.env, self.task.env_record).with_arguments(self.task.keyword_arguments())
        return record if self.sft.sft_hinted == -1 else record.with_hinted(self.sft.sft_hinted)

    @property
    def is_tiny(self) -> bool:
        """Whether the initial policy is the tiny model trained here."""
        return self.model.model == TINY

    @property
    def has_sft(self) -> bool:
        """Whether the run makes its initial policy, in initial/: not with a pretrained model without demonstrations, which is the initial policy itself."""
        return self.is_tiny or (
            self.sft.sft_dialogues > 0 and bool(self.task.demonstrations or self.record.has_demonstrations(self.task))
        )

    @property
    def demonstration_file(self) -> str:
        """The file of `demonstrations`; "" for those of the environment, of the training tasks or of the source of tasks that the setting names."""
        source = self.task.demonstrations
        is_source = source and not is_file(source) and self.record.has_demonstrations(replace(self.task, tasks=source))
        return "" if is_source else source

    @property
    def has_pretrained(self) -> bool:
        """Whether the base model is evaluated, too; the initial policy is the model after SFT."""
        is_trained = self.has_sft and not self.is_tiny and self.algorithm.has_model
        return bool(self.evaluation.eval_pretrained) and is_trained

    @property
    def initial_policy(self) -> str:
        """Where the tiny model's initial policy comes from: "packaged" if the package's fits these settings, else "sft"."""
        is_packaged = self.sft.initial_policy == "packaged" and self.is_tiny and not differences(self)
        return "packaged" if is_packaged else "sft"

    def first_stage(self, name: str) -> str:
        """The first stage with files that a setting affects, by the setting's full name, such as "grpo.clip"."""
        algorithm, dot, setting = name.partition(".")
        return str(self.algorithms[algorithm].first_stage(setting)) if dot else first_stage(name)

    def with_settings(self, changed: Mapping[str, Any]) -> Config:
        """A copy with some settings changed, by name; those of algorithms stay.

        Raises:
            KeyError: If a name is none of them.
        """
        known = {item.name for kind in PARTS.values() for item in fields(kind)}
        if unknown := [name for name in changed if name not in known]:
            raise KeyError(f"{unknown[0]!r} is not a setting of the run, the tasks, the model, SFT, collection or evaluation.")
        parts: dict[str, Any] = {name: build(kind, {**vars(getattr(self, name)), **changed}) for name, kind in PARTS.items()}
        return replace(self, **parts)

    def settings(self) -> dict[str, Any]:
        """All settings that affect results: without those of the folder, the stage and the machine; those of algorithms by algorithm."""
        flat = {name: value for part in PARTS for name, value in asdict(getattr(self, part)).items()}
        flat["initial_policy"] = self.initial_policy
        del flat["critic"]  # `algorithm` names it
        of_algorithms = {name: asdict(algorithm.config) for name, algorithm in self.algorithms.items()}
        return {
            **{name: value for name, value in flat.items() if name not in _OF_MACHINE},
            **{name: settings for name, settings in of_algorithms.items() if settings},
        }
