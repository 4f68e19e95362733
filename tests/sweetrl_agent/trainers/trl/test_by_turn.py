"""Pairs of a turn side by side: each pair once an epoch, the same losses and gradients, and the dialogue before them read once."""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import TrainerCallback
from trl import DPOConfig

from sweetrl_agent.trainers.running import SCORED_TOKENS
from sweetrl_agent.trainers.stage_training import train_stage
from sweetrl_agent.trainers.trl.by_turn import ByTurn, TurnwiseDPOTrainer
from sweetrl_agent.trainers.trl.cpu_head import TRL_HAS_CPU_HEAD, score_labelled_tokens_only
from sweetrl_agent.trainers.trl.precomputed import PrecomputingDPOTrainer

FIRST, SECOND, THIRD = list(range(20, 50)), list(range(60, 85)), [7, 8, 9]
PAIRS = [
    {"prompt_ids": FIRST, "chosen_ids": [50, 51, 2], "rejected_ids": [52, 2]},
    {"prompt_ids": FIRST, "chosen_ids": [50, 51, 2], "rejected_ids": [53, 54, 55, 2]},
    {"prompt_ids": FIRST, "chosen_ids": [56, 2], "rejected_ids": [52, 2]},
    {"prompt_ids": SECOND, "chosen_ids": [90, 2], "rejected_ids": [91, 92]},
    {"prompt_ids": SECOND, "chosen_ids": [93, 94, 2], "rejected_ids": [93, 95, 2]},
    {"prompt_ids": THIRD, "chosen_ids": [10, 2], "rejected_ids": [11, 2]},
]


def test_turns_are_shuffled_and_their_pairs_are_not():
    prompts = [[turn] * 3 for turn in (4, 7, 4, 5, 6) for _ in range(turn)]
    order, orders = ByTurn(prompts, seed=0), []
    for epoch in range(20):
        order.set_epoch(epoch)
        orders.append(list(order))
        assert sorted(orders[-1]) == list(range(len(prompts))) and len(order) == len(prompts)
        changes = sum(b != a + 1 for a, b in zip(orders[-1], orders[-1][1:], strict=False))
        assert changes < 5, "five turns, each in one piece"
    assert len(set(map(tuple, orders))) > 15
    assert list(order) == orders[-1], "the same order when a killed run goes through an epoch again"
    assert any(list(ByTurn(prompts, seed)) != orders[0] for seed in (1, 2))


def _trainer(kind, model, tokenizer, folder, micro_batch=6, peft_config=None, **changes):
    settings = {
        "output_dir": str(folder), "use_cpu": True, "bf16": False, "report_to": [], "precompute_ref_log_probs": True, "beta": 1.0,
        "per_device_train_batch_size": micro_batch, "loss_type": ["sigmoid_norm", "sft"], "loss_weights": [1.0, 1.0], "max_length": 100,
        "learning_rate": 1e-2, "num_train_epochs": 2, "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True,
        "lr_scheduler_type": "constant",
    }  # fmt: skip
    trainer = kind(
        model=model, args=DPOConfig(**{**settings, **changes}), train_dataset=Dataset.from_list(PAIRS),
        processing_class=tokenizer, peft_config=peft_config,
    )  # fmt: skip
    score_labelled_tokens_only(trainer)
    return trainer


@pytest.mark.parametrize("has_adapters", [False, True])
def test_loss_gradients_and_reference_are_those_of_shuffled_pairs(has_adapters, make_tiny_model, tiny_tokenizer, tmp_path):
    gradients, losses, references = [], [], []
    for kind in (PrecomputingDPOTrainer, TurnwiseDPOTrainer):
        torch.manual_seed(0)
        adapters = LoraConfig(r=4, target_modules=["q_proj", "v_proj"]) if has_adapters else None
        trainer = _trainer(kind, make_tiny_model(3), tiny_tokenizer, tmp_path / kind.__name__, peft_config=adapters)
        references.append([[row[f"ref_{side}_logps"] for side in ("chosen", "rejected")] for row in trainer.train_dataset])
        batch = trainer.data_collator([trainer.train_dataset[i] for i in range(len(PAIRS))])
        assert ("groups" in batch) == (kind is TurnwiseDPOTrainer)
        loss = trainer.compute_loss(trainer.model, batch)
        loss.backward()
        losses.append(loss.detach())
        gradients.append([p.grad for p in trainer.model.parameters() if p.grad is not None])
    assert torch.allclose(torch.tensor(references[0]), torch.tensor(references[1]), atol=1e-4)
    assert torch.allclose(*losses, atol=1e-5) and losses[0] > 0
    assert len(gradients[0]) == len(gradients[1]) > 0
    for plain, by_turn in zip(*gradients, strict=True):
        assert torch.allclose(plain, by_turn, atol=1e-4, rtol=1e-3)


