"""A reference that is asked ahead of training gives the training that one held beside the model gives."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from torch.nn.utils.rnn import pad_sequence
from trl import DPOConfig, DPOTrainer
from trl.trainer import dpo_trainer

from colbench_gym.errors import ColBenchError
from sweetrl_agent.trainers.critic import SweetCriticConfig, SweetCriticTrainer
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only
from sweetrl_agent.trainers.trl.precomputed import PrecomputingDPOTrainer


def _said(*texts):
    return [{"role": role, "content": text} for role, text in zip(("user", "assistant") * 2, texts, strict=False)]


DIALOGUES = [
    {
        "hidden": "def f(x): ...",
        "chosen": _said("A total.", "Rounded?", "Yes.", "done"),
        "rejected": _said("A total.", "I cannot."),
    },
    {
        "hidden": "",
        "chosen": _said("A mean of my prices, please.", "sum"),
        "rejected": _said("A mean.", "Why?", "So.", "sum of all"),
    },
    {"hidden": "x", "chosen": _said("The least.", "min"), "rejected": _said("The least.", "max, as far as I can see")},
]
TURNS = [
    {"prompt": _said("A total."), "chosen": _said("", "Round it?")[1:], "rejected": _said("", "def f(x): return x")[1:]},
    {"prompt": _said("A mean.", "Of what?", "Of my prices."), "chosen": _said("", "For an empty list?")[1:], "rejected": _said("", "Why?")[1:]},
    {"prompt": _said("The least."), "chosen": _said("", "min")[1:], "rejected": _said("", "max")[1:]},
]  # fmt: skip


@pytest.fixture
def losses(make_tiny_model, tiny_tokenizer, tmp_path):
    """Function: losses of five steps over three pairs, whose reference is asked ahead or is a second model."""

    def train(kind, is_ahead, micro_batch=2, **kwargs):
        is_critic = kind == "critic"
        trainers = {"critic": SweetCriticTrainer, "dpo": PrecomputingDPOTrainer if is_ahead else DPOTrainer}
        arguments = (SweetCriticConfig if is_critic else DPOConfig)(
            output_dir=str(tmp_path), per_device_train_batch_size=micro_batch, use_cpu=True, bf16=False, gradient_checkpointing=False,
            report_to=[], learning_rate=1e-2, max_steps=5, disable_tqdm=True, seed=0, logging_steps=1, save_strategy="no",
            precompute_ref_log_probs=is_ahead, **({} if is_critic else {"loss_type": ["sigmoid_norm", "sft"], "loss_weights": [1.0, 0.3]}),
        )  # fmt: skip
        trainer = trainers[kind](
            model=make_tiny_model(0), ref_model=None if is_ahead or "peft_config" in kwargs else make_tiny_model(0), args=arguments,
            train_dataset=Dataset.from_list(DIALOGUES if is_critic else TURNS), processing_class=tiny_tokenizer, **kwargs,
        )  # fmt: skip
        assert (trainer.ref_model is None) == (is_ahead or "peft_config" in kwargs)
        score_labelled_tokens_only(trainer)  # as `train_stage` does; the head of TRL 1.15 needs a GPU
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    return train


@pytest.mark.parametrize("kind", ["critic", "dpo"])
def test_the_weights_are_not_hashed_on_the_way(kind, losses, monkeypatch):
    def fails(module):
        raise AssertionError("all weights were copied to the CPU and hashed")

    monkeypatch.setattr(dpo_trainer, "hash_module", fails)
    assert losses(kind, is_ahead=True)
    assert dpo_trainer.hash_module is fails, "TRL's own trainer has its function again"


@pytest.mark.parametrize("kind", ["critic", "dpo"])
def test_training_goes_the_same_way_without_a_second_model(kind, losses):
    held, ahead = losses(kind, is_ahead=False), losses(kind, is_ahead=True)
    assert ahead == pytest.approx(held, rel=1e-4)
    assert abs(held[0] - held[-1]) > 0.01, "the model must have moved away from its reference"


@pytest.mark.parametrize("kind", ["critic", "dpo"])
def test_the_reference_of_an_adapter_is_the_model_without_it(kind, losses):
    adapters = [LoraConfig(r=4, target_modules="all-linear", init_lora_weights=True) for _ in range(2)]
    torch.manual_seed(0)
    held = losses(kind, is_ahead=False, peft_config=adapters[0])
    torch.manual_seed(0)
    ahead = losses(kind, is_ahead=True, peft_config=adapters[1])
    assert ahead == pytest.approx(held, rel=1e-4)
    assert abs(held[0] - held[-1]) > 0.01


def test_every_token_of_a_dialogue_has_its_own_reference(make_tiny_model, tiny_tokenizer, tmp_path):
    arguments = SweetCriticConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=2, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
        precompute_ref_log_probs=True,
    )  # fmt: skip
    trainer = SweetCriticTrainer(
        model=make_tiny_model(0), args=arguments, train_dataset=Dataset.from_list(DIALOGUES), processing_class=tiny_tokenizer
    )
    model = make_tiny_model(0)
    assert len(trainer.train_dataset) == len(DIALOGUES)
    collated = {"chosen": [], "rejected": []}
    for row in trainer.train_dataset:
        for side in ("chosen", "rejected"):
            ids, is_action = torch.tensor(row[f"{side}_ids"]), torch.tensor(row[f"{side}_turn_ids"])[1:] > 0
            with torch.no_grad():
                log_probs = torch.log_softmax(model(ids[None]).logits[0, :-1].float(), dim=-1)
            expected = log_probs.gather(1, ids[1:, None])[:, 0] * is_action
            assert torch.allclose(torch.tensor(row[f"{side}_reference"]), expected[is_action], atol=1e-5)
            assert is_action.any() and not is_action.all()
            collated[side].append(expected)
    batch = trainer.data_collator(list(trainer.train_dataset))
    padded = pad_sequence(collated["chosen"] + collated["rejected"], batch_first=True)
    assert torch.allclose(batch["reference_log_probs"], padded, atol=1e-5)


def test_pairs_that_are_too_long_are_skipped_and_none_is_cut(make_tiny_model, tiny_tokenizer, tmp_path, caplog):
    long, short = [20, 21, 22, 23, 24, 2], [20, 21, 2]
    pairs = [
        {"prompt_ids": [5] * 10, "chosen_ids": long, "rejected_ids": short},
        {"prompt_ids": [5] * 9, "chosen_ids": short, "rejected_ids": short},
    ]

    def trainer(max_length):
        arguments = DPOConfig(
            output_dir=str(tmp_path),
            use_cpu=True,
            bf16=False,
            report_to=[],
            max_length=max_length,
            precompute_ref_log_probs=True,
        )
        return PrecomputingDPOTrainer(
            model=make_tiny_model(0), args=arguments, train_dataset=Dataset.from_list(pairs), processing_class=tiny_tokenizer
        )

    assert [len(row["chosen_ids"]) for row in trainer(16).train_dataset] == [6, 3] and not caplog.text
    assert [len(row["chosen_ids"]) for row in trainer(15).train_dataset] == [3]
    assert "1 of 2 pairs have more than 15 tokens and are skipped" in caplog.text
    with pytest.raises(ColBenchError, match="^All 2 pairs have more than 11 tokens; raise"):
        trainer(11)
