"""The language-model head on labelled tokens only, for TRL's trainers on a CPU.

With Triton, TRL's fused head skips tokens without a label. On a CPU, TRL 1.16's scores all tokens, twice with the backward pass, and
TRL 1.15 has none. In a dialogue most tokens belong to the user or the prompt: on two cores a step of the critic took 2.6 times as
long. This module replaces the head on a CPU by the plain computation on labelled tokens, and processes the common prefix of the two
sides of a pair, or of the sequences of a group (`groups`), once; the results are the same.
"""

from __future__ import annotations

import functools
import types
from importlib.metadata import version
from typing import Any

import torch
from accelerate.utils import extract_model_from_parallel
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from trl import DPOTrainer, SFTTrainer
from trl.trainer.utils import FusedCausalLMOutput

from sweetrl_agent.policies.prefix_tree import padded_tree, rows_at
from sweetrl_agent.policies.slots import can_use_slots, has_plain_head, without_wrapper
from sweetrl_agent.trainers.trl.shared_prefix import hidden_states

#: Arguments of a text-only forward pass.
_PLAIN = {"input_ids", "attention_mask", "use_cache"}
#: TRL 1.15's head needs Triton and a GPU.
TRL_HAS_CPU_HEAD = not version("trl").startswith("1.15.")
#: Maximum number of logits held at once (128 MiB). Larger batches are processed in chunks, since a large vocabulary uses most memory here.
ALL_AT_ONCE, AT_A_TIME = 2**25, 2**23


def score_labelled_tokens_only(trainer: Any) -> None:
    """Replace the fused head of a TRL trainer's models, on a GPU for sequences with common prefixes only; does nothing for other trainers.

    Raises:
        ValueError: If the model needs TRL's head, and TRL has none for a CPU.
    """
    if not isinstance(trainer, DPOTrainer | SFTTrainer):
        return
    for model in (trainer.model, getattr(trainer, "ref_model", None)):
        if model is None:
            continue
        has_fast_head = next(model.parameters()).is_cuda
        base = without_wrapper(extract_model_from_parallel(model))  # DeepSpeed wraps the reference on creation
        if has_plain_head(base):
            _replace(base, has_fast_head)
        elif not (has_fast_head or TRL_HAS_CPU_HEAD):
            raise ValueError(
                f"On a CPU, {type(base).__name__} needs TRL 1.16: `pip install 'trl>=1.16'`; this is TRL {version('trl')}."
            )


def _replace(model: Any, has_fast_head: bool = False) -> None:
    if hasattr(model.forward, "scores_labelled_only"):  # already replaced, when reference log-probabilities were precomputed
        return
    trl_forward, can_share = model.forward, can_use_slots(model)

    @functools.wraps(type(model).forward)  # trainers and `generate` inspect its signature
    def forward(self: Any, *args: Any, fused_lm_head: bool = False, groups: Tensor | None = None, **kwargs: Any) -> Any:
        tree = padded_tree(self, kwargs.get("input_ids"), kwargs.get("attention_mask"), groups)
        if not fused_lm_head or kwargs.get("shift_labels") is not None or (has_fast_head and tree is None):
            return trl_forward(*args, fused_lm_head=fused_lm_head, **kwargs)
        labels, count = kwargs.pop("labels"), kwargs.pop("num_items_in_batch", None)
        kwargs.pop("shift_labels", None)
        kwargs["use_cache"] = False
        if tree is not None:
            hidden, head = tree.hidden_states(self.base_model), self.get_output_embeddings()
            return labelled_output(hidden, labels[:, 1:], head, count, tree.places[:, :-1])
        elif not args and set(kwargs) == _PLAIN and can_share and not self.is_gradient_checkpointing:
            hidden = hidden_states(self.base_model, kwargs["input_ids"], kwargs["attention_mask"])
        else:
            hidden = self.base_model(*args, **kwargs).last_hidden_state
        return labelled_output(hidden[:, :-1], labels[:, 1:], self.get_output_embeddings(), count)

    forward.scores_labelled_only = True  # type: ignore[attr-defined]
    model.forward = types.MethodType(forward, model)


def labelled_output(
    hidden: Tensor, labels: Tensor, head: Any, num_items: Any = None, places: Tensor | None = None
) -> FusedCausalLMOutput:
    """The output of TRL's fused head; 0 for tokens without a label.

    Args:
        hidden: Last hidden states, shape (B, L, H); with `places` shape (N, H).
        labels: Next token of each position, -100 for none, shape (B, L).
        head: The language-model head.
        num_items: Divisor of the loss; None for the number of labels.
        places: Index of each position's hidden state, shape (B, L). A token that stands in several sequences, as a candidate does in several pairs, is scored once.
    """
    mask = labels != -100
    if places is None:
        states, targets, same = hidden[mask], labels[mask], None
    else:
        distinct, same = torch.stack([places[mask], labels[mask]]).unique(dim=1, return_inverse=True)
        states, targets = rows_at(hidden, distinct[0]), distinct[1]
    vocab_size = getattr(head, "out_features", 1)
    rows = max(len(states) if len(states) * vocab_size <= ALL_AT_ONCE else AT_A_TIME // vocab_size, 1)
    chunks = list(zip(states.split(rows), targets[:, None].split(rows), strict=True))
    score = functools.partial(_scores, head)
    if len(chunks) > 1:  # logits are recomputed in the backward pass, so that only those of one chunk are held at a time
        score = functools.partial(checkpoint, score, use_reentrant=False)
    scores = map(torch.cat, zip(*(score(*chunk) for chunk in chunks), strict=True))
    chosen, entropy, mean_logits, is_top1 = scores if same is None else (rows_at(values, same) for values in scores)

    def placed(values: Tensor) -> Tensor:
        return values.new_zeros(mask.shape).masked_scatter(mask, values)

    return FusedCausalLMOutput(
        loss=-chosen.sum() / (mask.sum().clamp(min=1) if num_items is None else num_items),
        log_probs=placed(chosen),
        entropy=placed(entropy),
        mean_logits=placed(mean_logits),
        is_top1=placed(is_top1),
        label_mask=mask,
    )


def _scores(head: Any, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For targets of shape (N, 1) and hidden states of shape (N, H): log-probability, entropy, mean logit, and whether it is the argmax."""
    logits = head(hidden).float()
    with torch.no_grad():
        mean_logits, is_top1 = logits.mean(dim=-1), logits.argmax(dim=-1) == targets[:, 0]
    log_probs = torch.log_softmax(logits, dim=-1)
    del logits  # large, and not needed any more
    with torch.no_grad():
        entropy = -log_probs.exp().mul_(log_probs).sum(dim=-1)
    return log_probs.gather(1, targets)[:, 0], entropy, mean_logits, is_top1
