"""Stage 1 of SWEET-RL on TRL: trains a critic on pairs of trajectories. Its turn-wise advantage is a mean log-ratio.

`DPOTrainer` provides the handling of model and reference, LoRA, accelerate, logging and checkpoints. This file adds the scoring of
single agent turns, the hidden information that only the critic sees, and the Bradley-Terry loss of equations 2 and 3. The overrides touch private
parts of TRL 1.16 (`_prepare_dataset`, `_compute_loss`, the fused head).

Source: arXiv:2503.15478, section 4.2.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from accelerate.utils import is_peft_model
from datasets import Dataset, Features, List, Value
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import TrainerCallback
from trl import DPOConfig
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.dpo_trainer import DataCollatorForPreference
from trl.trainer.utils import use_adapter

from colbench_gym.files import Row
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.critics.credit import FORMS, SUM
from sweetrl_agent.data.chat import Chat, EncodedDialogue, encode_hinted
from sweetrl_agent.data.pairs import SIDES, hidden_by_turn, with_hidden_by_turn
from sweetrl_agent.models.loading import initial_model, load_tokenizer, system_prompt
from sweetrl_agent.policies.slots import without_wrapper
from sweetrl_agent.trainers.critic_summary import GAP
from sweetrl_agent.trainers.running import report_skipped
from sweetrl_agent.trainers.trl.on_disk import on_disk
from sweetrl_agent.trainers.trl.precomputed import PrecomputingDPOTrainer, pad_id

#: Arguments of a trainer that measures a loss on held-out rows after every epoch and keeps the model of the best.
BEST_EPOCH = {
    "eval_strategy": "epoch", "save_strategy": "epoch", "load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "greater_is_better": False,
}  # fmt: skip
#: The last turn with a metric of its own; it has those of all later ones, too.
MOST_TURNS = 32
#: Columns of encoded pairs, with the smallest sufficient types: they are memory-mapped and read completely in every epoch.
ENCODED = Features({"prompt_ids": List(Value("int32"))} | {
    f"{side}_{column}": List(Value(kind))
    for side in SIDES
    for column, kind in (("ids", "int32"), ("turn_ids", "int16"), ("lengths", "int32"))
})  # fmt: skip


@dataclass
class SweetCriticConfig(DPOConfig):
    """Configuration of `SweetCriticTrainer`; all other fields are inherited from `DPOConfig`.

    The paper's values (Table 5): learning_rate 2e-7, beta 0.1, nll_coef 0.01, batch 8, 4 epochs. `max_length` is a filter here:
    pairs with a longer dialogue are skipped, since a truncated dialogue would lose its answer.
    """

    form: str = field(
        default="paper",
        metadata={
            "help": "'paper': sum over turns of per-turn means (eq. 2 and 3); 'released': one mean over all action tokens; 'sum': "
            "their sum (multi-turn DPO)."
        },
    )
    instructions: str = field(default="", metadata={"help": "System prompt of the agent; the critic sees it too."})
    reasoning: str = field(default="auto", metadata={"help": "How the agent's model marks its thoughts, as `--reasoning`."})
    noun: str = field(default="answer", metadata={"help": "What the hidden information is, `EnvironmentRecord.hidden_noun`."})
    skips_last: bool = field(default=False, metadata={"help": "The last turn, the answer, is context and is not trained on."})
    nll_coef: float = field(default=0.01, metadata={"help": "Weight of the NLL of the better trajectory's turns (Table 5)."})

    def __post_init__(self) -> None:
        """Check the form and derive TRL's own fields."""
        if self.form not in (*FORMS, SUM):
            raise ValueError(f"`form` must be one of {(*FORMS, SUM)}, got {self.form!r}.")
        super().__post_init__()


def turn_advantages(log_ratios: Tensor, turn_ids: Tensor, num_turns: int) -> Tensor:
    """Average the log-ratios of each agent turn: A(o_t, a_t, c) of SWEET-RL, equation 3. Linear in `log_ratios`.

    Args:
        log_ratios: log pi_theta - log pi_ref of each token, in nats, shape (B, L).
        turn_ids: Agent turn of each token, 1..T; 0 for tokens that are not actions. Shape (B, L).
        num_turns: T, the largest turn number in the batch.

    Returns:
        Advantage of every turn, shape (B, T); 0 where a dialogue has fewer turns.

    Source: arXiv:2503.15478, section 4.2.
    """
    sums = log_ratios.new_zeros(len(turn_ids), num_turns + 1).scatter_add(1, turn_ids, log_ratios)
    counts = torch.zeros_like(sums).scatter_add(1, turn_ids, torch.ones_like(log_ratios))
    return (sums / counts.clamp(min=1))[:, 1:]  # column 0 collects the tokens that are not actions


