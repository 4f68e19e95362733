"""Trains token-level action values (`critics.token_values`) on behaviour data, and loads the policy that they perturb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.work import Lengths, Part, Work, reading, training
from sweetrl_agent.critics.token_values import TokenEstimates, TokenValues
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.data.files import Row
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.models.loading import adapted, load_model, load_tokenizer, merged, policy_on, system_prompt
from sweetrl_agent.policies.perturbed import PerturbedModel
from sweetrl_agent.policies.slots import body
from sweetrl_agent.trainers.muon import MuonWithAdamW
from sweetrl_agent.trainers.offline import action_tokens, offline_episodes
from sweetrl_agent.trainers.running import train_stage, trainer_arguments

VALUES = "values.safetensors"
Loss = Callable[[TokenEstimates], Tensor]


def train_values(
    run: Run, stage: str, folder: Path, config: Any, loss: Loss, bootstraps: bool, target_rate: float = 0.0
) -> None:
    """Train the values on the run's behaviour data, from a copy of the initial policy's body; writes their folder.

    Args:
        run: The run.
        stage: Name of the stage in the metrics.
        folder: Folder of the agent.
        config: Settings `learning_rate`, `muon_learning_rate`, `batch` and `epochs`.
        loss: The algorithm's loss of a batch.
        bootstraps: Whether it has V and a target.
        target_rate: Rate at which the target follows, per optimizer step.

    Raises:
        ColBenchError: As `offline_episodes`.
    """
    set_seed(run.seed)
    arguments = run.config.model
    tokenizer = load_tokenizer(run.initial_model, arguments)
    dataset = action_tokens(
        offline_episodes(run), Chat(tokenizer, arguments.reasoning), system_message(system_prompt(arguments)), arguments.history
    )
    given = trainer_arguments(folder, run.seed, arguments, config.batch, config.batch, config.learning_rate, config.epochs)
    trainer = ValueTrainer(
        loss=loss,
        muon_learning_rate=config.muon_learning_rate,
        model=_new_values(run, bootstraps),
        args=TrainingArguments(**given, remove_unused_columns=False),
        train_dataset=dataset,
        callbacks=[_TargetUpdate(target_rate)],
    )
    run.add_metrics(stage, train_stage(trainer, tokenizer, folder, stage, run.callbacks))


def values_work(run: Run, config: Any, lengths: Lengths, bootstraps: bool) -> Work:
    """The work of `train_values`.

    Args:
        run: The run.
        config: As there.
        lengths: Sizes of an average dialogue.
        bootstraps: As there.
    """
    row = lengths.as_trained(run.config.model.history)
    rows = run.config.sft.sft_dialogues * lengths.turns / row.turns
    parts: list[Part] = [training(rows, config.batch, config.batch, config.epochs, row.dialogue, row.spoken)]
    if bootstraps:  # the target's pass
        parts.append(reading(rows * config.epochs, config.batch, row.dialogue, row.spoken))
    return Work(f"{run.config.sft.sft_dialogues:,} episodes, {config.epochs:g} epochs", tuple(parts))


def load_perturbed(run: Run, folder: Path, beta: float, bootstraps: bool) -> Policy:
    """The policy that samples from log pi_beta + beta Q, by trained values.

    Args:
        run: The run; pi_beta is its initial policy.
        folder: Folder that `train_values` wrote.
        beta: Weight of the values.
        bootstraps: As in `train_values`.
    """
    start, arguments = run.initial_model, run.config.model
    values = _new_values(run, bootstraps)
    values.load_state_dict(load_file(folder / VALUES))
    policy = merged(load_model(start, start, arguments, is_trained=False))
    model = PerturbedModel(policy, values.acting, beta).requires_grad_(False)
    return policy_on(model, load_tokenizer(start, arguments), arguments)


def _new_values(run: Run, bootstraps: bool) -> TokenValues:
    """Values with new heads on the body of the initial policy, with a new adapter if the settings request LoRA.

    All in float32: in bfloat16, the small steps of the target would be rounded to none.
    """
    model = load_model(run.initial_model, run.initial_model, run.config.model)
    vocabulary, device = model.get_output_embeddings().weight.shape[0], model.device
    return TokenValues(body(adapted(model, run.config.model)), vocabulary, bootstraps).float().to(device)


class ValueTrainer(Trainer):  # type: ignore[misc]
    """`Trainer` on `action_tokens`."""

    def __init__(self, *, loss: Loss, muon_learning_rate: float, **kwargs: Any) -> None:
        """As `Trainer`, with our collator and a loss of `TokenEstimates`; 0 for `muon_learning_rate` is AdamW alone."""
        self.loss, self.muon_learning_rate = loss, muon_learning_rate
        super().__init__(data_collator=_collate, **kwargs)

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any) -> Tensor:
        """The algorithm's loss of a batch."""
        return self.loss(
            model(*(inputs[name] for name in ("input_ids", "is_action", "rewards", "dialogue", "is_cut", "attention_mask")))
        )

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Muon and AdamW, or the library's AdamW."""
        if self.optimizer is None and self.muon_learning_rate:
            self.optimizer = MuonWithAdamW(
                model or self.model, self.args.learning_rate, self.muon_learning_rate, weight_decay=0.0
            )
        made: torch.optim.Optimizer = self.optimizer or super().create_optimizer(model)
        return made

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save all values, the target included; also used for checkpoints."""
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        state = self.accelerator.unwrap_model(self.model).state_dict()
        save_file({name: value.contiguous().cpu() for name, value in state.items()}, folder / VALUES)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Load the file of `save_model`."""
        values: Any = model or self.model
        values.load_state_dict(load_file(Path(resume_from_checkpoint) / VALUES))


class _TargetUpdate(TrainerCallback):
    """Moves the target after every optimizer step."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Polyak averaging. The step's checkpoint is written afterwards."""
        model.update_target(self.rate)


def _collate(rows: list[Row]) -> dict[str, Tensor]:
    ids, acts, rewards = (
        [sequence for row in rows for sequence in row[name]] for name in ("input_ids", "is_action", "rewards")
    )
    return {
        "input_ids": right_padded(ids),
        "attention_mask": is_token(ids),
        "is_action": right_padded(acts),
        "rewards": right_padded(rewards).float(),
        "dialogue": torch.tensor([i for i, row in enumerate(rows) for _ in row["input_ids"]]),
        "is_cut": torch.tensor([row["is_cut"] for row in rows]),
    }
