"""Algorithms that train token-level action values (`critics.token_values`) on behaviour data and sample from the policy that they perturb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import transformers
from torch import Tensor

from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.work import Lengths, Work, training
from sweetrl_agent.critics.token_values import TokenEstimates, TokenValues
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.models.loading import adapted, load_model, load_tokenizer, merged, policy_on, system_prompt
from sweetrl_agent.policies.perturbed import PerturbedModel
from sweetrl_agent.policies.slots import body
from sweetrl_agent.trainers.running import trainer_arguments


@dataclass(frozen=True)
class ValueConfig:
    """Settings of an algorithm that trains token-level action values. "Released" is LMRL-Gym's code, with GPT-2."""

    learning_rate: float = setting(1e-3, "Learning rate of the values; released: 1e-4 on Maze, 1e-5 on Wordle.")
    muon_learning_rate: float = setting(
        0.0,
        "Learning rate of Muon, for all matrices but embeddings; `learning_rate` is then for the rest. 0 for AdamW alone, as released.",
    )
    batch: int = setting(32, "Dialogues per optimizer step; released: 32.", least=1)
    epochs: float = setting(4.0, "Epochs over the behaviour data; released: 1, on more data.")
    gamma: float = setting(0.99, "Discount per token of the agent; released: 0.99.", most=1)
    cql: float = setting(0.01, "Weight of the CQL term; released: 0 on Maze, 0.1 on Car Dealer, 0.01 elsewhere.")
    reward_scale: float = setting(
        1.0,
        "Rewards are divided by it, so that values are of the order of 1: choose a usual return. None in the released code.",
        above=0,
    )
    beta: float = setting(16.0, "Weight of Q in the logits that actions are sampled from; released: 8 on Maze, 16 elsewhere.")


class ValueAlgorithm(Algorithm):
    """Trains token-level action values on behaviour data; its agent is the initial policy, perturbed by them. A subclass defines `loss`.

    A field `polyak` of its `Config` is the rate at which the target follows, per optimizer step.

    Attributes:
        bootstraps: Whether it has V and a target.
    """

    Config: ClassVar[type] = ValueConfig
    shared, requires, engines = START, frozenset({"behaviour"}), ("transformers",)
    bootstraps: ClassVar[bool] = False

    def loss(self, estimates: TokenEstimates) -> Tensor:
        """The loss of a batch, whose rewards are divided by `reward_scale`."""
        raise NotImplementedError

    def train(self, run: Run) -> None:
        """Train the values on the run's behaviour data, from a copy of the initial policy's body; writes the agent's folder.

        Raises:
            ColBenchError: As `offline_episodes`.
        """
        from sweetrl_agent.trainers.offline import action_tokens, offline_episodes
        from sweetrl_agent.trainers.stage_training import train_stage
        from sweetrl_agent.trainers.value_trainer import TargetUpdate, ValueTrainer

        transformers.set_seed(run.seed)
        config, arguments, folder = self.config, run.config.model, run.path(self.policies[AGENT])
        tokenizer = load_tokenizer(run.initial_model, arguments)
        chat, instructions = Chat(tokenizer, arguments.reasoning), system_message(system_prompt(arguments))
        dataset = action_tokens(offline_episodes(run), chat, instructions, arguments.history)
        given = trainer_arguments(folder, run.seed, arguments, config.batch, config.batch, config.learning_rate, config.epochs)
        trainer = ValueTrainer(
            loss=lambda estimates: self.loss(estimates.scaled(config.reward_scale)),
            muon_learning_rate=config.muon_learning_rate,
            model=_new_values(run, self.bootstraps),
            args=transformers.TrainingArguments(**given, remove_unused_columns=False),
            train_dataset=dataset,
            callbacks=[TargetUpdate(getattr(config, "polyak", 0.0))],
        )
        run.add_metrics(self.name, train_stage(trainer, tokenizer, folder, self.name, run.callbacks))

    def load(self, run: Run) -> Policy:
        """Load the policy that samples from log pi_beta + beta Q; pi_beta is the initial policy, Q that of the target if there is one."""
        start, arguments = run.initial_model, run.config.model
        values = _new_values(run, self.bootstraps)
        values.restore(run.path(self.policies[AGENT]))
        policy = merged(load_model(start, start, arguments, is_trained=False))
        model = PerturbedModel(policy, values.acting, self.config.beta).requires_grad_(False)
        return policy_on(model, load_tokenizer(start, arguments), arguments)


def values_work(run: Run, config: Any, lengths: Lengths, bootstraps: bool) -> Work:
    """The work of `ValueAlgorithm.train`.

    Args:
        run: The run.
        config: Settings of the algorithm.
        lengths: Sizes of an average dialogue.
        bootstraps: Whether it has V and a target.
    """
    count, reads = run.config.sft.sft_dialogues, config.epochs if bootstraps else 0.0  # the target's
    rows = lengths.rows(count, run.config.model.history)
    return Work(f"{count:,} episodes, {config.epochs:g} epochs") + training(
        *rows, config.batch, config.batch, config.epochs, reads=reads
    )


def _new_values(run: Run, bootstraps: bool) -> TokenValues:
    """Values with new heads on the body of the initial policy, with a new adapter if the settings request LoRA.

    All in float32: in bfloat16, the small steps of the target would be rounded to none.
    """
    model = load_model(run.initial_model, run.initial_model, run.config.model)
    vocabulary, device = model.get_output_embeddings().weight.shape[0], model.device
    return TokenValues(body(adapted(model, run.config.model)), vocabulary, bootstraps).float().to(device)
