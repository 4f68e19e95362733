"""The critic's loss against a slow plain-Python derivation, and what it may never score."""

from __future__ import annotations

import copy
import importlib.util
import math
import random
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.hint import HINT
from sweetrl_agent.critics.credit import FORMS, SUM, turn_advantages
from sweetrl_agent.data.pairs import with_hidden_by_turn
from sweetrl_agent.trainers.critic import (
    GAP,
    SweetCriticConfig,
    SweetCriticTrainer,
    pair_trainer,
    turns_of_trajectories,
)
from sweetrl_agent.trainers.critic import trajectory_scores as torch_scores
from sweetrl_agent.trainers.critic import turn_advantages as torch_advantages
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only
from sweetrl_agent.trainers.trl.precomputed import pad_id
from tests.sweetrl_agent.plain_credit import bradley_terry_loss, trajectory_score

REFERENCE_FILE = Path(__file__).parents[3] / "../shared/reference/credit_reference.py"
BETA = 0.7


def _dialogue(*texts):
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


ROWS = [
    {
        "hidden": "def total(prices):\n    return sum(prices)",
        "chosen": _dialogue("I need a total.", "Round it?", "To two decimals.", "What of an empty list, then?", "No.", "def f"),
        "rejected": _dialogue("I need a total.", "I WANT TO ANSWER:\ndef total(prices):\n    return round(sum(prices), 2)"),
    },
    {
        "hidden": "def mean(xs): ...",
        "chosen": _dialogue("A mean, please.", "ok"),
        "rejected": _dialogue("A mean, please.", "Of what?", "Numbers of all kinds.", "def mean(xs): return 0"),
    },
]


@pytest.fixture
def make_trainer(tiny_tokenizer, make_tiny_model, tmp_path):
    """Function: rows, settings -> a trainer whose model and reference have different random weights."""

    def make(rows=ROWS, peft_config=None, model=None, tokenizer=tiny_tokenizer, **settings):
        arguments = {"beta": BETA, "max_length": 2048, "noun": "function", **settings}
        trainer = SweetCriticTrainer(
            model=model or make_tiny_model(1),
            ref_model=None if peft_config or model else make_tiny_model(2),
            args=SweetCriticConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to=[], **arguments),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            peft_config=peft_config,
        )
        score_labelled_tokens_only(trainer)  # as `train_stage` does; the head of TRL 1.15 needs a GPU
        return trainer

    return make


def _batch(trainer):
    return trainer.data_collator([trainer.train_dataset[i] for i in range(len(trainer.train_dataset))])


def _log_probs(model, token_ids):
    """Log-probability of each token given those before it, float64, one full softmax at a time; 0 for the first."""
    with torch.no_grad():
        logits = model(torch.tensor([token_ids])).logits[0]
    return [0.0] + [float(torch.log_softmax(logits[i].double(), dim=-1)[token_ids[i + 1]]) for i in range(len(token_ids) - 1)]


def _slow_loss(trainer, model, reference, form, nll_coef):
    losses, nlls = [], []
    for row in trainer.train_dataset:
        score = {}
        for side in ("chosen", "rejected"):
            ids, turns = row[f"{side}_ids"], row[f"{side}_turn_ids"]
            log_probs = _log_probs(model, ids)
            ratios = [a - b for a, b in zip(log_probs, reference(ids), strict=True)]
            score[side] = trajectory_score(ratios, turns, form)
            if side == "chosen":
                nlls += [-x for x, turn in zip(log_probs, turns, strict=True) if turn]
        losses.append(bradley_terry_loss(score["chosen"], score["rejected"], BETA))
    return sum(losses) / len(losses) + nll_coef * sum(nlls) / len(nlls)


@pytest.mark.parametrize("nll_coef", [0.0, 0.01])
@pytest.mark.parametrize("form", [*FORMS, SUM])
def test_the_loss_is_the_slow_loops(form, nll_coef, make_trainer, make_tiny_model):
    trainer = make_trainer(form=form, nll_coef=nll_coef)
    loss = trainer.compute_loss(trainer.model, _batch(trainer))
    model, reference = make_tiny_model(1).double(), make_tiny_model(2).double()  # the trainer patches its own
    expected = _slow_loss(trainer, model, lambda ids: _log_probs(reference, ids), form, nll_coef)
    assert loss.item() == pytest.approx(
        expected, rel=1e-5
    )  # float32 against float64; the order of sums depends on the processor
    assert nll_coef or abs(expected - 0.6931) > 0.01, "the two models must differ for this test to say anything"
    loss.backward()
    assert any(parameter.grad.abs().sum() > 0 for parameter in trainer.model.parameters())