def turns_of_trajectories(turn_ids: Tensor, parts: Tensor) -> Tensor:
    """Turn ids that count over the rows of a trajectory, where those of each row begin at 1. Shapes (B, L) and (B,) to (B, L)."""
    counts = turn_ids.max(dim=1).values
    before = torch.stack([counts[:row][parts[:row] == part].sum() for row, part in enumerate(parts)])
    return torch.where(turn_ids > 0, turn_ids + before[:, None], 0)


def trajectory_scores(log_ratios: Tensor, turn_ids: Tensor, form: str, parts: Tensor | None = None) -> Tensor:
    """Trajectory scores of the loss, shape (B,): the sum of the turns' means ("paper"), one mean over all action tokens, or their sum.

    Args:
        log_ratios: As in `turn_advantages`.
        turn_ids: As in `turn_advantages`.
        form: The form.
        parts: Trajectory that each row is a part of, 0..B-1; None if each row is a trajectory.
    """
    if form == "paper":
        return _summed(turn_advantages(log_ratios, turn_ids, int(turn_ids.max())).sum(dim=1), parts)
    is_action = turn_ids > 0
    sums = _summed((log_ratios * is_action).sum(dim=1), parts)
    return sums if form == SUM else sums / _summed(is_action.sum(dim=1), parts).clamp(min=1)


def _summed(values: Tensor, parts: Tensor | None) -> Tensor:
    """Sums over the parts of each trajectory."""
    return values if parts is None else values.new_zeros(int(parts.max()) + 1).index_add(0, parts, values)


@dataclass
class DataCollatorForTurnPreference(DataCollatorForPreference):
    """Adds `turn_ids` (2B, L): the agent turn of the token or 0; and `reference_log_probs` (2B, L - 1) if the rows have them.

    Each side is a whole dialogue, so prompts are empty. The rows' reference log-probabilities are those of the action tokens only. If a side is
    a dialogue for each turn, each is a row, and `parts` says of which of the 2B dialogues; a side with fewer is filled up with rows that score nothing.
    """

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        """Collate; the chosen dialogues are the first half of the batch."""
        pairs, examples = examples, [part for example in examples for part in _parts(example)]
        batch: dict[str, Any] = super().torch_call(examples)
        if len(examples) > len(pairs):
            dialogue = torch.tensor([i for i, pair in enumerate(pairs) for _ in _parts(pair)])
            batch["parts"] = torch.cat([dialogue, dialogue + len(pairs)])
        turn_ids = pad_sequence(_both_sides(examples, "turn_ids"), batch_first=True)
        batch["turn_ids"] = F.pad(turn_ids, (0, batch["input_ids"].shape[1] - turn_ids.shape[1]))
        batch["completion_mask"] = (batch["turn_ids"] > 0).long()  # user turns are context and are not scored
        if f"{SIDES[0]}_reference" in pairs[0]:
            is_action = batch["turn_ids"][:, 1:] > 0
            references = torch.cat(_both_sides(pairs, "reference"))
            batch["reference_log_probs"] = torch.zeros(is_action.shape).masked_scatter(is_action, references)
        return batch


def _parts(example: Row) -> list[Row]:
    """A pair for each turn, if a side is encoded turn by turn; else the pair."""
    count = max(len(example.get(f"{side}_lengths", "1")) for side in SIDES)
    if count == 1:
        return [example]
    parts: list[Row] = [{"prompt_ids": []} for _ in range(count)]
    for side in SIDES:
        ids, turn_ids, end = example[f"{side}_ids"], example[f"{side}_turn_ids"], 0
        for i, part in enumerate(parts):
            lengths = example[f"{side}_lengths"]
            is_own = i < len(lengths)
            start, end = (end, end + lengths[i]) if is_own else (0, lengths[0])
            part[f"{side}_ids"], part[f"{side}_turn_ids"] = ids[start:end], turn_ids[start:end] if is_own else [0] * lengths[0]
    return parts


def _both_sides(examples: list[dict[str, Any]], column: str) -> list[Tensor]:
    """A column of the chosen dialogues, then of the rejected ones."""
    return [torch.tensor(example[f"{side}_{column}"]) for side in SIDES for example in examples]


