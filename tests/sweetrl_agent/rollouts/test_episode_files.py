"""Episodes in files while the world fails: what ended well is kept, too many void ones end the stage, and void ones are played again."""

from __future__ import annotations

import json
import threading
from contextlib import closing, contextmanager
from functools import partial

import pytest

import sandboxes
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.errors import ColBenchError, SimulatorError
from colbench_gym.simulators import Simulator
from colbench_gym.simulators.scripted import ScriptedHuman
from colbench_gym.tasks import load_tasks
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.data.files import read_rows
from sweetrl_agent.evaluation.steps import evaluation_step
from sweetrl_agent.rollouts import play as rollouts
from sweetrl_agent.rollouts.episode_files import LEAST_EPISODES, EpisodeFile
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.rollouts.scheduler import MOST_FAILED, WorldDownError

TASKS = load_tasks("embedded:train[:12]")
EPISODES = episodes_of([task.id for task in TASKS], 4)
NUM_ENVS = 12


class Asker:
    """Asks by its seed until its last turn."""

    def generate(self, dialogues, seeds):
        return [Utterance(f"What about limit {seed % 100}?", [3], [-0.5]) for seed in seeds]


class Down(Simulator):
    """A human whose server is down for good after so many replies."""

    def __init__(self, replies):
        self.left, self.lock = replies, threading.Lock()

    def reply(self, task, dialogue, seed):
        with self.lock:
            self.left -= 1
            if self.left < 0:
                raise SimulatorError("the server of the human does not answer")
        return ScriptedHuman().reply(task, dialogue, seed)


class FailsOn(Simulator):
    """A human who cannot talk about some tasks."""

    def __init__(self, task_ids):
        self.task_ids = task_ids

    def reply(self, task, dialogue, seed):
        if task.id in self.task_ids:
            raise SimulatorError("no words for it")
        return ScriptedHuman().reply(task, dialogue, seed)


@pytest.fixture(scope="module")
def sandbox():
    with sandboxes.make("embedded", workers=1) as sandbox:
        yield sandbox


@pytest.fixture
def play(sandbox, tmp_path):
    """Function: a human, settings -> the rows of a file that is gone on with."""

    @contextmanager
    def player(simulator, **given):
        env = ColBenchVectorEnv(
            num_envs=NUM_ENVS, autoreset_mode="disabled", tasks=TASKS, sandbox=sandbox, simulator=simulator, max_turns=3
        )
        with closing(env):
            yield lambda shard: next(rollouts.play(Asker(), env, shard, 0, "collect", **given))

    def run(simulator="scripted", name="trajectories.jsonl", label=None, episodes=EPISODES, **settings):
        file = EpisodeFile(tmp_path / name, Episode.to_row, label or {})
        file.play(episodes, NUM_ENVS, partial(player, simulator), RunArguments(**settings), "collect")
        return read_rows(file.path)

    return run


def test_a_server_that_dies_costs_nothing_that_had_ended(play, tmp_path):
    undisturbed = play(name="undisturbed.jsonl")
    path, kept = tmp_path / "trajectories.jsonl", tmp_path / "trajectories.unfinished.jsonl"
    message = (
        r"^\d+ episodes in a row are void\. The last error: the server of the human does not answer\. .* give the same command"
    )
    with pytest.raises(WorldDownError, match=message):
        play(Down(len(EPISODES) + 20))  # two questions an episode: in the second shard
    assert read_rows(path) == undisturbed[: 2 * NUM_ENVS]
    first = [_key(row["trajectory"]) for row in read_rows(kept)]
    assert first and not any(row["trajectory"]["metrics"]["outcome"] == "void" for row in read_rows(kept))
    with pytest.raises(WorldDownError):
        play(Down(0))  # still dead: what was kept stays
    assert [_key(row["trajectory"]) for row in read_rows(kept)] == first
    human = Down(10**6)
    assert play(human) == undisturbed
    assert path.read_bytes() == (tmp_path / "undisturbed.jsonl").read_bytes() and not kept.exists()
    assert 10**6 - human.left == 2 * (2 * NUM_ENVS - len(first))  # those that were kept were not asked about again


