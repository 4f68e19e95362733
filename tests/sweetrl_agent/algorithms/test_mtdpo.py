"""Multi-turn DPO: a pair of dialogues is scored by the sum over all tokens of the agent's turns, and by nothing hidden."""

from __future__ import annotations

import pytest
import torch

from colbench_gym.files import read_rows, write_rows
from sweetrl_agent.core.work import Lengths
from sweetrl_agent.critics.credit import SUM
from tests.sweetrl_agent.plain_credit import bradley_terry_loss

PAIR = {
    side: [{"role": "user", "content": "I need the total."}, {"role": "assistant", "content": text}]
    for side, text in (("chosen", "Round it?"), ("rejected", "I WANT TO ANSWER:\nsum(x)"))
}


class Built(Exception):
    """Ends the stage where the trainer would be built."""


def test_the_score_is_a_sum_over_tokens_and_nobody_is_told_the_reference(make_run, tiny_model_folder, monkeypatch):
    seen = {}

    def pair_trainer(model, arguments, pairs, folder, training, **loss):
        seen.update(loss, model=model, pairs=list(pairs), learning_rate=training["learning_rate"])
        raise Built

    monkeypatch.setattr("sweetrl_agent.trainers.critic.pair_trainer", pair_trainer)
    run = make_run(
        model=str(tiny_model_folder),
        sft_dialogues=0,
        dtype="float32",
        **{"mtdpo.beta": 0.7, "mtdpo.nll": 0.2, "mtdpo.learning_rate": 3e-5},
    )
    write_rows(run.path("outcome_pairs.jsonl"), [{**PAIR, "hidden": "def total(x): ..."}])
    with pytest.raises(Built):
        run.config.algorithms["mtdpo"].train(run)
    assert seen["form"] == "sum" and (seen["beta"], seen["nll_coef"], seen["learning_rate"]) == (0.7, 0.2, 3e-5)
    assert seen["pairs"] == [{**PAIR, "hidden": ""}] and seen["model"] == str(tiny_model_folder)


@pytest.mark.parametrize("history", [0, 2])
def test_an_agent_that_forgets_cannot_compare_whole_dialogues(history, make_run, tiny_model_folder):
    with pytest.raises(
        ValueError, match=rf"'mtdpo' compares whole dialogues, which the agent must read: take `--history -1`, got {history}\."
    ):
        make_run(model=str(tiny_model_folder), algorithm="mtdpo", history=history)


def test_the_trainer_that_is_built_compares_sums_over_all_tokens(make_run, tiny_model_folder, tiny_tokenizer, untrained):
    """With other weights than the reference's, the loss is that of the slow sums, and of no mean."""
    seen = untrained(0.5)
    run = make_run(
        model=str(tiny_model_folder),
        sft_dialogues=0,
        dtype="float32",
        **{"mtdpo.beta": 0.7, "mtdpo.nll": 0.2, "mtdpo.batch": 2, "mtdpo.epochs": 3.0, "mtdpo.max_length": 99},
    )
    write_rows(run.path("outcome_pairs.jsonl"), [{**PAIR, "hidden": "def total(x): ..."}])
    run.config.algorithms["mtdpo"].train(run)
    trainer = seen["trainer"]
    args, (row,) = trainer.args, trainer.train_dataset
    assert (args.form, args.beta, args.nll_coef, args.max_length) == (SUM, 0.7, 0.2, 99)
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps, args.num_train_epochs, args.seed) == (
        2,
        1,
        3.0,
        run.seed,
    )
    assert args.output_dir == str(run.path("mtdpo/agent/checkpoints")) and seen["folder"] == run.path("mtdpo/agent")
    assert seen["tokenizer"] is trainer.processing_class and read_rows(run.path("metrics.jsonl")) == [
        {"stage": "mtdpo", "loss": 0.5}
    ]
    assert seen["callbacks"] is run.callbacks
    assert tiny_tokenizer.decode(row["chosen_ids"]) == "<|user|>I need the total.<|end|><|assistant|>Round it?<|end|>"
    batch = trainer.data_collator([row])
    log_probs = trainer._log_probs(trainer.model, batch).detach()
    reference = torch.rand(log_probs.shape, generator=torch.Generator().manual_seed(0)) - 5.0
    loss = trainer._compute_loss(trainer.model, {**batch, "reference_log_probs": reference}, False).item()
    ratios, turns = (log_probs - reference).tolist(), batch["turn_ids"][:, 1:].tolist()
    chosen, rejected = (sum(r for r, t in zip(*side, strict=True) if t) for side in zip(ratios, turns, strict=True))
    nll = -sum(p for p, t in zip(log_probs[0].tolist(), turns[0], strict=True) if t) / sum(t > 0 for t in turns[0])
    assert loss == pytest.approx(bradley_terry_loss(chosen, rejected, 0.7) + 0.2 * nll, rel=1e-4)


def test_a_stage_that_is_trained_again_has_its_new_metrics_alone_and_thoughts_are_trained_on(
    make_run, tiny_model_folder, tiny_tokenizer, untrained
):
    run = make_run(model=str(tiny_model_folder), sft_dialogues=0, dtype="float32")
    for loss, thoughts in ((0.5, {}), (0.25, {"rejected_thoughts": ["<think>Why?</think>"]})):
        seen = untrained(loss)
        write_rows(run.path("outcome_pairs.jsonl"), [{**PAIR, "hidden": "", **thoughts}])
        run.config.algorithms["mtdpo"].train(run)
    assert read_rows(run.path("metrics.jsonl")) == [{"stage": "mtdpo", "loss": 0.25}]
    (row,) = seen["trainer"].train_dataset
    assert "<|assistant|>Round it?<|end|>" in tiny_tokenizer.decode(row["chosen_ids"])
    assert "<|assistant|><think>Why?</think>" in tiny_tokenizer.decode(row["rejected_ids"])
    seen = untrained(0.25)
    write_rows(run.path("outcome_pairs.jsonl"), [{**PAIR, "hidden": "", "chosen_cut": [True]}])
    run.config.algorithms["mtdpo"].train(run)
    (row,) = seen["trainer"].train_dataset
    own = [token for token, turn in zip(row["chosen_ids"], row["chosen_turn_ids"], strict=True) if turn]
    assert tiny_tokenizer.decode(own) == "Round it?"


def test_its_work_is_that_of_both_sides_of_the_pairs_and_of_their_reference(make_run):
    run = make_run(**{"mtdpo.batch": 2, "mtdpo.epochs": 3.0})
    write_rows(run.path("outcome_pairs.jsonl"), [{**PAIR, "hidden": ""}] * 4)
    lengths = Lengths(turns=6, request=20, agent=10, reply=5, hidden=30, source="assumed")
    work = run.config.algorithms["mtdpo"].work(run, lengths)["mtdpo"]
    assert (work.reads, work.read, work.trainings, work.trained, work.steps) == (2, 4 * 2 * 105, 6, 3 * 4 * 2 * 105, 6)
    assert (work.pass_tokens, work.pass_scored) == (2 * 2 * 105, 2 * 2 * 60)
