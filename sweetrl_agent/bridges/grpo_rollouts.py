"""Dialogues for TRL's `GRPOTrainer` (1.16): its rollout function, its reward function and its dataset.

    rollouts = GRPORollouts("ColBench-Backend-v0", tasks="embedded:train[:500]")
    trainer = GRPOTrainer(model=..., args=GRPOConfig(...), train_dataset=rollouts.dataset(), rollout_func=rollouts, reward_funcs=rollouts.episode_reward)

The trainer asks for one completion of every prompt. Here a completion is a whole dialogue: the tokens of the agent's messages as they were
sampled, and the simulated human's messages between them, which `env_mask` excludes from the loss. All dialogues of a batch are played at
the same time (`rollouts.play`). Any environment of `--env` works, with or without a record.

A void episode has no reward (None): the trainer leaves it out of its group's mean and gives it no advantage. Further `reward_funcs` of a plain
`GRPOTrainer` must return None there too (`episode[i]["reward"] is None`), else it counts as 0 beside theirs; `TurnCreditGRPOTrainer` sees to it.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from colbench_gym.agents.prompts import PROMPTS
from colbench_gym.reasoning import AUTO, Reasoning
from sandboxes.extras import pip_install
from sweetrl_agent.bridges.turn_credit import Tokens, sequences_of
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.config.task import TaskArguments
from sweetrl_agent.core.dialogues import DialogueEnvs
from sweetrl_agent.core.episode import Episode, EpisodeKey, Messages
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.policy import Policy, Utterance
from sweetrl_agent.core.settings import build, require, setting
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.envs.registry import check_env, find_record
from sweetrl_agent.models.template_check import SAMPLE, fault_and_use
from sweetrl_agent.policies.continuous import ContinuousTransformersPolicy
from sweetrl_agent.policies.slots import can_use_slots
from sweetrl_agent.policies.transformers import TransformersPolicy
from sweetrl_agent.policies.utterances import Speaker
from sweetrl_agent.rollouts.play import play

try:
    from trl import GRPOTrainer
    from trl.models import unwrap_model_for_generation
except ImportError as missing:
    raise ImportError(f"The bridge to TRL needs TRL 1.16 ({missing}): `{pip_install('[train]')}`.") from None

_log = logging.getLogger(__name__)

#: Sampling settings of `GRPOConfig` that the dialogues do not support, with the values that switch them off.
UNSUPPORTED: Mapping[str, Any] = {"top_k": 0, "min_p": None, "repetition_penalty": 1.0, "generation_kwargs": None}


@dataclass(frozen=True)
class _Playing:
    num_envs: int = setting(128, "Dialogues that are played at the same time, in every process.", least=1)
    seed: int = setting(0, "Seed of humans and sampling.")


@dataclass(frozen=True)
class _Settings:
    """The settings that a record reads."""

    task: TaskArguments
    model: ModelArguments


class GRPORollouts:
    """Plays the dialogues of a `GRPOTrainer`; pass the object as its `rollout_func`."""

    def __init__(
        self,
        env: str = "ColBench-Backend-v0",
        tasks: str = "embedded:train",
        simulator: str | Mapping[str, Any] = "scripted",
        sandbox: str = "auto",
        max_turns: int | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        env_record: str = "",
        on_error: str = "raise",
        system_prompt: str = "",
        num_envs: int = 128,
        seed: int = 0,
        reasoning: str = AUTO,
        eval_tasks: str = "",
    ) -> None:
        """Load the tasks, and make an environment once; those that are played are made with the first batch.

        Args:
            env: Id of the environment: any Gymnasium environment over texts, as in `--env`.
            tasks: Task source, as in `--tasks`.
            simulator: Simulated human: a name, or a mapping with "name" and arguments.
            sandbox: "auto", "embedded" or "docker".
            max_turns: Agent turns of a dialogue; None, or 0, for the task's own limit.
            env_kwargs: Further keyword arguments of the environment.
            env_record: "my_package:RECORD", an `EnvironmentRecord`.
            on_error: "raise" an error for a malformed task row, or "skip" the row.
            system_prompt: Instructions of the agent; "benchmark" or "pages" for ours; "" for none.
            num_envs: Dialogues that are played at the same time, in every process.
            seed: Seed of humans and sampling.
            reasoning: How the model marks its thoughts, which are no part of the dialogue: "auto", "none" or "OPEN CLOSE", as `--reasoning`.
            eval_tasks: Task source of `eval_dataset`.

        Raises:
            ValueError: If the environment, the tasks or an argument are unknown.
        """
        given = {
            "env": env, "tasks": tasks, "simulator": simulator if isinstance(simulator, str) else json.dumps(simulator), "sandbox": sandbox,
            "max_turns": max_turns or 0, "env_kwargs": json.dumps(dict(env_kwargs or {})), "env_record": env_record, "on_error": on_error,
        }  # fmt: skip
        task, playing = build(TaskArguments, given), build(_Playing, {"num_envs": num_envs, "seed": seed})
        require("on_error", on_error, ("raise", "skip"))
        check_env(env, env_record)
        self.system_prompt, self.num_envs, self.seed = PROMPTS.get(system_prompt, system_prompt), playing.num_envs, playing.seed
        self.reasoning = Reasoning(reasoning).setting
        self._settings = _Settings(task, ModelArguments(reasoning=self.reasoning))
        self.record = find_record(env, env_record).with_arguments(task.keyword_arguments())
        self.record.check(self._settings)
        self.tasks = self.record.load_tasks(tasks, task)
        self.eval_tasks = self.record.load_tasks(eval_tasks, task) if eval_tasks else ()
        self._all = tuple({task.id: task for task in (*self.tasks, *self.eval_tasks)}.values())
        self.record.environments(self._settings, self._all, 1).close()  # refuses a wrong argument before a model is loaded
        self._ids = {public_id(task): task.id for task in self._all}
        self._envs: DialogueEnvs | None = None
        self._calls = 0
        #: Episodes of the last batch, in the order of its prompts.
        self.episodes: list[Episode] = []
        #: The turn, counted from 1, of every token of their completions; 0 for tokens that the agent did not sample.
        self.turn_ids: list[list[int]] = []

    def dataset(self) -> Any:
        """The tasks as the trainer's dataset. The prompt is the request, and its message names the task."""
        return _dataset(self.tasks)

    def eval_dataset(self) -> Any:
        """`eval_tasks`, as `dataset`. Each evaluation plays the same episodes, and training those that it plays without evaluations.

        Raises:
            ValueError: Without `eval_tasks`.
        """
        if not self.eval_tasks:
            raise ValueError("`eval_dataset` needs `eval_tasks`, a source of tasks such as 'embedded:test[:50]'.")
        return _dataset(self.eval_tasks)

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """One dialogue for every prompt; see `GRPOTrainer`.

        Args:
            prompts: Prompts of `dataset`, each as often as there are dialogues of a group in this process.
            trainer: The trainer; its model is sampled.

        Raises:
            ValueError: If a prompt is not one of `dataset`, or a sampling setting has no meaning here.
            ServiceDownError: If the simulated human or the sandbox failed in many episodes in a row.
        """
        chat = self._checked_chat(trainer.processing_class)
        _check_trainer(trainer, chat)
        counts: Counter[str] = Counter()
        keys = []
        for prompt in prompts:
            task_id = self._task_id(prompt)
            keys.append(EpisodeKey(task_id, counts[task_id]))
            counts[task_id] += 1
        self._calls += trainer.model.training
        stage = f"grpo {self._calls if trainer.model.training else 'evaluation'} {trainer.accelerator.process_index}"
        envs = self._environments()
        with _policy(trainer, self.system_prompt, self.num_envs, self.reasoning) as policy:
            self.episodes = [episode for shard in play(policy, envs, keys, self.seed, stage) for episode in shard]
        if type(trainer) is GRPOTrainer and len(trainer.reward_funcs) > 1 and any(episode.is_void for episode in self.episodes):
            _log.warning(
                "Void dialogues count as reward 0 unless every function of `reward_funcs` returns None where `episode[i]['reward'] is None`."
            )
        return self._output(chat)

    def episode_reward(
        self, prompts: Any, completions: Any, episode: Sequence[Mapping[str, Any]] = (), **extra: Any
    ) -> list[float | None]:
        """The reward of every dialogue, None for a void one; also logs the means of the environment's metrics, and the share of sampled tokens that train.

        Pass it in `reward_funcs`.

        Raises:
            ValueError: If the trainer does not play the dialogues.
        """
        if not episode:
            raise ValueError("The trainer plays no dialogues of `GRPORollouts`: pass the object as `rollout_func` too.")
        valid = [outcome["metrics"] for outcome in episode if outcome["reward"] is not None]
        for name in ("success", "answered", "turns", self.record.metric):
            values = [float(metrics[name]) for metrics in valid if name in metrics]
            if values and "log_metric" in extra:
                extra["log_metric"](name, sum(values) / len(values))
        if "log_metric" in extra:
            extra["log_metric"]("void", 1 - len(valid) / len(episode))
            sampled = sum(len(turn.token_ids) for played in self.episodes for turn in played.turns)
            trained = sum(turn > 0 for of_tokens in self.turn_ids for turn in of_tokens)
            extra["log_metric"]("trained_tokens", trained / max(sampled, 1))
        return [outcome["reward"] for outcome in episode]

    def close(self) -> None:
        """Close the environments: their sandbox and their simulated human."""
        if self._envs is not None:
            self._envs.close()
            self._envs = None

    def _task_id(self, prompt: Any) -> str:
        name = prompt[-1].get("task_id") if isinstance(prompt, list) and prompt else None
        if name not in self._ids:
            raise ValueError(
                "`train_dataset` must be that of `GRPORollouts.dataset`, and `eval_dataset` that of `GRPORollouts.eval_dataset`, whose prompts name their "
                f"task; got a prompt of task {name!r}."
            )
        return self._ids[name]

    def _environments(self) -> DialogueEnvs:
        if self._envs is None:
            self._envs = self.record.environments(self._settings, self._all, self.num_envs)
        return self._envs

    def _checked_chat(self, tokenizer: Any) -> Chat:
        """The dialogue's tokens; refuses a chat template that cannot be used."""
        if not self._calls:
            fault, _ = fault_and_use(tokenizer, [*system_message(self.system_prompt), *SAMPLE], self.reasoning)
            if fault:
                raise ValueError(f"The chat template of the trainer's tokenizer {fault}.")
        return Chat(tokenizer, self.reasoning)

    def _output(self, chat: Chat) -> dict[str, Any]:
        output: dict[str, list[Any]] = {
            name: [] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "episode")
        }
        parts = [_longest_sequence(episode, self.system_prompt, chat) for episode in self.episodes]
        self.turn_ids = [part.turn_ids for part in parts]
        for episode, part in zip(self.episodes, parts, strict=True):
            output["prompt_ids"].append(part.prompt_ids)
            output["completion_ids"].append(part.completion_ids)
            output["logprobs"].append(part.logprobs)
            output["env_mask"].append(part.mask)
            output["episode"].append({"reward": None if episode.is_void else episode.reward, "metrics": episode.metrics})
        return dict(output)