def test_the_critic_reads_the_agents_instructions_before_the_hint(make_trainer, tiny_tokenizer):
    row = make_trainer(instructions="Ask first.").train_dataset[0]
    text = tiny_tokenizer.decode(row["chosen_ids"])
    assert text.startswith(f"<|system|>Ask first.\n\n{HINT.format(what='function', hidden=ROWS[0]['hidden'])}<|end|><|user|>")


def test_a_critic_reads_dialogues_with_the_agents_switch_for_thoughts(make_trainer, tiny_tokenizer):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = "{% if enable_thinking is defined %}(quiet){% endif %}" + tokenizer.chat_template
    for given, is_quiet in (({"reasoning": "none"}, True), ({}, False)):
        row = make_trainer(tokenizer=tokenizer, **given).train_dataset[0]
        assert tokenizer.decode(row["chosen_ids"]).startswith("(quiet)") is is_quiet


def test_the_forms_differ(make_trainer):
    losses = [t.compute_loss(t.model, _batch(t)).item() for t in (make_trainer(form=form, nll_coef=0.0) for form in FORMS)]
    assert abs(losses[0] - losses[1]) > 1e-3


@pytest.mark.parametrize("form", [*FORMS, SUM])
def test_the_reference_of_an_adapter_is_the_model_without_it(form, make_trainer):
    from peft import LoraConfig

    trainer = make_trainer(form=form, nll_coef=0.0, peft_config=LoraConfig(r=4, target_modules="all-linear"))
    assert trainer.compute_loss(trainer.model, _batch(trainer)).item() == pytest.approx(0.693147, abs=1e-5)
    assert trainer._metrics["train"]["rewards/accuracies"] == [0.0]  # nothing is told apart yet
    with torch.no_grad():
        for name, parameter in trainer.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(3))
    trainer.model.eval()
    loss = trainer.compute_loss(trainer.model, _batch(trainer)).item()
    model = trainer.model

    def reference(ids):
        with model.disable_adapter():
            return _log_probs(model, ids)

    expected = _slow_loss(trainer, model, reference, form, 0.0)
    assert loss == pytest.approx(expected, abs=2e-6)
    assert abs(expected - 0.6931) > 0.01


def test_a_critic_that_starts_from_an_adapter_is_compared_with_that_adapter(make_trainer, make_tiny_model):
    from peft import LoraConfig, get_peft_model

    start = get_peft_model(make_tiny_model(1), LoraConfig(r=4, target_modules="all-linear"))
    with torch.no_grad():
        for name, parameter in start.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(3))
    trainer = make_trainer(model=start, nll_coef=0.0)
    assert trainer.compute_loss(trainer.model, _batch(trainer)).item() == pytest.approx(0.693147, abs=1e-5)
    with torch.no_grad():
        for name, parameter in trainer.model.named_parameters():
            if "lora_B.default" in name:
                parameter.zero_()
    assert abs(trainer.compute_loss(trainer.model, _batch(trainer)).item() - 0.693147) > 1e-3


