"""The language-model head on labelled tokens only, for TRL's trainers on a CPU.

TRL 1.16's fused head skips the tokens without a label where there is Triton, and scores every one elsewhere, twice for the backward
pass. In a dialogue most tokens are the human's or the prompt's: on two cores a step of the critic took 2.6 times as long. This replaces
it there by the plain computation on the labelled tokens, and reads what the two sides of a pair have in common once; the numbers are
the same.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch
from accelerate.utils import extract_model_from_parallel, is_peft_model
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from trl import DPOTrainer, SFTTrainer
from trl.trainer.utils import FusedCausalLMOutput

from sweetrl_agent.policies.slots import can_use_slots
from sweetrl_agent.trainers.trl.shared_prefix import hidden_states

#: Settings of models whose logits are more than their head on their hidden states; those keep TRL's head.
_BEYOND_THE_HEAD = ("final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling")
#: What a forward pass over text alone is given.
_PLAIN = {"input_ids", "attention_mask", "use_cache"}
#: Logits of a batch that are held together, 128 MiB, and of more than these so many at a time: what a large vocabulary takes most memory for.
TOGETHER, AT_A_TIME = 2**25, 2**23


def score_labelled_tokens_only(trainer: Any) -> None:
    """Replace the fused head of a TRL trainer's models; does nothing on a GPU, nor to other trainers."""
    if not isinstance(trainer, DPOTrainer | SFTTrainer):
        return
    for model in (trainer.model, getattr(trainer, "ref_model", None)):
        if model is None or next(model.parameters()).is_cuda:
            continue
        model = extract_model_from_parallel(model)  # DeepSpeed wraps the reference at once
        base = model.get_base_model() if is_peft_model(model) else model
        config = base.config.get_text_config()
        if all(getattr(config, name, None) is None for name in _BEYOND_THE_HEAD) and not hasattr(config, "num_experts"):
            _replace(base)


def _replace(model: Any) -> None:
    if hasattr(model.forward, "scores_labelled_only"):  # it was replaced when the reference was asked ahead
        return
    trl_forward, can_share = model.forward, can_use_slots(model)

    @functools.wraps(type(model).forward)  # whose signature trainers and `generate` look at
    def forward(self: Any, *args: Any, fused_lm_head: bool = False, **kwargs: Any) -> Any:
        if not fused_lm_head or kwargs.get("shift_labels") is not None:
            return trl_forward(*args, fused_lm_head=fused_lm_head, **kwargs)
        labels, count = kwargs.pop("labels"), kwargs.pop("num_items_in_batch", None)
        kwargs.pop("shift_labels", None)
        kwargs["use_cache"] = False
        if not args and set(kwargs) == _PLAIN and can_share and not self.is_gradient_checkpointing:
            hidden = hidden_states(self.base_model, kwargs["input_ids"], kwargs["attention_mask"])
        else:
            hidden = self.base_model(*args, **kwargs).last_hidden_state
        return labelled_output(hidden[:, :-1], labels[:, 1:], self.get_output_embeddings(), count)

    forward.scores_labelled_only = True  # type: ignore[attr-defined]
    model.forward = types.MethodType(forward, model)


def labelled_output(hidden: Tensor, labels: Tensor, head: Any, num_items: Any = None) -> FusedCausalLMOutput:
    """What TRL's fused head gives, 0 where there is no label.

    Args:
        hidden: Last hidden states, shape (B, L, H).
        labels: Token that follows each, -100 for none, shape (B, L).
        head: The language-model head.
        num_items: What the loss is divided by; None for the number of labels.
    """
    mask = labels != -100
    found, vocab_size = hidden[mask], getattr(head, "out_features", 1)
    rows = max(len(found) if len(found) * vocab_size <= TOGETHER else AT_A_TIME // vocab_size, 1)
    chunks = list(zip(found.split(rows), labels[mask][:, None].split(rows), strict=True))
    score = functools.partial(_scores, head)
    if len(chunks) > 1:  # their logits are made anew in the backward pass, so that those of one chunk are held at a time
        score = functools.partial(checkpoint, score, use_reentrant=False)
    chosen, entropy, mean_logits, is_top1 = map(torch.cat, zip(*(score(*chunk) for chunk in chunks), strict=True))

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
    """Of tokens, shape (N, 1), after hidden states, shape (N, H): log-probability, entropy, mean logit, and whether it is the likeliest."""
    logits = head(hidden).float()
    with torch.no_grad():
        mean_logits, is_top1 = logits.mean(dim=-1), logits.argmax(dim=-1) == targets[:, 0]
    log_probs = torch.log_softmax(logits, dim=-1)
    del logits  # nobody needs them any more, and they are large
    with torch.no_grad():
        entropy = -log_probs.exp().mul_(log_probs).sum(dim=-1)
    return log_probs.gather(1, targets)[:, 0], entropy, mean_logits, is_top1
