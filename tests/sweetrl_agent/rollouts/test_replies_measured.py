"""Leaks of the human while an agent is trained: they are metrics, and a limit ends the run, which a higher one resumes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from colbench_gym.files import read_rows
from colbench_gym.simulators import Simulator
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.rollouts.replies_measured import LeakError, refuse_leak, reply_means
from sweetrl_agent.train import main
from tests.words import words

SETTINGS = {
    "tasks": "embedded:train[:4]", "test_tasks": "embedded:test[:1]", "unseen_tasks": "", "simulator": f"{__name__}:Gossip", "sft_dialogues": 0,
    "system_prompt": "", "dtype": "float32", "max_new_tokens": 4, "max_turns": 2, "num_tasks": 2, "trajectories_per_task": 2, "threads": 1,
    "sandbox": "embedded", "algorithm": "grpo", "grpo.iterations": 2, "grpo.tasks": 2, "grpo.group": 2, "eval_tasks": 1,
}  # fmt: skip


class Gossip(Simulator):
    """Pastes the function that it is told."""

    def reply(self, task, dialogue, seed):
        return task.hidden.reference


def _episode(task, outcome="wrong"):
    return Episode(task, 0, [], [Turn("x")], {"outcome": outcome}, 0.0)


def test_means_are_over_the_episodes_that_have_a_measure():
    measured = {"a": {"leak": 0.5, "wishes_heard": None}, "b": {"leak": 0.0, "wishes_heard": 1.0}, "c": {"leak": 1.0}}
    record = SimpleNamespace(measures=lambda episode, task: measured[task])
    episodes = [_episode("a"), _episode("b"), _episode("c", "void")]
    assert reply_means(record, episodes, {name: name for name in measured}) == {"leak": 0.25, "wishes_heard": 1.0}
    assert reply_means(SimpleNamespace(measures=lambda *_: {}), episodes, dict.fromkeys("abc")) == {}
    refuse_leak("collect", {"leak": 0.25}, 0.25)
    refuse_leak("collect", {}, 0.0)
    with pytest.raises(
        LeakError,
        match=r"^collect: the replies of the simulated human reveal 25.0% of the hidden code, and `--max_leak` is 20.0%",
    ):
        refuse_leak("collect", {"leak": 0.25}, 0.2)


def test_on_policy_training_ends_after_an_iteration_that_leaks_and_a_higher_limit_resumes_it(
    tiny_model_folder, tmp_path, capsys
):
    given = {**SETTINGS, "model": tiny_model_folder, "output": tmp_path / "run"}
    for _ in range(2):  # resuming with the same limit does not go on
        assert main(words({**given, "max_leak": 0.3})) == 2
        assert "grpo, iteration 1: the replies of the simulated human reveal " in capsys.readouterr().err
    assert main(words(given)) == 0
    rows = [row for row in read_rows(tmp_path / "run/metrics.jsonl") if row["stage"] == "grpo"]
    assert [row["step"] for row in rows] == [1, 2] and all(row["leak"] > 0.3 and 0 <= row["wishes_heard"] <= 1 for row in rows)


def test_collection_that_leaks_ends_the_run(tiny_model_folder, tmp_path, capsys, caplog):
    given = {**SETTINGS, "model": tiny_model_folder, "output": tmp_path / "run", "algorithm": "rft", "stage": "collect"}
    given = {name: value for name, value in given.items() if not name.startswith("grpo")}
    assert main(words({**given, "max_leak": 0.3})) == 2
    assert "collect: the replies of the simulated human reveal " in capsys.readouterr().err
    assert main(words(given)) == 0
    (row,) = (row for row in read_rows(tmp_path / "run/metrics.jsonl") if row["stage"] == "collect")
    assert row["leak"] > 0.3 and row["step"] == 4
    assert f"collect: the replies reveal {row['leak']:.1%} of the hidden code (`--max_leak` 1)" in caplog.text
