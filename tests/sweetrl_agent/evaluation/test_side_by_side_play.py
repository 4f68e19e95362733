"""`python -m sweetrl_agent.show`: two policies of a run on one task, side by side."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from colbench_gym.files import read_rows
from sweetrl_agent import show
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.evaluation.recorded_run import open_recorded
from sweetrl_agent.evaluation.side_by_side_play import Gains, columns, gains_of, play_both


def an_episode(texts, replies, success=0, outcome="wrong"):
    messages = [{"role": "user", "content": "A fee, please."}]
    for text, reply in zip(texts, [*replies, None], strict=True):
        messages += [{"role": "assistant", "content": text}, *([{"role": "user", "content": reply}] if reply else [])]
    return Episode("t", 0, messages, [Turn(text) for text in texts], {"outcome": outcome, "success": success}, 0.0)


def test_turns_stand_beside_each_other_with_their_gain():
    left = an_episode(["Is there a fee?", "def f():\n    return 1"], ["Yes, 7."])
    right = an_episode(["A cap?", "A fee that is long enough to be wrapped into lines?", "7"], ["No.", "Yes."], 1, "passed")
    lines = columns({"initial": left, "trained": right}, Gains([[4.25, 0.0], [-0.5, 3.0, 0.0]], 2.75), 63)
    assert lines[0] == "human  A fee, please." and lines[2].startswith("INITIAL") and lines[2].endswith("| TRAINED")
    assert (
        "agent  Is there a fee?         | agent  A cap?" in lines
        and " gain  +4.2 nats               |  gain  -0.5 nats" in lines
    )
    assert any(line.startswith("           return 1") for line in lines)  # a program keeps its lines
    assert any(line.startswith("  end  no success, wrong") for line in lines) and any(
        "end  success, passed" in line for line in lines
    )
    assert lines[-2].startswith("noise  2.8 nats: smaller gains say nothing") and max(map(len, lines)) <= 63


def test_agents_of_a_team_have_their_names():
    team = an_episode(["my half", "all of it"], ["My colleague: my half"])
    for message, agent in zip(team.messages, ("first", "first", "second", "second"), strict=True):
        message["agent"] = agent
    text = "\n".join(columns({"a": team, "b": team}, Gains([[], []], None), 80))
    assert "first  my half" in text and "to second  My colleague: my half" in text and "second  all of it" in text


def test_without_gains_and_on_a_narrow_screen_nothing_is_lost():
    one = an_episode(["Is\x1b[31m it so?", "x"], ["It is."])
    text = "\n".join(columns({"a": one, "b": one}, Gains([[], []], None), 5))
    assert "gain" not in text and "noise" not in text and "\x1b" not in text and text.count("It is.") == 2


def test_both_play_the_task_as_the_run_would_and_only_read_it(small_run, capsys):
    before = {path: path.stat().st_mtime_ns for path in sorted(small_run.rglob("*"))}
    assert show.main([str(small_run), "--width", "100"]) == 0
    said = capsys.readouterr().out
    assert "INITIAL" in said and "TRAINED" in said and " nats" in said and said.count("end  ") == 2
    assert {path: path.stat().st_mtime_ns for path in sorted(small_run.rglob("*"))} == before
    run = open_recorded(str(small_run), ["untrained", "gain"])
    task, algorithm = run.test[0], run.config.algorithms["untrained"]
    played = play_both(run, task, 0, {"initial": algorithm.load_initial(run), "trained": algorithm.load(run)})
    assert played["initial"].messages[0] == played["trained"].messages[0]
    again = play_both(run, task, 0, {"trained": algorithm.load(run)})
    assert again["trained"].messages == played["trained"].messages
    assert [len(of) for of in gains_of(run, [*played.values()]).of_turns] == [len(e.turns) for e in played.values()]
    (row, *_) = read_rows(small_run / "evaluation.jsonl")
    assert show.main([str(small_run), "--task", str(getattr(task, "public_id", task.id))]) == 0 and row["split"] == "test"


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--task", "99"], "a number below 1"), (["--task", "nope"], "'nope'"), (["--split", "novel"], "must be one of test")],
)
def test_a_task_that_does_not_exist_is_refused(small_run, capsys, words, says):
    assert show.main([str(small_run), *words]) == 2
    assert says in capsys.readouterr().err


def test_a_folder_without_a_run_is_refused(tmp_path, capsys):
    assert show.main([str(tmp_path)]) == 2
    assert "settings of a run" in capsys.readouterr().err


def test_gains_are_nats_whatever_the_noise_level_is(small_run):
    run = open_recorded(str(small_run), ["untrained", "gain"])
    episodes = [an_episode(["Is there a fee?", "x"], ["Add a fee of 7."])]
    episodes[0] = replace(episodes[0], hidden=run.test[0].hidden.reference)
    plain = gains_of(run, episodes)
    assert plain.noise is not None and plain.noise > 0
    for setting in ({"gain_noise": 0.9}, {"gain_threshold": 3.0}):
        gain = run.config.algorithms["gain"]
        run.config.algorithms = {**run.config.algorithms, "gain": gain.with_config(replace(gain.config, **setting))}
        assert gains_of(run, episodes) == plain and plain.of_turns[0][0] not in (0.0, 1.0)
    team = replace(episodes[0], turns=[replace(turn, agent=name) for turn, name in zip(episodes[0].turns, "ab", strict=True)])
    assert gains_of(run, [team]) == ([[]], None)


def test_a_run_without_a_trained_policy_is_refused(small_run, tmp_path, capsys):
    folder = tmp_path / "begun"
    shutil.copytree(small_run, folder)
    shutil.rmtree(folder / "untrained" / "policy")
    assert show.main([str(folder)]) == 2
    assert "has no trained policy of 'untrained' yet" in capsys.readouterr().err