class SweetCriticTrainer(PrecomputingDPOTrainer):
    """Trains the critic on rows of `pairs.outcome_pairs`. The critic sees a row's "hidden"; "" for a critic without hidden information.

    Where the hidden information differs between turns, each turn is scored behind its own.
    """

    def __init__(self, *, args: SweetCriticConfig, processing_class: Any, **kwargs: Any) -> None:
        """As `DPOTrainer`; the collator is ours."""
        collator = DataCollatorForTurnPreference(
            pad_token_id=pad_id(processing_class), pad_to_multiple_of=args.pad_to_multiple_of
        )
        super().__init__(args=args, processing_class=processing_class, data_collator=collator, **kwargs)

    def _prepare_dataset(self, dataset: Dataset, processing_class: Any, args: SweetCriticConfig, dataset_name: str) -> Dataset:
        chat = Chat(processing_class, args.reasoning)

        def encode(row: Row) -> Row:
            encoded: Row = {"prompt_ids": []}
            for side in SIDES:
                hidden = hidden_by_turn(row, side)
                parts = encode_hinted(row[side], hidden, args.instructions, args.noun, chat)
                if args.skips_last and parts:
                    parts[-1] = _without_last_turn(parts[-1])
                encoded[f"{side}_ids"] = [token for part in parts for token in part.token_ids]
                encoded[f"{side}_turn_ids"] = [turn for part in parts for turn in part.turn_ids]
                encoded[f"{side}_lengths"] = [len(part.token_ids) for part in parts]
            return encoded

        def fits(encoded: Row) -> bool:
            return all(max(encoded[f"{side}_lengths"]) <= (args.max_length or math.inf) for side in SIDES)

        def encode_what_fits(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
            rows = (dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True))
            kept = [encoded for encoded in map(encode, rows) if fits(encoded)]
            return {column: [encoded[column] for encoded in kept] for column in ENCODED}

        kept = dataset.map(
            encode_what_fits,
            batched=True,
            batch_size=100,
            remove_columns=dataset.column_names,
            features=ENCODED,
            new_fingerprint="encoded",
        )
        report_skipped(len(kept), len(dataset), args.max_length or 0)
        return kept

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        columns = [f"{side}_{column}" for side in SIDES for column in ("turn_ids", "lengths", "reference")]
        self._signature_columns = list(dict.fromkeys([*self._signature_columns, *columns]))

    def _log_probs(self, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        """Log-probability of each action token, shape (2B, L - 1); position i scores token i + 1, others are 0."""
        labels = inputs["input_ids"].masked_fill(inputs["completion_mask"] == 0, -100)
        output = model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            use_cache=False,
            labels=labels,
            fused_lm_head=True,
            **self._groups(model, inputs),
        )
        log_probs: Tensor = output.log_probs
        return log_probs.float()

    def _groups(self, model: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """For a head that reads once what sequences have in common: the pair that each is of, where dialogues have several."""
        base = without_wrapper(self.accelerator.unwrap_model(model))
        if "parts" not in inputs or not hasattr(base.forward, "scores_labelled_only"):
            return {}
        return {"groups": inputs["parts"] % ((int(inputs["parts"].max()) + 1) // 2)}

    def _reference_log_probs(self, model: Any, inputs: dict[str, Tensor]) -> Tensor:
        """As `_log_probs`, under the reference: `model`; with LoRA, without its adapter or with the frozen initial adapter."""
        context: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if self.ref_model is None and is_peft_model(self.model):
            unwrapped = self.accelerator.unwrap_model(self.model)
            context = use_adapter(unwrapped, adapter_name="ref" if "ref" in unwrapped.peft_config else None)
        checkpointing = disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs)
        with torch.no_grad(), checkpointing, context, self.accelerator.autocast():
            return self._log_probs(model, inputs)

    def _reference_rows(self, model: Any, inputs: dict[str, Tensor]) -> list[Row]:
        log_probs = self._reference_log_probs(model, inputs)
        is_action = inputs["turn_ids"][:, 1:] > 0
        rows = [
            row[is_action_of_row].cpu().numpy() for row, is_action_of_row in zip(log_probs, is_action, strict=True)
        ]  # float32 in the file, too
        if "parts" in inputs:
            whole: list[list[Any]] = [[] for _ in range(int(inputs["parts"].max()) + 1)]
            for i, row in zip(inputs["parts"].tolist(), rows, strict=True):
                whole[i].append(row)
            rows = [np.concatenate(parts) for parts in whole]
        pairs = zip(rows[: len(rows) // 2], rows[len(rows) // 2 :], strict=True)
        return [{f"{side}_reference": row for side, row in zip(SIDES, pair, strict=True)} for pair in pairs]

    def _compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool) -> Tensor:
        log_probs = self._log_probs(model, inputs)
        reference = inputs.get("reference_log_probs")
        if reference is None:
            reference = self._reference_log_probs(self.ref_model or self.model, inputs)
        log_ratios = log_probs - reference
        turn_ids = inputs["turn_ids"][:, 1:]
        chosen, rejected = trajectory_scores(log_ratios, turn_ids, self.args.form, inputs.get("parts")).chunk(2)
        margin = self.beta * (chosen - rejected)
        is_chosen_action = (turn_ids > 0)[: len(turn_ids) // 2]
        said = log_probs[: len(turn_ids) // 2][is_chosen_action]
        nll = -said.mean() if len(said) else said.sum()  # without questions there is nothing to imitate
        self._record(chosen, rejected, margin, nll)
        if self.args.form != SUM:
            self._record_by_turn(log_ratios.detach(), turn_ids, inputs.get("parts"))
        loss: Tensor = -F.logsigmoid(margin).mean() + self.args.nll_coef * nll
        return loss

    def _record(self, chosen: Tensor, rejected: Tensor, margin: Tensor, nll: Tensor) -> None:
        metrics = self._metrics["train" if self.model.training else "eval"]
        values = {
            "rewards/chosen": self.beta * chosen,
            "rewards/rejected": self.beta * rejected,
            "rewards/margins": margin,
            "rewards/accuracies": (margin > 0).float(),
            "nll": nll[None],
        }
        for name, value in values.items():
            metrics[name].append(self.accelerator.gather(value.detach()).mean().item())

    def _record_by_turn(self, log_ratios: Tensor, turn_ids: Tensor, parts: Tensor | None) -> None:
        """Mean advantage of a turn of the chosen dialogues minus that of the rejected ones: where the critic finds the difference."""
        turns = (turn_ids if parts is None else turns_of_trajectories(turn_ids, parts)).clamp(max=MOST_TURNS)
        of_turns = turn_advantages(log_ratios, turns, MOST_TURNS)
        is_there = torch.stack([(turns == turn).any(dim=1) for turn in range(1, MOST_TURNS + 1)], dim=1).float()
        half = len(turns) // 2
        sums = torch.stack([(of_turns * is_there)[rows].sum(0) for rows in (slice(half), slice(half, None))])
        counts = torch.stack([is_there[rows].sum(0) for rows in (slice(half), slice(half, None))])
        gathered = self.accelerator.gather(torch.stack([sums, counts])[None]).sum(0)
        metrics = self._metrics["train" if self.model.training else "eval"]
        for turn in torch.nonzero((gathered[1] > 0).all(dim=0))[:, 0].tolist():
            chosen, rejected = (gathered[0] / gathered[1])[:, turn].tolist()
            metrics[f"{GAP}{turn + 1}"].append(chosen - rejected)


def _without_last_turn(part: EncodedDialogue) -> EncodedDialogue:
    return replace(part, turn_ids=[0 if turn == part.num_turns else turn for turn in part.turn_ids])


class LogsAtEpochs(TrainerCallback):
    """Metrics are logged at the end of an epoch too, where `BEST_EPOCH` saves: the means of a resumed run then begin at the same step."""

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """See `transformers.TrainerCallback`."""
        control.should_log = True


def pair_trainer(
    start: str,
    model: ModelArguments,
    pairs: Iterable[Row],
    folder: Path,
    arguments: dict[str, Any],
    held_out: Iterable[Row] = (),
    **loss: Any,
) -> SweetCriticTrainer:
    """A trainer on pairs of dialogues, starting from the initial model.

    Args:
        start: Folder or hub name of the initial model, which is also the reference.
        model: Settings of the agent's model.
        pairs: Rows of "hidden" (as in `pairs.outcome_pairs`; "" for none), "chosen" and "rejected".
        folder: Folder of the finished model.
        arguments: Result of `running.trainer_arguments`.
        held_out: Pairs that are not trained on: the loss on them is measured after every epoch, and the model of the epoch with the least is the
            result. Without any, that of the last step is.
        **loss: Fields of `SweetCriticConfig` and `DPOConfig`: form, beta, nll_coef, max_length, noun, skips_last.
    """
    kept = list(map(with_hidden_by_turn, held_out))
    if kept:
        arguments = {**arguments, **BEST_EPOCH, "per_device_eval_batch_size": arguments["per_device_train_batch_size"]}
    return SweetCriticTrainer(
        **initial_model(start, model),
        args=SweetCriticConfig(
            **arguments, **loss, instructions=system_prompt(model), reasoning=model.reasoning, precompute_ref_log_probs=True
        ),
        train_dataset=on_disk(map(with_hidden_by_turn, pairs), folder),
        eval_dataset=on_disk(kept, folder / "held_out") if kept else None,
        callbacks=[LogsAtEpochs()] if kept else [],
        processing_class=load_tokenizer(start, model),
    )
