"""What may change in a begun run, and what an algorithm's own settings change: nothing that others share."""

from __future__ import annotations

import pytest
import yaml

from sweetrl_agent.algorithms.grpo import GRPO
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.config.pipeline import STAGES, later_users, stages_of
from sweetrl_agent.core.stage import Stage


def test_the_reference_may_change_until_candidates_are_ranked(make_run):
    run = make_run(**{"sweet.reference_hidden": False})
    for name in ("critic", "candidates"):
        with run.stage(STAGES[name]):
            pass
    assert make_run(**{"sweet.reference_hidden": True}).config.algorithm.config.reference_hidden
    with pytest.raises(ValueError, match=r"\(sweet.form: 'paper' there, 'released' here\)"):
        make_run(**{"sweet.reference_hidden": True, "sweet.form": "released"})
    again = make_run(**{"sweet.reference_hidden": True})
    with again.stage(STAGES["rank"]):
        pass
    with pytest.raises(ValueError) as refused:
        make_run(**{"sweet.reference_hidden": False})
    assert str(refused.value) == (
        f"{run.folder} has other settings, and files were made with them "
        "(sweet.reference_hidden: True there, False here); "
        "give the same settings to resume that run, or another `--output` to start a new one."
    )


def test_the_ranking_of_a_critic_fixes_its_own_settings_alone(make_run):
    run = make_run(algorithm="no_normalisation")
    with run.stage(stages_of(run.algorithm)["rank no_normalisation"]):
        pass
    with pytest.raises(ValueError, match=r"\(no_normalisation.reference_hidden: False there, True here\)"):
        make_run(algorithm="no_normalisation", sweet={"reference_hidden": True})
    assert make_run(sweet={"reference_hidden": True}).config.algorithm.config.reference_hidden


def test_a_critic_that_is_new_to_a_folder_takes_the_candidates_that_are_there(make_run):
    given = {"sweet.num_states": 4, "sweet.critic_epochs": 2.0}
    with make_run(**given).stage(STAGES["candidates"]):
        pass
    run = make_run(algorithm="no_hidden", **{"sweet.num_states": 4, "sweet.critic_epochs": 3.0})
    assert {
        name: settings["num_states"] for name, settings in run.records.settings.items() if name in ("sweet", "no_hidden")
    } == {
        "sweet": 4,
        "no_hidden": 4,
    }


def test_a_critic_that_is_new_to_a_folder_may_not_have_other_candidates(make_run):
    with make_run(**{"sweet.num_states": 4}).stage(STAGES["candidates"]):
        pass
    with pytest.raises(ValueError, match=r"\(no_hidden.num_states: 4 there, 5 here\)"):
        make_run(algorithm="no_hidden", **{"sweet.num_states": 5})


def _scored(run, name):
    with run.stage(Stage(f"credit {name} 20", "", (), (f"{name}/credit_scores_20.jsonl",), algorithms=(name,))):
        run.path(name).mkdir()
        run.path(f"{name}/credit_scores_20.jsonl").write_text("{}")


def test_settings_of_scores_stay_where_candidates_were_scored_without_training(make_run):
    """Credit accuracy of a critic, or of an algorithm, that the run does not train: it has no stage of the critic's own."""
    _scored(make_run(algorithm="gain", gain={"gain_rule": "largest"}), "gain")
    with pytest.raises(ValueError, match=r"\(gain.gain_rule: 'largest' there, 'sum' here\)"):
        make_run(algorithm="gain")
    assert (
        make_run(algorithm="gain", gain={"gain_rule": "largest", "pairs_per_turn": 9}).config.algorithm.config.pairs_per_turn
        == 9
    )


def test_settings_of_a_rule_stay_where_it_gave_credit(make_run):
    _scored(make_run(algorithm="grpo", grpo={"clip": 0.1}), "grpo")
    with pytest.raises(ValueError, match=r"\(grpo.clip: 0.1 there, 0.2 here\)"):
        make_run(algorithm="grpo")


@pytest.mark.parametrize("setting", ["hint_turns", "shown_dialogues", "eval_tasks"])
def test_settings_of_the_evaluation_may_change_until_it_begins(setting, make_run):
    with make_run().stage(STAGES["actor"]):
        pass
    with make_run(**{setting: 3}).stage(STAGES["evaluate"]):
        pass
    make_run(**{setting: 3}).path("hint_reading.json").write_text("{}")
    with pytest.raises(ValueError, match=rf"\({setting}: 3 there, 2 here\)"):
        make_run(**{setting: 2})


def test_the_settings_of_an_algorithm_stay_recorded_when_another_is_trained_in_the_folder(make_run):
    make_run(algorithm="grpo", grpo={"clip": 0.1})
    run = make_run()
    for settings in (run.records.settings, yaml.safe_load(run.path("config.yaml").read_text())):
        assert settings["grpo"]["clip"] == 0.1 and settings["sweet"]["num_states"] == 800
    with make_run(algorithm="grpo", grpo={"clip": 0.1}).stage(stages_of(GRPO())["grpo"]):
        pass
    assert make_run().algorithm.name == "sweet"
    with pytest.raises(ValueError, match=r"\(grpo.clip: 0.1 there, 0.2 here\)"):
        make_run(algorithm="grpo")