BY_TURN = [
    {**row, "hidden": {side: [row["hidden"]] * (len(row[side]) // 2) for side in ("chosen", "rejected")}} for row in ROWS
]


def test_what_the_turns_of_a_pair_have_in_common_is_read_once(make_trainer, make_tiny_model):
    from peft import LoraConfig

    trainer, read = make_trainer(BY_TURN[:1]), []
    trainer.model.get_input_embeddings().register_forward_hook(lambda module, given, output: read.append(given[0].numel()))
    batch = _batch(trainer)
    rows = [
        row[:count] for row, count in zip(batch["input_ids"].tolist(), batch["attention_mask"].sum(dim=1).tolist(), strict=True)
    ]
    trainer._log_probs(trainer.model, batch)
    assert read == [len({tuple(row[:end]) for row in rows for end in range(1, len(row) + 1)})]
    for given in ({}, {"peft_config": LoraConfig(r=4, target_modules="all-linear")}):
        trainer = make_trainer(BY_TURN, **given)
        both = _batch(trainer)
        assert trainer._groups(trainer.model, both)["groups"].tolist() == [0, 0, 0, 1, 1] * 2
        assert trainer._groups(make_tiny_model(1), both) == {}  # has another head
        assert trainer._groups(trainer.model, _batch(make_trainer())) == {}


def test_only_the_agents_tokens_are_scored(make_trainer, tiny_tokenizer):
    trainer = make_trainer()
    batch = _batch(trainer)
    assert "parts" not in batch  # each dialogue is a row
    dialogues = [row[side] for side in ("chosen", "rejected") for row in ROWS]
    for dialogue, ids, turns in zip(dialogues, batch["input_ids"], batch["turn_ids"], strict=True):
        said = "".join(m["content"] + "<|end|>" for m in dialogue if m["role"] == "assistant")
        assert tiny_tokenizer.decode(ids[turns > 0]) == said
        assert HINT.split("{")[0] in tiny_tokenizer.decode(ids[turns == 0])
    log_probs = trainer._log_probs(trainer.model, batch)
    is_action = batch["turn_ids"][:, 1:] > 0
    assert (log_probs[is_action] < 0).all() and (log_probs[~is_action] == 0).all()


def test_a_critic_without_hidden_information_is_told_nothing(make_trainer, tiny_tokenizer):
    trainer = make_trainer([{**row, "hidden": ""} for row in ROWS])
    assert not any("<|system|>" in text for text in tiny_tokenizer.batch_decode(_batch(trainer)["input_ids"]))


def test_long_pairs_are_left_out_whole(make_trainer, caplog):
    def skipped(rows, longest):
        left_out = len(rows) - len(make_trainer(rows, max_length=longest).train_dataset)
        assert not left_out or f"{left_out} of {len(rows)} pairs have more than {longest} tokens" in caplog.text
        return left_out

    length = max(len(row[f"{side}_ids"]) for row in make_trainer().train_dataset for side in ("chosen", "rejected"))
    assert skipped(ROWS, length) == 0 and skipped(ROWS, length - 1) == 1
    by_turn = {**ROWS[1], "hidden": {"chosen": ["short"], "rejected": ["short", "a much longer text that was hidden later"]}}
    rows = [with_hidden_by_turn(ROWS[1]), by_turn]
    lengths = make_trainer(rows).train_dataset[1]["rejected_lengths"]
    assert lengths[0] < lengths[1] and skipped(rows, lengths[1] - 1) == 1
    with pytest.raises(ColBenchError, match=r"^All 2 pairs have more than 5 tokens; raise the maximum length of the stage\.$"):
        make_trainer(max_length=5)


def test_misuse_is_refused(make_trainer):
    with pytest.raises(ValueError, match=r"^`form` must be one of \('paper', 'released', 'sum'\), got 'other'\.$"):
        make_trainer(form="other")


@pytest.mark.parametrize("form", [*FORMS, SUM])
def test_torch_and_plain_credit_agree(form):
    rng = random.Random(0)
    turns = [[0, 0, 1, 1, 0, 2, 2, 2], [0, 1, 1, 1, 1, 1, 0, 0], [0, 1, 0, 2, 0, 3, 3, 0]]
    ratios = [[rng.gauss(0, 1) for _ in row] for row in turns]
    values, ids = torch.tensor(ratios, dtype=torch.float64), torch.tensor(turns)
    plain = [turn_advantages(r, t) for r, t in zip(ratios, turns, strict=True)]
    for row, expected in zip(torch_advantages(values, ids, 3).tolist(), plain, strict=True):
        assert row == pytest.approx(expected + [0.0] * (3 - len(expected)))
    expected = [trajectory_score(r, t, form) for r, t in zip(ratios, turns, strict=True)]
    assert torch_scores(values, ids, form).tolist() == pytest.approx(expected)


@pytest.mark.skipif(not REFERENCE_FILE.exists(), reason="needs ../shared/reference/credit_reference.py beside the repository")
def test_credit_equals_the_project_reference():
    spec = importlib.util.spec_from_file_location("credit_reference", REFERENCE_FILE)
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    rng = random.Random(1)
    for _ in range(20):
        sides = []
        for _ in range(2):
            turns = [[(rng.gauss(-1, 1), rng.gauss(-1, 1)) for _ in range(rng.randint(1, 6))] for _ in range(rng.randint(1, 4))]
            sides.append(([[a for a, _ in t] for t in turns], [[b for _, b in t] for t in turns]))
        flat = [[a - b for p, q in zip(*side, strict=True) for a, b in zip(p, q, strict=True)] for side in sides]
        ids = [[i + 1 for i, p in enumerate(side[0]) for _ in p] for side in sides]
        assert turn_advantages(flat[0], ids[0]) == pytest.approx(reference.sweet_turn_advantages(*sides[0]))
        for form, name in (("paper", "paper"), ("released", "code")):
            scores = [trajectory_score(f, i, form) for f, i in zip(flat, ids, strict=True)]
            assert bradley_terry_loss(*scores, BETA) == pytest.approx(reference.sweet_critic_loss(*sides, BETA, name))


def test_what_is_logged_are_means_over_the_pairs_of_a_batch(make_trainer, make_tiny_model):
    trainer = make_trainer(nll_coef=0.01)
    model, reference = make_tiny_model(1).double(), make_tiny_model(2).double()
    scores, nlls = {"chosen": [], "rejected": []}, []
    for row in trainer.train_dataset:
        for side, own in scores.items():
            ids, turns = row[f"{side}_ids"], row[f"{side}_turn_ids"]
            log_probs = _log_probs(model, ids)
            ratios = [a - b for a, b in zip(log_probs, _log_probs(reference, ids), strict=True)]
            own.append(BETA * trajectory_score(ratios, turns, "paper"))
            nlls += [-x for x, turn in zip(log_probs, turns, strict=True) if turn and side == "chosen"]
    margins = [a - b for a, b in zip(*scores.values(), strict=True)]
    expected = {
        "rewards/chosen": sum(scores["chosen"]) / 2,
        "rewards/rejected": sum(scores["rejected"]) / 2,
        "rewards/margins": sum(margins) / 2,
        "rewards/accuracies": sum(margin > 0 for margin in margins) / 2,
        "nll": sum(nlls) / len(nlls),
    }
    for mode in ("train", "eval"):
        getattr(trainer.model, mode)()
        trainer.compute_loss(trainer.model, _batch(trainer))
        logged = {name: values for name, values in trainer._metrics[mode].items() if name in expected}
        assert {name: value for name, (value,) in logged.items()} == pytest.approx(expected, abs=1e-5)
        assert len(logged) == len(expected)


def test_references_that_were_asked_ahead_stand_at_the_tokens_they_belong_to(make_trainer):
    trainer = make_trainer()
    batch = _batch(trainer)
    whole = trainer._reference_log_probs(trainer.ref_model, batch)
    rows = trainer._reference_rows(trainer.ref_model, batch)
    assert [set(row) for row in rows] == [{"chosen_reference", "rejected_reference"}] * 2 and not whole.requires_grad
    with_references = [{**encoded, **row} for encoded, row in zip(trainer.train_dataset, rows, strict=True)]
    again = trainer.data_collator(with_references)
    assert torch.equal(again["reference_log_probs"], whole)
    losses = [trainer.compute_loss(trainer.model, one).item() for one in (batch, again)]
    assert losses[0] == pytest.approx(losses[1])
    alone, own = trainer.data_collator(with_references[:1]), batch["turn_ids"][[0, 2], 1:] > 0
    assert alone["reference_log_probs"][alone["turn_ids"][:, 1:] > 0].tolist() == whole[[0, 2]][own].tolist()
    shifted = {**again, "reference_log_probs": again["reference_log_probs"] * 0.5}
    assert abs(trainer.compute_loss(trainer.model, shifted).item() - losses[0]) > 1e-3


def test_a_batch_is_padded_where_no_token_is_scored(make_trainer):
    trainer = make_trainer(pad_to_multiple_of=64)
    batch = _batch(trainer)
    assert batch["input_ids"].shape == batch["turn_ids"].shape == (4, batch["input_ids"].shape[1])
    assert batch["input_ids"].shape[1] % 64 == 0
    rows = [(row[f"{side}_ids"], row[f"{side}_turn_ids"]) for side in ("chosen", "rejected") for row in trainer.train_dataset]
    for (ids, turns), got, got_turns, mask in zip(
        rows, batch["input_ids"].tolist(), batch["turn_ids"].tolist(), batch["attention_mask"].tolist(), strict=True
    ):
        left = len(got) - len(ids)
        assert got == ids + [trainer.processing_class.pad_token_id] * left
        assert got_turns == turns + [0] * left and mask == [1] * len(ids) + [0] * left
    assert torch.equal(batch["completion_mask"], (batch["turn_ids"] > 0).long())


def test_the_columns_of_turns_and_references_reach_the_collator(make_trainer):
    trainer = make_trainer()
    trainer._set_signature_columns_if_needed()
    columns = trainer._signature_columns
    own = [f"{side}_{column}" for side in ("chosen", "rejected") for column in ("turn_ids", "lengths", "reference")]
    assert {*own, "chosen_ids", "rejected_ids"} <= {*columns} and len(columns) == len({*columns})
    kinds = {name: column.feature.dtype for name, column in trainer.train_dataset.features.items()}
    assert {kinds[name] for name in ("chosen_ids", "rejected_ids", "chosen_lengths")} == {"int32"}, "read in every epoch"
    assert kinds["chosen_turn_ids"] == kinds["rejected_turn_ids"] == "int16"


def test_a_trainer_of_pairs_starts_from_a_model_which_is_the_reference_too(tiny_model_folder, tmp_path):
    model = ModelArguments(model=str(tiny_model_folder), system_prompt="Ask first.", reasoning="none")
    given = {"output_dir": str(tmp_path / "out"), "use_cpu": True, "bf16": False, "report_to": [], "learning_rate": 3e-5}
    folder = tmp_path / "critic"
    trainer = pair_trainer(str(tiny_model_folder), model, iter(ROWS), folder, given, form="released", beta=0.4, nll_coef=0.3)
    args = trainer.args
    assert (args.form, args.beta, args.nll_coef, args.learning_rate) == ("released", 0.4, 0.3, 3e-5)
    assert (args.instructions, args.reasoning) == ("Ask first.", "none") and args.precompute_ref_log_probs is True
    assert len(trainer.train_dataset) == len(ROWS) and "chosen_reference" in trainer.train_dataset.column_names


def test_padding_falls_back_on_the_end_token_and_is_missed_where_there_is_none():
    assert pad_id(SimpleNamespace(pad_token_id=0, eos_token_id=5)) == 0
    assert pad_id(SimpleNamespace(pad_token_id=None, eos_token_id=5)) == 5
    with pytest.raises(ValueError, match="^The tokenizer has neither a padding nor an end token; set `tokenizer.pad_token`.$"):
        pad_id(SimpleNamespace(pad_token_id=None, eos_token_id=None))


def test_the_last_turn_may_be_context_alone(make_trainer):
    plain, skipping = make_trainer().train_dataset, make_trainer(skips_last=True).train_dataset
    for before, after in zip(plain, skipping, strict=True):
        for side in ("chosen", "rejected"):
            ids, turns = (before[f"{side}_{column}"] for column in ("ids", "turn_ids"))
            assert after[f"{side}_ids"] == ids and after[f"{side}_turn_ids"] == [
                0 if turn == max(turns) else turn for turn in turns
            ]
    trainer = make_trainer(ROWS[1:], skips_last=True)  # the better dialogue has one turn alone: nothing of it is scored
    assert math.isfinite(trainer.compute_loss(trainer.model, _batch(trainer)).item())


def test_the_gap_of_a_turn_is_the_better_dialogues_mean_advantage_minus_the_worse_ones(make_trainer):
    trainer = make_trainer()
    trainer.compute_loss(trainer.model, _batch(trainer))
    logged = {
        name: values
        for name, values in trainer._metrics["train" if trainer.model.training else "eval"].items()
        if name.startswith(GAP)
    }
    advantages = {side: defaultdict(list) for side in ("chosen", "rejected")}
    for row in trainer.train_dataset:
        for side, of_turns in advantages.items():
            ids, turns = row[f"{side}_ids"], row[f"{side}_turn_ids"]
            model, reference = (_log_probs(of, ids) for of in (trainer.model, trainer.ref_model))
            for turn in sorted({*turns} - {0}):
                of_turns[turn].append(np.mean([a - b for a, b, at in zip(model, reference, turns, strict=True) if at == turn]))
    both = sorted(advantages["chosen"].keys() & advantages["rejected"].keys())
    assert [*logged] == [f"{GAP}{turn}" for turn in both] and len(both) >= 1
    for turn in both:
        expected = np.mean(advantages["chosen"][turn]) - np.mean(advantages["rejected"][turn])
        assert logged[f"{GAP}{turn}"] == [pytest.approx(expected, abs=1e-4)]


def test_turns_count_over_the_rows_of_a_trajectory():
    turn_ids = torch.tensor([[0, 1, 0, 2], [1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    counted = turns_of_trajectories(turn_ids, torch.tensor([0, 0, 1, 1]))
    assert counted.tolist() == [[0, 1, 0, 2], [3, 3, 0, 0], [1, 0, 0, 0], [0, 2, 0, 0]]