def test_a_tokenizer_without_a_padding_token_fills_up_with_the_end(make_tiny_model, tiny_tokenizer, tmp_path):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.pad_token = None
    trainer = _trainer(TurnwiseDPOTrainer, make_tiny_model(3), tokenizer, tmp_path)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(len(PAIRS))])
    assert set(batch["input_ids"][batch["attention_mask"] == 0].tolist()) == {tokenizer.eos_token_id}


def test_a_dialogue_is_read_once_for_all_pairs_of_its_turn(make_tiny_model, tiny_tokenizer, tmp_path, monkeypatch):
    trainer = _trainer(TurnwiseDPOTrainer, make_tiny_model(3), tiny_tokenizer, tmp_path, micro_batch=3)
    body, widths, scored = trainer.model.base_model, [], []
    forward = body.forward

    def noted(*args, **kwargs):
        widths.append(kwargs["input_ids"].shape)
        return forward(*args, **kwargs)

    monkeypatch.setattr(body, "forward", noted)
    head = trainer.model.get_output_embeddings()
    head.register_forward_pre_hook(lambda module, inputs: scored.append(len(inputs[0])))
    trainer.compute_loss(trainer.model, trainer.data_collator([trainer.train_dataset[i] for i in range(3)]))
    texts = {tuple(pair[side]) for pair in PAIRS[:3] for side in ("chosen_ids", "rejected_ids")}
    assert widths == [(1, len(FIRST) + sum(map(len, texts)))], "the prompt and each distinct turn, once"
    assert scored == [sum(map(len, texts))], "each token of a distinct turn, once"


def test_training_takes_every_pair_in_every_epoch(make_tiny_model, tiny_tokenizer, tmp_path, monkeypatch):
    trainer = _trainer(TurnwiseDPOTrainer, make_tiny_model(3), tiny_tokenizer, tmp_path, micro_batch=1)
    seen, collate = [], trainer.data_collator.torch_call
    monkeypatch.setattr(trainer.data_collator, "torch_call", lambda rows: seen.extend(rows) or collate(rows))
    trainer.train()
    taken = [(tuple(row["chosen_ids"]), tuple(row["rejected_ids"])) for row in seen]
    whole = sorted((tuple(pair["chosen_ids"]), tuple(pair["rejected_ids"])) for pair in PAIRS)
    assert sorted(taken[: len(PAIRS)]) == sorted(taken[len(PAIRS) :]) == whole
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert len(losses) == 2 * len(PAIRS) and sum(losses[len(PAIRS) :]) < sum(losses[: len(PAIRS)])


class Killed(TrainerCallback):
    """Ends a training at some steps, as a kill does: after a checkpoint, in the middle of an epoch."""

    def __init__(self, steps):
        self.steps = steps

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step in self.steps:
            self.steps.remove(state.global_step)
            raise KeyboardInterrupt


def test_a_killed_training_ends_with_the_same_weights_and_reads_the_reference_once(
    make_tiny_model, tiny_tokenizer, tmp_path, monkeypatch
):
    read, reference_rows = [], TurnwiseDPOTrainer._reference_rows
    monkeypatch.setattr(
        TurnwiseDPOTrainer, "_reference_rows", lambda self, *batch: read.append(1) or reference_rows(self, *batch)
    )

    def trained(name, steps):
        folder, left = tmp_path / name, set(steps)
        for _ in range(len(steps) + 1):
            more = {"micro_batch": 2, "save_strategy": "steps", "save_steps": 1, "output_dir": str(folder / "checkpoints")}
            trainer = _trainer(TurnwiseDPOTrainer, make_tiny_model(3), tiny_tokenizer, folder, **more)
            trainer.add_callback(Killed(left))
            with contextlib.suppress(KeyboardInterrupt):
                rows = train_stage(trainer, tiny_tokenizer, folder, "actor")
        return [row["loss"] for row in rows], rows[-1][SCORED_TOKENS], (folder / "model.safetensors").read_bytes()

    whole = trained("whole", [])
    assert len(whole[0]) == 6 and whole[1] > 0 and len(read) == 3
    assert trained("killed", [2, 5]) == whole and len(read) == 6


@pytest.mark.skipif(not TRL_HAS_CPU_HEAD, reason="the head of TRL 1.15 needs Triton and a GPU: `pip install 'trl>=1.16'`")
def test_a_model_with_a_head_of_its_own_reads_every_pair(make_tiny_model, tiny_tokenizer, tmp_path):
    model = make_tiny_model(3)
    model.config.logit_scale = 0.5
    trainer = _trainer(TurnwiseDPOTrainer, model, tiny_tokenizer, tmp_path)
    assert "groups" not in trainer.data_collator([trainer.train_dataset[0]])
    assert isinstance(trainer._get_train_sampler(), ByTurn)
