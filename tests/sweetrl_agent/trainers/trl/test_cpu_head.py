"""The head on labelled tokens only gives what TRL's fused head gives, and only where it may."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from torch import nn
from torch.utils.checkpoint import checkpoint
from trl import DPOConfig, DPOTrainer
from trl.trainer.utils import add_fused_lm_head

from sweetrl_agent.trainers.trl import cpu_head
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only

trl_has_a_cpu_head = pytest.mark.skipif(
    not cpu_head.TRL_HAS_CPU_HEAD, reason="the head of TRL 1.15 needs Triton and a GPU: `pip install 'trl>=1.16'`"
)
FIELDS = ("loss", "log_probs", "entropy", "mean_logits", "is_top1", "label_mask")
ROWS = [
    {"prompt": "I need the total of my prices. ", "chosen": "Round it?", "rejected": "I WANT TO ANSWER: sum(x)"},
    {"prompt": "What now? ", "chosen": "For an empty list return nothing at all.", "rejected": "Why?"},
]


@pytest.fixture
def make_trainer(make_tiny_model, tiny_tokenizer, tmp_path):
    """Function: -> a DPO trainer whose policy and reference differ."""

    def make(**settings):
        arguments = DPOConfig(
            output_dir=str(tmp_path), per_device_train_batch_size=2, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
            loss_type=["sigmoid_norm", "sft"], loss_weights=[1.0, 0.3], learning_rate=1e-2, max_steps=3, disable_tqdm=True, seed=0,
            logging_steps=1, **settings,
        )  # fmt: skip
        return DPOTrainer(
            model=make_tiny_model(0), ref_model=make_tiny_model(1), args=arguments, train_dataset=Dataset.from_list(ROWS),
            processing_class=tiny_tokenizer,
        )  # fmt: skip

    return make


IDS = torch.arange(5, 25).reshape(2, 10)
LABELS = IDS.masked_fill(torch.tensor([[1, 1, 1, 0, 0, 0, 1, 1, 0, 0], [1] * 9 + [0]]) == 1, -100)


def _fused(model):
    return model(input_ids=IDS, attention_mask=torch.ones_like(IDS), labels=LABELS, fused_lm_head=True)


def _plain(model):
    """The same from all logits, one position at a time."""
    logits, mask = model(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits, LABELS[:, 1:] != -100
    found = {name: torch.zeros(mask.shape) for name in FIELDS[1:5]}
    for row, position in mask.nonzero().tolist():
        scores, target = logits[row, position], LABELS[row, position + 1]
        log_probs = scores - scores.logsumexp(dim=-1)
        values = log_probs[target], -(log_probs.exp() * log_probs).sum(), scores.mean(), scores.argmax() == target
        for name, value in zip(found, values, strict=True):
            found[name][row, position] = value
    return SimpleNamespace(loss=-found["log_probs"].sum() / mask.sum(), label_mask=mask, **found)


def _outputs_and_gradients(model, outputs):
    model.zero_grad()
    output = outputs(model)
    output.loss.backward()
    return output, [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("head", [_plain, pytest.param(_fused, marks=trl_has_a_cpu_head)])
@pytest.mark.parametrize(("tokens_together", "chunks"), [(6, 1), (5, 3)])
def test_outputs_and_gradients_are_those_of_all_logits_and_of_trls_head(
    head, tokens_together, chunks, make_trainer, monkeypatch
):
    made = []
    monkeypatch.setattr(cpu_head, "checkpoint", lambda *args, **kwargs: made.append(1) or checkpoint(*args, **kwargs))
    trainer = make_trainer()
    expected, gradients = _outputs_and_gradients(trainer.model, head)
    monkeypatch.setattr(cpu_head, "ALL_AT_ONCE", tokens_together * trainer.model.config.vocab_size)
    monkeypatch.setattr(cpu_head, "AT_A_TIME", 2 * trainer.model.config.vocab_size)
    score_labelled_tokens_only(trainer)
    found, own_gradients = _outputs_and_gradients(trainer.model, _fused)
    assert len(made) == (chunks if chunks > 1 else 0)
    for name in FIELDS:
        assert torch.allclose(getattr(found, name).float(), getattr(expected, name).float(), atol=1e-5), name
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(own_gradients, gradients, strict=True))


@trl_has_a_cpu_head
def test_training_goes_the_same_way(make_trainer):
    logs = []
    for is_replaced in (False, True):
        trainer = make_trainer()
        if is_replaced:
            score_labelled_tokens_only(trainer)
        trainer.train()
        logs.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    assert logs[0] == pytest.approx(logs[1], rel=1e-4) and logs[0][0] != logs[0][-1]


def test_a_head_is_replaced_once(make_trainer):
    trainer = make_trainer()
    trls = trainer.model.forward
    score_labelled_tokens_only(trainer)
    ours = trainer.model.forward
    score_labelled_tokens_only(trainer)
    assert trainer.model.forward == ours != trls


def test_without_labels_a_model_is_as_it_was(make_trainer):
    trainer = make_trainer()
    ids = torch.arange(5, 15)[None]
    before = trainer.model(ids).logits
    score_labelled_tokens_only(trainer)
    assert torch.equal(trainer.model(ids).logits, before)


def test_a_model_whose_logits_are_more_than_its_head_keeps_trls(make_tiny_model, monkeypatch):
    monkeypatch.setattr(cpu_head, "TRL_HAS_CPU_HEAD", True)
    trainer = object.__new__(DPOTrainer)
    trainer.model, trainer.ref_model = make_tiny_model(0), None
    trainer.model.config.logit_scale = 0.5
    add_fused_lm_head(trainer.model)
    forward = trainer.model.forward
    score_labelled_tokens_only(trainer)
    assert trainer.model.forward == forward


def test_such_a_model_is_refused_where_trl_has_no_head_for_a_cpu(make_tiny_model, monkeypatch):
    monkeypatch.setattr(cpu_head, "TRL_HAS_CPU_HEAD", False)
    trainer = object.__new__(DPOTrainer)
    trainer.model, trainer.ref_model = make_tiny_model(0), None
    trainer.model.config.logit_scale = 0.5
    with pytest.raises(
        ValueError, match=r"^On a CPU, LlamaForCausalLM needs TRL 1\.16: `pip install 'trl>=1\.16'`; this is TRL "
    ):
        score_labelled_tokens_only(trainer)


def test_other_trainers_are_left_alone():
    class Other:
        model = nn.Linear(2, 2)

    score_labelled_tokens_only(Other())
    assert "forward" not in vars(Other.model)
