"""The behaviour-cloning trainer's loss and order of batches."""

from __future__ import annotations

import torch
from transformers import TrainingArguments
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from colbench_gym.simulators import make
from colbench_gym.tasks import load_tasks
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.envs.backend_demonstrations import demonstrations
from sweetrl_agent.models.tiny import build_model, build_tokenizer
from sweetrl_agent.trainers.sft import CloningTrainer, bucketed_order, sft_dataset


def test_the_loss_and_its_gradient_are_the_models_own(tmp_path):
    dialogues = demonstrations(load_tasks("embedded:train[:8]"), make("scripted"), 8, 0)
    tokenizer = build_tokenizer((message["content"] for dialogue in dialogues for message in dialogue), 400)
    dataset = sft_dataset(dialogues, Chat(tokenizer))
    batch = DataCollatorForLanguageModeling(pad_token_id=tokenizer.pad_token_id)([dataset[i] for i in range(8)])
    assert len({len(row) for row in dataset["input_ids"]}) > 1, "without padding the test shows less"
    gradients = {}
    for name in ("own", "trainer"):
        model = build_model(tokenizer, 32, 1, seed=0)
        trainer = CloningTrainer(
            muon_learning_rate=0.02, model=model, args=TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True)
        )
        loss = trainer.compute_loss(model, batch) if name == "trainer" else model(**batch).loss
        loss.backward()
        gradients[name] = [loss.detach(), *(parameter.grad for parameter in model.parameters())]
    for ours, theirs in zip(gradients["trainer"], gradients["own"], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_batches_hold_rows_of_similar_length_and_every_epoch_shuffles_anew():
    lengths = [7 * i % 50 for i in range(100)]
    order = bucketed_order(lengths, 8, 2, seed=1)
    epoch = len(order) // 2
    assert len(set(order[:epoch])) == epoch == 96 and order[:epoch] != order[epoch:]
    assert bucketed_order(lengths, 8, 2, seed=1) == order != bucketed_order(lengths, 8, 2, seed=2)
    chunks = [order[i : i + 8] for i in range(0, epoch, 8)]
    assert max(max(lengths[i] for i in chunk) - min(lengths[i] for i in chunk) for chunk in chunks) <= 10


def test_fewer_rows_than_a_batch_are_one_batch():
    assert sorted(bucketed_order([3, 1, 2], 8, 1, seed=0)) == [0, 1, 2]


def test_turns_without_weight_are_read_and_not_imitated():
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    answer = {"role": "assistant", "content": "d"}
    tokenizer = build_tokenizer(["a b c d"], 300)
    whole, only_answer = (
        sft_dataset([[*({**message, "weight": weight} for message in talk), answer]], Chat(tokenizer))[0] for weight in (1, 0)
    )
    assert whole["input_ids"] == only_answer["input_ids"]
    end = tokenizer.eos_token_id
    assert [label for label in whole["labels"] if label != -100] == [
        *tokenizer("b")["input_ids"],
        end,
        *tokenizer("d")["input_ids"],
        end,
    ]
    assert [label for label in only_answer["labels"] if label != -100] == [*tokenizer("d")["input_ids"], end]