def _dataset(tasks: Sequence[Any]) -> Any:
    from datasets import Dataset

    return Dataset.from_list(
        [
            {"prompt": [{"role": "user", "content": getattr(task, "description", f"task {name}"), "task_id": name}]}
            for task in tasks
            for name in [public_id(task)]
        ]
    )


def _longest_sequence(episode: Episode, system_prompt: str, chat: Chat) -> Tokens:
    """A dialogue as prompt and completion, which ends with the agent's last token.

    The tokenizer may make other tokens of a turn's text than the sampled ones. Later turns then have another context than the sampled tokens. The
    completion is the longest part of the dialogue that is one sequence, and the other turns are not trained on.
    """
    return max(sequences_of(episode, system_prompt, chat), key=lambda part: sum(part.mask))


def public_id(task: Any) -> str:
    """The id that a dataset may hold; the `id` of an embedded task spells its hidden choices."""
    return str(getattr(task, "public_id", task.id))


def _check_trainer(trainer: Any, chat: Chat) -> None:
    """Refuse settings of the trainer that would silently do nothing, and a chat template with which a dialogue is not one sequence.

    Raises:
        ValueError: Names the setting, or says why the template cannot be trained with here.
    """
    if not chat.is_append_only:
        raise ValueError(
            "`GRPOTrainer` takes a dialogue as one sequence, and this chat template renders earlier turns in another way than they were sampled; "
            "use `python -m sweetrl_agent.train --algorithm grpo`, which trains each turn in its own context."
        )
    for name, without in UNSUPPORTED.items():
        if getattr(trainer.args, name, without) not in (without, None):
            raise ValueError(f"`{name}` is not a setting of the dialogues' sampling; leave it at {without!r}.")
    if trainer.args.use_vllm and trainer.accelerator.num_processes > 1:
        raise ValueError(
            "`use_vllm` with several processes needs all of them to ask for as many turns; use one process, or no vLLM."
        )


