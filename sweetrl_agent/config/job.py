"""Every setting of the main job: one dataclass per stage, one flat namespace for the command line and for YAML files.

Defaults are the embedded setting, which runs in six minutes on two cores; `configs/paper_backend.yaml` holds the paper's. Where
they differ, the field says what the paper has. The rates, epochs and weights of rejection fine-tuning and multi-turn DPO come from an equal search on the
first embedded tasks; on those of today `benchmarks/search.py` has yet to be run, and SWEET-RL's were set by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import import_module
from typing import Any

import sandboxes
from sweetrl_agent.config import pipeline
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.checks import (
    check_bounds,
    check_servers,
    check_types,
    refuse_secrets,
    require,
    require_file,
    require_folder,
)
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.critics.credit import FORMS
from sweetrl_agent.envs.registry import find_record


def option(default: Any, text: str) -> Any:
    """A dataclass field with its help text."""
    return field(default=default, metadata={"help": text})


def list_option(default: Sequence[Any], text: str) -> Any:
    """A dataclass field that holds a list, with its help text."""
    return field(default_factory=lambda: list(default), metadata={"help": text})


def _registry() -> Any:
    """The registry of algorithms, whose modules know runs, and so this module."""
    return import_module("sweetrl_agent.algorithms.registry")


def first_stage(name: str) -> str:
    """The first stage whose files a setting shapes (`pipeline.first_stage`)."""
    return pipeline.first_stage(name, _registry().setting_owners())


@dataclass
class RunArguments:
    """What to do and where."""

    output: str = option("runs/sweet", "Run folder; a folder with an unfinished run is gone on with.")
    seed: int = option(0, "Seed of everything.")
    algorithm: str = option(
        "sweet",
        "What trains the agent: a name of README's table, such as rft, grpo or turn_ppo, or 'my_package.module:Class', an `Algorithm`.",
    )
    stage: str = option("all", f"One of {', '.join(STAGES)}, or all. A stage reads the files of those before it.")
    dry_run: bool = option(
        False,
        "Print the plan and fail where the run would: settings, packages, tasks, servers, GPU, folder. Runs nothing and loads no weights.",
    )
    threads: int = option(
        0, "CPU threads of torch; 0 for one per core that the CPU affinity and the control group's quota allow."
    )
    ray_workers: int = option(
        0,
        "Ray's workers for rollouts, candidates and ranking, of one thread each; 0 works in this process, which gives the same bytes with `threads` 1.",
    )
    ray_address: str = option("", "Address of a Ray cluster; empty starts one of this machine.")
    max_void: float = option(
        0.05,
        "Share of void episodes, which the human's server or the sandbox failed, that ends a stage with an error; of 40 episodes or more.",
    )
    replay_void: bool = option(False, "Play void episodes again, in their places, as long as nothing was made of them.")


@dataclass
class TaskArguments:
    """Tasks, human and sandbox."""

    env: str = option(
        "ColBench-Backend-v0",
        "Environment id: any Gymnasium environment over texts; 'my_package.envs:Mine-v0' imports the module first.",
    )
    env_kwargs: str = option("", "JSON of more arguments of the environment, such as '{\"level\": 3}'.")
    env_record: str = option(
        "", "'my_package:RECORD', an `EnvironmentRecord`: what the trainer may know of an environment that is not ours."
    )
    demonstrations: str = option(
        "",
        'JSONL of dialogues ({"messages": [...]}) that the tiny model learns to converse from; empty for the environment\'s own.',
    )
    tasks: str = option("embedded:train", "Training tasks: 'embedded:train', a JSONL path, 'hub:OWNER/DATASET', with a slice.")
    test_tasks: str = option(
        "embedded:test[:300]", "Test tasks. Empty: the last fifth of `tasks`, which are then not trained on."
    )
    unseen_tasks: str = option("embedded:unseen", "Tasks of families that training never sees. Empty for none.")
    novel_tasks: str = option(
        "",
        "Tasks on functions and topics that training never sees, such as 'embedded:novel', for pretrained models. Empty for none.",
    )
    simulator: str = option(
        "scripted", "The human: 'scripted', 'openai', 'person', or JSON such as '{\"name\": \"openai\", ...}'."
    )
    sandbox: str = option("auto", "'auto' (Docker where a daemon has the image, else embedded), 'embedded' or 'docker'.")
    max_turns: int = option(
        0, "Agent turns of a dialogue; 0 for each task's own budget, or 10, the benchmark's, where it has none."
    )
    on_error: str = option("raise", "A malformed task row: 'raise' stops, 'skip' leaves it out.")

    def keyword_arguments(self) -> dict[str, Any]:
        """`env_kwargs`, read.

        Raises:
            ValueError: If it is no JSON object.
        """
        try:
            found = json.loads(self.env_kwargs or "{}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"`env_kwargs` must be JSON, which it is not: {error}.") from None
        if not isinstance(found, dict):
            raise ValueError(f"`env_kwargs` must be a JSON object, got {self.env_kwargs[:200]!r}.")
        return found

    def simulator_spec(self) -> Any:
        """The simulator as `colbench_gym.simulators.make` takes it."""
        if not self.simulator.lstrip().startswith("{"):
            return self.simulator
        try:
            return json.loads(self.simulator)
        except (ValueError, RecursionError) as error:  # what came is not repeated: it may hold a password
            raise ValueError(f"`simulator` must be a name or JSON, which it is not: {error}.") from None


@dataclass
class ModelArguments:
    """The agent's model."""

    model: str = option("tiny", "'tiny' (made here and taught by imitation), a folder, or a hub name of a chat model.")
    revision: str = option("main", "Revision of a hub model.")
    dtype: str = option("auto", "'float32', 'bfloat16', or 'auto': bfloat16 on a GPU, float32 on a CPU.")
    engine: str = option(
        "transformers", "What generates: 'transformers', 'vllm' (in this process, needs a GPU), or 'server' (see server_urls)."
    )
    server_urls: list[str] = list_option((), "Engine 'server': addresses of servers that hold the model, http://HOST:PORT/v1.")
    lora: bool = option(False, "Train LoRA adapters instead of all weights.")
    lora_r: int = option(16, "Rank of the adapters.")
    lora_alpha: int = option(32, "Scale of the adapters.")
    system_prompt: str = option(
        "", "Instructions before every dialogue; 'benchmark' for ours, on pages 'pages'; empty for none."
    )
    max_new_tokens: int = option(80, "Tokens of one utterance at most; 1024 in the paper.")
    temperature: float = option(0.8, "Sampling temperature; 1.0 in the paper.")
    generation_batch: int = option(128, "Dialogues that generate together.")
    gradient_checkpointing: bool = option(False, "Recompute activations in the backward pass.")