def test_a_run_with_other_settings_has_the_same_files_and_records(make_run):
    run = make_run()
    other = run.with_settings({"temperature": 0.5, "history": 0})
    assert (other.config.model.temperature, run.config.model.temperature) == (0.5, 0.8)
    changed = {name for name, value in other.config.settings().items() if run.config.settings()[name] != value}
    assert changed == {"temperature", "history"}
    assert other.folder == run.folder and other.tasks == run.tasks
    with other.stage(STAGES["critic"]):
        pass
    assert run.is_done("critic")


def test_changed_settings_are_checked_like_given_ones(make_run):
    with pytest.raises(
        ValueError, match=r"^`sweet.critic_batch` must be a multiple of `sweet.critic_micro_batch`, got 3 and 8\.$"
    ):
        make_config({"sweet.critic_batch": 3})
    with pytest.raises(ValueError, match="^`temperature` must be at least 0.01, got 0.$"):
        make_run().with_settings({"temperature": 0})


@pytest.mark.parametrize(("setting", "value"), [("num_tasks", 2), ("eval_every", 3), ("eval_every_tasks", 5)])
def test_settings_of_stages_that_an_algorithm_does_not_have_stay_from_its_own_on(setting, value, make_run):
    """It plays training tasks itself, and evaluates in training; `collect` and `evaluate` are not the first to read these settings."""
    run = make_run(algorithm="grpo")
    assert make_run(algorithm="grpo", **{setting: value}).config.run is not None
    with make_run(algorithm="grpo").stage(stages_of(run.algorithm)["grpo"]):
        pass
    with pytest.raises(ValueError, match=rf"\({setting}: "):
        make_run(algorithm="grpo", **{setting: value})
    assert make_run(algorithm="grpo", eval_episodes=3).config.evaluation.eval_episodes == 3, "of the evaluation at the end"
    make_run(algorithm="grpo", eval_episodes=3, min_difference=0.2, trajectories_per_task=2)  # what it does not read


@pytest.mark.parametrize("setting", ["seed", "temperature", "max_turns"])
def test_settings_stay_where_there_is_no_sft(setting, make_run):
    with make_run(model="hub/name", sft_dialogues=0).stage(STAGES["collect"]):
        pass
    with pytest.raises(ValueError, match=rf"\({setting}: "):
        make_run(model="hub/name", sft_dialogues=0, **{setting: 2})


def test_settings_of_a_critic_that_is_not_trained_stay_from_its_ranking_on(make_run):
    run = make_run(algorithm="untrained")
    with run.stage(stages_of(run.algorithm)["rank untrained"]):
        pass
    with pytest.raises(ValueError, match=r"\(untrained.critic_replies: True there, False here\)"):
        make_run(algorithm="untrained", untrained={"critic_replies": False})
    assert not make_run(sweet={"critic_replies": False}).config.algorithm.config.critic_replies, "sweet has ranked nothing"


@pytest.mark.parametrize("name", ["gain", "sweet", "rft"])
def test_void_episodes_are_played_again_until_a_stage_has_used_the_episodes(name, make_run):
    run = make_run(algorithm=name)
    with run.stage(STAGES["collect"]):
        pass
    assert "collect" in run._played()
    user = next(stage for stage in stages_of(run.algorithm).values() if "trajectories.jsonl" in stage.reads)
    with run.stage(user):
        pass
    assert "collect" not in run._played()


@pytest.mark.parametrize(
    ("algorithms", "setting", "users"),
    [
        (["initial", "grpo", "slinvit"], "slinvit.samples", ["evaluate slinvit"]),
        (["initial", "grpo", "sweet"], "num_tasks", ["grpo"]),
        (["initial"], "num_tasks", []),
        (["initial", "sweet_online"], "min_best", ["sweet_online"]),
        (["initial", "archer_offline"], "num_tasks", []),
        (["random_actions", "ppo"], "temperature", []),
        (["initial", "sweet", "untrained"], "untrained.critic_replies", ["rank untrained", "actor untrained", "evaluate untrained"]),
        (["initial", "grpo", "sweet"], "sweet.critic_beta", []),
    ],
)  # fmt: skip
def test_later_stages_that_use_a_setting_are_those_of_the_algorithms_that_lack_its_own(algorithms, setting, users):
    config = make_config({}, algorithms)
    concerned = [config.algorithms[setting.partition(".")[0]]] if "." in setting else config.algorithms.values()
    found = [stage for algorithm in concerned for stage in later_users(algorithm, config, setting)]
    assert [stage for stage in found if stage != "evaluate"] == users


def test_settings_of_the_tasks_stay_where_any_agent_was_played_with_them(make_run):
    """An agent without a model has no SFT, and another one may come into its folder."""
    run = make_run(algorithm="ppo")
    with run.stage(stages_of(run.algorithm)["ppo"]):
        pass
    for name in ("ppo", "dqn"):
        with pytest.raises(ValueError, match=r"\(max_turns: "):
            make_run(algorithm=name, max_turns=7)
    make_run(algorithm="ppo", sft_epochs=3.0)


def test_episodes_that_an_algorithm_of_another_command_has_used_stay(make_run):
    run = make_run(algorithm="rft")
    for stage in (STAGES["collect"], stages_of(run.algorithm)["rft"]):
        with run.stage(stage):
            pass
    assert "collect" not in make_run(algorithm="gain")._played()