@contextmanager
def _policy(trainer: Any, system_prompt: str, batch_size: int, reasoning: str) -> Any:
    """The trainer's model as a policy that plays dialogues."""
    args = trainer.args
    speaker = Speaker(
        trainer.processing_class, args.max_completion_length, args.temperature, system_prompt, reasoning=reasoning
    )
    if args.use_vllm:
        yield VLLMPolicy(trainer.vllm_generation, speaker)
        return
    was_training = trainer.model.training
    with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model, torch.no_grad():
        kind = ContinuousTransformersPolicy if can_use_slots(model) else TransformersPolicy
        yield kind(model, speaker, args.top_p, batch_size)
        model.train(was_training)


class VLLMPolicy(Policy):
    """The trainer's own vLLM, which holds its current weights. Its samples do not depend on our seeds."""

    def __init__(self, generation: Any, speaker: Speaker) -> None:
        """Wrap `GRPOTrainer.vllm_generation`, which has its own sampling settings."""
        self._generation, self._speaker = generation, speaker

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy`."""
        prompts = [self._speaker.prompt(dialogue) for dialogue in dialogues]
        _, completions, log_probs, _ = self._generation.generate(prompts=prompts, images=None, num_generations=1)
        return [
            self._speaker.utterances.from_tokens(ids, [top[0] for top in values], prompt, self._speaker.chat.end_ids())
            for prompt, ids, values in zip(prompts, completions, log_probs, strict=True)
        ]