@dataclass
class ImitationArguments:
    """The start of the tiny model. Used only with `model: tiny`."""

    imitation_dialogues: int = option(6000, "Demonstrated dialogues.")
    imitation_epochs: int = option(2, "Passes over them.")
    imitation_batch: int = option(16, "Dialogues in an optimizer step.")
    imitation_learning_rate: float = option(5e-3, "AdamW's, of embeddings and norms.")
    imitation_muon_learning_rate: float = option(1.5e-2, "Muon's, of the matrices inside the layers.")
    tiny_vocab_size: int = option(8192, "Tokens of the tiny model's vocabulary.")
    tiny_hidden_size: int = option(192, "Width of the tiny Llama.")
    tiny_layers: int = option(3, "Its layers.")


@dataclass
class CollectArguments:
    """Trajectories and outcome pairs."""

    num_tasks: int = option(150, "Training tasks used; 0 for all. 5,000 in the paper.")
    trajectories_per_task: int = option(3, "Episodes of each; 3 in the paper.")
    min_best: float = option(
        1.0,
        "Fraction of tests that the best trajectory of a task must pass for pairs, and any for rejection fine-tuning; 1.0 in the released code.",
    )
    min_difference: float = option(0.0, "Least difference of the two of a pair; 0.1 in the released code for pages.")


