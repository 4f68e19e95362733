"""Critics with a head: their losses against slow loops, what they learn, and that they come back from their folder."""

from __future__ import annotations

from math import exp, log, log1p

import pytest
import torch
from datasets import Dataset
from transformers import TrainingArguments

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.hint import hint_message
from sweetrl_agent.critics.heads import HeadCritic, TurnHead
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.models.loading import adapted, load_model
from sweetrl_agent.trainers.heads import HeadTrainer, encoded_rows, head_loss, pair_rows

GOOD = [{"role": "user", "content": "I need the total."}, {"role": "assistant", "content": "Round it?"},
        {"role": "user", "content": "Yes."}, {"role": "assistant", "content": "I WANT TO ANSWER:\nround(sum(x), 2)"}]  # fmt: skip
BAD = [{"role": "user", "content": "I need the total."}, {"role": "assistant", "content": "I WANT TO ANSWER:\nsum(x)"}]


@pytest.fixture
def make_head(make_tiny_model):
    """Function: -> a head with weights on the tiny model."""

    def make():
        scorer = TurnHead(make_tiny_model())
        with torch.no_grad():
            scorer.head.weight.copy_(torch.linspace(-1, 1, scorer.head.weight.numel())[None])
            scorer.head.bias.fill_(0.25)
        return scorer.eval()

    return make


def test_a_score_is_the_head_on_the_mean_of_the_turns_states(make_head, tiny_tokenizer):
    scorer = make_head()
    encoded = Chat(tiny_tokenizer).sequences(GOOD)[0]
    with torch.no_grad():
        hidden = scorer.model(torch.tensor([encoded.token_ids]), output_hidden_states=True).hidden_states[-1][0]
        for turn, score in enumerate(HeadCritic(scorer, Chat(tiny_tokenizer)).dialogue_advantages(GOOD, ""), 1):
            states = [hidden[i] for i, t in enumerate(encoded.turn_ids) if t == turn]
            expected = float(scorer.head(sum(states) / len(states)))
            assert score == pytest.approx(expected, abs=1e-4)


def test_candidates_score_as_turns_of_whole_dialogues_and_the_hint_counts(make_head, tiny_tokenizer):
    critic = HeadCritic(make_head(), Chat(tiny_tokenizer), batch_size=2)
    texts = ["Round it?", "I WANT TO ANSWER:\nsum(x)", "Round it?", "Empty?"]
    for hidden in ("", "return round(sum(x), 2)"):
        expected = [
            critic.dialogue_advantages([*GOOD[:1], {"role": "assistant", "content": text}], hidden)[0] for text in texts
        ]
        assert critic.rank(GOOD[:1], hidden, texts) == pytest.approx(expected, abs=1e-4)
    assert critic.rank(GOOD[:1], "return 0", texts) != critic.rank(GOOD[:1], "", texts)


def test_the_losses_are_those_of_slow_loops():
    scores = torch.tensor([[0.5, -1.0], [2.0, 0.0], [0.3, 0.7], [-0.4, 0.0]], dtype=torch.float64)  # two pairs
    turns, success = torch.tensor([2, 1, 2, 1]), torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    beta = 0.3
    margins = [beta * ((0.5 - 1.0) - (0.3 + 0.7)), beta * (2.0 + 0.4)]
    expected = sum(log1p(exp(-m)) for m in margins) / 2
    assert float(head_loss(scores, turns, "regression", beta, success)) == pytest.approx(expected)
    each = [(0.5, 1), (-1.0, 1), (2.0, 1), (0.3, 0), (0.7, 0), (-0.4, 0)]
    expected = -sum(log(1 / (1 + exp(-x))) if y else log(1 - 1 / (1 + exp(-x))) for x, y in each) / 6
    assert float(head_loss(scores, turns, "value", beta, success)) == pytest.approx(expected)


