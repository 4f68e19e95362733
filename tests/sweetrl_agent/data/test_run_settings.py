"""What may change in a begun run, and what an algorithm's own settings change: nothing that others share."""

from __future__ import annotations

import pytest

from sweetrl_agent.algorithms.registry import find_algorithm
from sweetrl_agent.config.job import Config
from sweetrl_agent.config.pipeline import STAGES, stages_of


def test_the_reference_may_change_until_candidates_are_ranked(make_run):
    run = make_run(reference_hidden=False)
    for name in ("critic", "candidates"):
        with run.stage(STAGES[name]):
            pass
    assert make_run(reference_hidden=True).config.algorithms.reference_hidden
    with pytest.raises(ValueError, match=r"\(form: 'paper' there, 'released' here\)"):
        make_run(reference_hidden=True, form="released")
    again = make_run(reference_hidden=True)
    with again.stage(STAGES["rank"]):
        pass
    with pytest.raises(ValueError) as refused:
        make_run(reference_hidden=False)
    assert str(refused.value) == (
        f"{run.folder} has other settings, and files were made with them "
        "(reference_hidden: True there, False here); "
        "give the same settings to resume that run, or another `--output` to start a new one."
    )


def test_the_ranking_of_another_critic_fixes_the_reference_too(make_run):
    run = make_run(reference_hidden=False)
    with run.stage(stages_of(find_algorithm("no_normalisation"))["rank no_normalisation"]):
        pass
    with pytest.raises(ValueError, match=r"\(reference_hidden: False there, True here\)"):
        make_run(reference_hidden=True)


def test_a_run_with_other_settings_has_the_same_files_and_records(make_run):
    run = make_run()
    other = run.with_settings({"critic_epochs": 4.0, "pair_quantile": 0.5})
    assert (other.config.algorithms.critic_epochs, other.config.algorithms.pair_quantile) == (4.0, 0.5)
    assert (run.config.algorithms.critic_epochs, run.config.algorithms.pair_quantile) == (1.0, 0.2)
    changed = {name for name, value in other.config.settings().items() if run.config.settings()[name] != value}
    assert changed == {"critic_epochs", "pair_quantile"}
    assert other.folder == run.folder and other.tasks == run.tasks
    with other.stage(STAGES["critic"]):
        pass
    assert run.is_done("critic")


def test_changed_settings_are_checked_like_given_ones():
    with pytest.raises(ValueError, match=r"^`critic_batch` must be a multiple of `critic_micro_batch`, got 3 and 8\.$"):
        Config().with_settings({"critic_batch": 3})
