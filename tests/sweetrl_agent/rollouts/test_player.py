"""Episodes in files while services fail: what had ended is kept, and one task that fails is no failure of all."""

from __future__ import annotations

import json
import threading
from contextlib import closing, contextmanager
from functools import partial

import pytest

import sandboxes
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.errors import SimulatorError
from colbench_gym.evaluation.rows import RowFile, StoppedError
from colbench_gym.files import read_rows
from colbench_gym.simulators import Simulator
from colbench_gym.simulators.facts.scripted_human import ScriptedHuman
from colbench_gym.tasks import load_tasks
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.evaluation.steps import evaluation_step
from sweetrl_agent.rollouts import play as rollouts
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.rollouts.player import RolloutPlayer, play_rows
from sweetrl_agent.rollouts.scheduler import MOST_FAILED, ServiceDownError

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
        file = RowFile(tmp_path / name, label or {})
        by = RolloutPlayer(partial(player, simulator), NUM_ENVS, Episode.to_row, RunArguments(**settings))
        play_rows(file, episodes, by, "collect")
        return read_rows(file.path)

    return run


def test_a_server_that_dies_costs_nothing_that_had_ended(play, tmp_path):
    undisturbed = play(name="undisturbed.jsonl")
    path, kept = tmp_path / "trajectories.jsonl", tmp_path / "trajectories.unfinished.jsonl"
    message = (
        r"^\d+ episodes in a row are void\. The last error: the server of the human does not answer\. .* give the same command"
    )
    with pytest.raises(StoppedError, match=message):
        play(Down(len(EPISODES) + 20))  # two questions an episode: in the second shard
    assert read_rows(path) == undisturbed[: 2 * NUM_ENVS]
    first = [_key(row["row"]) for row in read_rows(kept)]
    assert first and not any(row["row"]["metrics"]["outcome"] == "void" for row in read_rows(kept))
    with pytest.raises(StoppedError):
        play(Down(0))  # still dead: what was kept stays
    assert [_key(row["row"]) for row in read_rows(kept)] == first
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
    with pytest.raises(StoppedError):
        play(Down(0), "down.jsonl", episodes=episodes)


def test_an_error_that_is_made_in_another_process_keeps_its_episodes():
    import pickle

    error = pickle.loads(
        pickle.dumps(ServiceDownError("down", {EpisodeKey("a"): Episode("a", 0, [], [], {"outcome": "passed"}, 1.0)}))
    )
    assert str(error) == "down" and list(error.played) == [EpisodeKey("a")]


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
    played = (STAGES["collect"], STAGES["evaluate"], evaluation_step(ALGORITHMS["rft"], ALGORITHMS))
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
