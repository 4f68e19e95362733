"""Multi-turn DPO: a pair of dialogues is scored by the sum over all tokens of the agent's turns, and by nothing hidden."""

from __future__ import annotations

import pytest

from sweetrl_agent.algorithms import mtdpo
from sweetrl_agent.data.files import write_rows

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

    monkeypatch.setattr(mtdpo, "pair_trainer", pair_trainer)
    run = make_run(model=str(tiny_model_folder), mtdpo_beta=0.7, mtdpo_nll=0.2, mtdpo_learning_rate=3e-5)
    write_rows(run.path("outcome_pairs.jsonl"), [{**PAIR, "hidden": "def total(x): ..."}])
    with pytest.raises(Built):
        mtdpo.MultiTurnDPO().train(run)
    assert seen["form"] == "sum" and (seen["beta"], seen["nll_coef"], seen["learning_rate"]) == (0.7, 0.2, 3e-5)
    assert seen["pairs"] == [{**PAIR, "hidden": ""}] and seen["model"] == str(tiny_model_folder)