def test_a_server_that_refuses_one_task_is_not_down(play):
    """Its episodes follow each other, more of them than may fail in a row."""
    episodes = episodes_of([task.id for task in TASKS], 2 * MOST_FAILED)
    rows = play(FailsOn({TASKS[3].id}), episodes=episodes, max_void=1.0)
    void = [row["task_id"] for row in rows if row["metrics"]["outcome"] == "void"]
    assert void == [TASKS[3].id] * (2 * MOST_FAILED) and len(rows) == len(episodes)
    with pytest.raises(WorldDownError):
        play(Down(0), "down.jsonl", episodes=episodes)


def test_an_error_that_is_made_in_another_process_keeps_its_episodes():
    import pickle

    error = pickle.loads(
        pickle.dumps(WorldDownError("down", {EpisodeKey("a"): Episode("a", 0, [], [], {"outcome": "passed"}, 1.0)}))
    )
    assert str(error) == "down" and list(error.played) == [EpisodeKey("a")]


def test_too_many_void_episodes_end_the_stage_and_can_be_played_again(play):
    undisturbed = play(name="undisturbed.jsonl")
    failing = FailsOn({TASKS[0].id, TASKS[11].id})
    with pytest.raises(ColBenchError) as refused:
        play(failing)
    assert str(refused.value) == (
        "8 of 48 episodes are void: the simulator or the sandbox failed. `--max_void` allows 5%. The last error: no words for it. Fix it and "
        "give the same command with `--replay_void true` to play them again, or allow more."
    )
    with pytest.raises(ColBenchError, match="8 of 48 episodes are void"):
        play()  # again, with nothing left to play
    assert sum(row["metrics"]["outcome"] == "void" for row in play(max_void=0.2)) == 8
    with pytest.raises(ColBenchError, match="8 of 48"):
        play(failing, replay_void=True)
    assert play(replay_void=True) == undisturbed


def test_few_episodes_say_nothing(play):
    rows = play(FailsOn({TASKS[0].id}), episodes=EPISODES[: LEAST_EPISODES - 1])
    assert [row["metrics"]["outcome"] == "void" for row in rows] == [True] * 4 + [False] * (LEAST_EPISODES - 5)


def test_files_with_other_rows_keep_them(play, tmp_path):
    play(FailsOn({TASKS[0].id}), "evaluation.jsonl", {"agent": "a"}, max_void=1.0)
    both = play("scripted", "evaluation.jsonl", {"agent": "b"}, max_void=1.0)
    void = [row for row in both if row["metrics"]["outcome"] == "void"]
    assert len(both) == 2 * len(EPISODES) and {row["agent"] for row in void} == {"a"}
    again = play("scripted", "evaluation.jsonl", {"agent": "a"}, replay_void=True)
    assert [{**row, "agent": "b"} for row in again[: len(EPISODES)]] == again[len(EPISODES) :] == both[len(EPISODES) :]
    with pytest.raises(WorldDownError):
        play(Down(80), "evaluation.jsonl", {"agent": "c"})
    labels = [row["label"] for row in read_rows(tmp_path / "evaluation.unfinished.jsonl")]
    assert labels and all(label == {"agent": "c"} for label in labels)


def test_only_the_address_and_the_key_of_the_human_may_change(make_run):
    def human(**changed):
        given = {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1", "api_key_env": "A", **changed}
        return json.dumps(given)

    with make_run(simulator=human()).stage(STAGES["sft"]):
        pass
    elsewhere = make_run(simulator=human(base_url="http://127.0.0.1:2/v1", api_key_env="B"))
    assert "127.0.0.1:2" in elsewhere.config.task.simulator
    for other in (human(model="n"), human(temperature=1.0), "scripted"):
        with pytest.raises(ValueError, match=r"\(simulator: "):
            make_run(simulator=other)


def test_stages_are_opened_again_for_void_episodes_unless_something_was_made_of_them(make_run):
    run = make_run()
    played = (STAGES["collect"], STAGES["evaluate"], evaluation_step("rft"))
    for stage in played:
        with run.stage(stage):
            pass
    assert make_run().is_done("collect")
    again = make_run(replay_void=True)
    again.prepare(played, again.find_invalid(played))
    assert not any(again.is_done(stage.name) for stage in played)
    for stage in (*played, STAGES["pairs"]):
        with again.stage(stage):
            pass
    again = make_run(replay_void=True)
    again.prepare(played, again.find_invalid(played))
    assert again.is_done("collect") and not again.is_done("evaluate")


def _key(row):
    return row["task_id"], row["episode"]