@dataclass
class CriticArguments:
    """Stage 1: the turn-wise advantage."""

    form: str = option(
        "paper",
        f"Training form, one of {FORMS}: the sum over turns of the mean log-ratio of each, or one mean over all tokens.",
    )
    reference_hidden: bool = option(
        False,
        "The reference that candidates are ranked against sees the hidden information; true in the paper, false in the released code.",
    )
    critic_hidden: bool = option(True, "Tell the critic the hidden information.")
    judge_model: str = option(
        "", "Model of the LLM as judge, a folder or hub name; empty for the start itself. Used by `compare` only."
    )
    vision_model: str = option(
        "", "Vision-language model of the critic 'vision_head', a folder or hub name. Used by `compare` on pages only."
    )
    critic_learning_rate: float = option(1e-4, "2e-7 in the paper (8B model).")
    critic_beta: float = option(0.1, "Beta of equation 2; 0.1 in the paper.")
    critic_nll: float = option(0.01, "Weight of the NLL term; 0.01 in the paper.")
    critic_batch: int = option(8, "Pairs in an optimizer step; 8 in the paper.")
    critic_micro_batch: int = option(8, "Pairs in a forward pass.")
    critic_epochs: float = option(1.0, "4 in the paper.")
    critic_max_length: int = option(2048, "Longer pairs are left out; 8192 in the released code.")


@dataclass
class ActorArguments:
    """Stage 2: candidates, ranking and turn-wise DPO."""

    num_states: int = option(800, "Turns that candidates are sampled for; 0 for all. A tenth of the trajectories in the paper.")
    num_candidates: int = option(16, "Candidates of a turn; 16 in the paper.")
    pairs_per_turn: int = option(2, "Pairs drawn from them; 4 in the released code.")
    pair_quantile: float = option(
        0.2, "Chosen turns come from so large a share of the best candidates, rejected ones of the worst; 0.5 in the paper."
    )
    actor_loss: str = option(
        "sigmoid_norm", "'sigmoid' (DPO, the paper's equation 4) or 'sigmoid_norm' (log-ratios per token)."
    )
    actor_learning_rate: float = option(2e-4, "2e-7 in the paper (8B model).")
    actor_beta: float = option(1.0, "0.1 in the paper, of the sum over a turn's tokens.")
    actor_nll: float = option(1.0, "Weight of the NLL of the chosen turn; 0.01 in the paper.")
    actor_batch: int = option(8, "Pairs in an optimizer step; 8 in the paper.")
    actor_micro_batch: int = option(8, "Pairs in a forward pass.")
    actor_epochs: float = option(2.0, "1 in the paper.")
    actor_max_length: int = option(2048, "Longer prompts are left out; 16384 in the released code.")


@dataclass
class EvaluationArguments:
    """How start and result are measured."""

    eval_tasks: int = option(300, "Tasks of each split at most; 0 for all. 1,000 in the paper.")
    eval_episodes: int = option(1, "Episodes of each task.")
    eval_start: bool = option(True, "Measure the start too.")
    shown_dialogues: int = option(24, "Tasks of the test split whose dialogues get advantages, for the report.")


@dataclass
class CompareArguments:
    """What to compare."""

    algorithms: list[str] = list_option(
        ("zero_shot", "rft", "mtdpo", "sweet"), "Names of algorithms; worse ones first makes the differences positive."
    )
    seeds: int = option(5, "Runs of each algorithm, with seeds from `seed` on.")
    workers: int = option(1, "Seeds that run side by side, each with its share of the CPU's cores.")
    critics: list[str] = list_option(
        ("sweet", "untrained"),
        "Critics for credit accuracy and best-of-N: sweet, or a name of an algorithm that is SWEET-RL with another critic.",
    )
    credit_tasks: int = option(40, "Tasks of each split for credit accuracy (embedded tasks only); 0 leaves it out.")
    best_of: list[int] = list_option((), "Candidates per turn for best-of-N, such as 1 2 4 8 16 32; none leaves it out.")
    best_of_tasks: int = option(50, "Test tasks that it is played on.")
    scaling: list[int] = list_option((), "Numbers of trajectories for data scaling, such as 450 900; none leaves it out.")
    simulators: list[str] = list_option(
        (), "Other humans for the audit: terse, normal, chatty, names or JSON as in `simulator`; none leaves it out."
    )
    simulator_tasks: int = option(100, "Test tasks that they are talked with on.")
    baseline: str = option(
        "", "evaluation.jsonl of a recorded run (FILE, or FILE:AGENT) for win rates against it; empty leaves it out."
    )
    own_settings: str = option(
        "",
        'JSON of settings that single algorithms have for themselves, such as {"no_hidden": {"critic_epochs": 4}}; of critic and actor only.',
    )
    dials: list[str] = list_option(
        (),
        "Folders of comparisons on tasks of other dials, the easiest first; this one is shown in their midst by `dial_place`. None leaves it out.",
    )
    dial_place: int = option(1, "How many of `dials` are shown before this one.")
    against: str = option("", "'PAPER' puts the paper's tables beside ours in the report.")