@pytest.mark.parametrize("loss", ["regression", "value"])
def test_it_learns_which_dialogue_is_better_and_survives_its_folder(loss, make_tiny_model, tiny_tokenizer, tmp_path):
    if loss == "regression":
        groups = pair_rows([{"hidden": "c", "chosen": GOOD, "rejected": BAD}] * 8)
    else:
        groups = [[{"hidden": "c", "messages": m, "success": s}] for m, s in ((GOOD, 1), (BAD, 0))] * 8
    dataset = Dataset.from_list(list(encoded_rows(groups, Chat(tiny_tokenizer), "", 512)))
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "run"), per_device_train_batch_size=4, learning_rate=1e-3, num_train_epochs=20, use_cpu=True,
        report_to=[], disable_tqdm=True, remove_unused_columns=False, save_steps=10, logging_steps=50, seed=0,
    )  # fmt: skip
    trainer = HeadTrainer(
        loss=loss, beta=1.0, model=TurnHead(make_tiny_model(scale=1.0)), args=arguments, train_dataset=dataset
    )
    trainer.train()
    scorer = trainer.model
    critic = HeadCritic(scorer, Chat(tiny_tokenizer))
    right, wrong = critic.rank(GOOD[:3], "c", [GOOD[3]["content"]]), critic.rank(BAD[:1], "c", [BAD[1]["content"]])
    assert right[0] > wrong[0] + 0.5
    scorer.save(tmp_path / "critic")
    again = TurnHead(type(scorer.model).from_pretrained(tmp_path / "critic")).load_head(tmp_path / "critic")
    assert HeadCritic(again, Chat(tiny_tokenizer)).rank(GOOD[:3], "c", ["Why?"]) == critic.rank(GOOD[:3], "c", ["Why?"])
    resumed = HeadTrainer(loss=loss, beta=1.0, model=TurnHead(make_tiny_model(seed=1)), args=arguments, train_dataset=dataset)
    resumed.train(resume_from_checkpoint=True)
    assert torch.equal(resumed.model.head.weight, scorer.head.weight)
    assert all(torch.equal(a, b) for a, b in zip(resumed.model.parameters(), scorer.parameters(), strict=True))


def test_with_an_adapter_only_the_adapter_and_the_head_are_saved(tiny_model_folder, tiny_tokenizer, tmp_path):
    arguments = ModelArguments(lora=True, lora_r=2)
    scorer = TurnHead(adapted(load_model(str(tiny_model_folder), "", arguments), arguments))
    with torch.no_grad():
        for name, parameter in scorer.named_parameters():
            if "lora_B" in name or "head.weight" in name:
                parameter.normal_(std=0.5)
    scorer.save(tmp_path / "critic")
    assert {"adapter_model.safetensors", "head.safetensors"} <= {path.name for path in (tmp_path / "critic").iterdir()}
    assert not (tmp_path / "critic" / "model.safetensors").exists()
    again = TurnHead(load_model(str(tmp_path / "critic"), str(tiny_model_folder), arguments)).load_head(tmp_path / "critic")
    texts = ["Round it?", "Why?"]
    one, two = (HeadCritic(critic, Chat(tiny_tokenizer)).rank(GOOD[:1], "c", texts) for critic in (scorer, again))
    assert one == pytest.approx(two, abs=1e-5) and one[0] != pytest.approx(one[1], abs=1e-3)


def test_rows_with_a_dialogue_that_is_too_long_are_left_out(tiny_tokenizer, caplog):
    good, bad = (len(Chat(tiny_tokenizer).sequences([*hint_message("c"), *side])[0].token_ids) for side in (GOOD, BAD))
    assert bad < good
    groups = [*pair_rows([{"hidden": "c", "chosen": GOOD, "rejected": BAD}]), [{"hidden": "c", "messages": BAD, "success": 0}]]
    lengths = [len(list(encoded_rows(groups, Chat(tiny_tokenizer), "", longest))) for longest in (bad, good)]
    assert lengths == [1, 2]
    assert f"1 of 2 rows of dialogues have more than {bad} tokens and are skipped" in caplog.text
    with pytest.raises(ColBenchError, match=f"^All 2 rows of dialogues have more than {bad - 1} tokens"):
        list(encoded_rows(groups, Chat(tiny_tokenizer), "", bad - 1))