@dataclass
class Config:
    """All settings of a run."""

    run: RunArguments = field(default_factory=RunArguments)
    task: TaskArguments = field(default_factory=TaskArguments)
    model: ModelArguments = field(default_factory=ModelArguments)
    imitation: ImitationArguments = field(default_factory=ImitationArguments)
    collect: CollectArguments = field(default_factory=CollectArguments)
    critic: CriticArguments = field(default_factory=CriticArguments)
    actor: ActorArguments = field(default_factory=ActorArguments)
    evaluation: EvaluationArguments = field(default_factory=EvaluationArguments)
    algorithms: Any = field(default_factory=lambda: _registry().settings_class()())

    @staticmethod
    def parts() -> tuple[type, ...]:
        """The dataclasses that settings stand in, in the order of the fields; the last has those of all registered algorithms."""
        return (
            RunArguments, TaskArguments, ModelArguments, ImitationArguments, CollectArguments, CriticArguments, ActorArguments,
            EvaluationArguments, _registry().settings_class(),
        )  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything runs."""
        for part in fields(self):
            check_types(getattr(self, part.name))
        for name, value in (("simulator", self.task.simulator), ("ray_address", self.run.ray_address)):
            refuse_secrets(name, value)
        for url in self.model.server_urls:
            refuse_secrets("server_urls", url)
        algorithm = _registry().find_algorithm(self.run.algorithm)
        _registry().refuse_engine([algorithm.name], self.model.engine)
        require("stage", self.run.stage, ("all", *dict.fromkeys([*STAGES, *algorithm.stages])))
        refuse_secrets("env_kwargs", self.task.env_kwargs)
        self.task.keyword_arguments()
        require("on_error", self.task.on_error, ("raise", "skip"))
        require("sandbox", self.task.sandbox, sandboxes.NAMES)
        require("form", self.critic.form, FORMS)
        require("actor_loss", self.actor.actor_loss, ("sigmoid", "sigmoid_norm"))
        require("engine", self.model.engine, ("transformers", "vllm", "server"))
        check_servers(self.model.engine, self.model.server_urls)
        is_for = {"benchmark": "ColBench-Backend-v0", "pages": "ColBench-Frontend-v0"}.get(
            self.model.system_prompt, self.task.env
        )
        if is_for != self.task.env:
            raise ValueError(f"`system_prompt` {self.model.system_prompt!r} is for {is_for}, got `env`={self.task.env!r}.")
        require("dtype", self.model.dtype, ("auto", "float32", "bfloat16"))
        check_bounds(self._flat())
        _registry().check_settings(self.algorithms)
        for name, batch, micro in (
            ("critic", self.critic.critic_batch, self.critic.critic_micro_batch),
            ("actor", self.actor.actor_batch, self.actor.actor_micro_batch),
        ):
            if batch % micro:
                raise ValueError(f"`{name}_batch` must be a multiple of `{name}_micro_batch`, got {batch} and {micro}.")
        require_folder("model", self.model.model)
        if self.task.demonstrations:
            require_file("demonstrations", self.task.demonstrations)
        elif self.is_tiny:
            self.record.check_tiny(self.task)

    @property
    def record(self) -> EnvironmentRecord:
        """What is known of the environment."""
        return find_record(self.task.env, self.task.env_record)

    @property
    def is_tiny(self) -> bool:
        """True where the start is the tiny model made here."""
        return self.model.model == "tiny"

    def _flat(self) -> dict[str, Any]:
        return {name: value for part in asdict(self).values() for name, value in part.items()}

    def with_settings(self, changed: Mapping[str, Any]) -> Config:
        """The same with some settings changed, by their flat names."""
        parts = {
            part.name: replace(own, **{name: value for name, value in changed.items() if hasattr(own, name)})
            for part in fields(self)
            for own in [getattr(self, part.name)]
        }
        return Config(**parts)

    def settings(self) -> dict[str, Any]:
        """All settings that shape the results, flat: everything but where and how much of it is run."""
        flat = self._flat()
        for name in (
            "output",
            "stage",
            "dry_run",
            "threads",
            "ray_workers",
            "ray_address",
            "server_urls",
            "max_void",
            "replay_void",
        ):
            del flat[name]
        return flat
