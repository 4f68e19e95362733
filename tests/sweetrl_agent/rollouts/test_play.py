"""Episodes in batches: independent of each other, void ones apart, and actors that see nothing hidden."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

import sandboxes
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.errors import ColBenchError, SimulatorError
from colbench_gym.evaluation.summary import summarize
from colbench_gym.simulators import Simulator
from colbench_gym.tasks import load_tasks
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.core.hint import HINT
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.data.pairs import outcome_pairs
from sweetrl_agent.envs.colbench_backend import BackendRecord
from sweetrl_agent.evaluation.held_out import row_of
from sweetrl_agent.policies.continuous import ContinuousTransformersPolicy
from sweetrl_agent.policies.utterances import Speaker
from sweetrl_agent.rollouts.play import episodes_of, play

TASKS = load_tasks("embedded:train[:4]")
MAX_TURNS = 4


class Asker:
    """Asks by its seed, sometimes answers; keeps every prompt."""

    def __init__(self):
        self.prompts = []

    def generate(self, dialogues, seeds):
        self.prompts += [list(dialogue) for dialogue in dialogues]
        return [self._say(dialogue, seed) for dialogue, seed in zip(dialogues, seeds, strict=True)]

    def _say(self, dialogue, seed):
        if seed % 3 == 0:
            return Utterance("I WANT TO ANSWER:\n```python\ndef f(x):\n    return x\n```", [1, 2], [-0.1234567, -1.0])
        return Utterance(f"What about rounding, empty input, or limit {seed % 100}?", [3], [-0.5])


class Fails(Simulator):
    """A human that is down for one task."""

    def __init__(self, task_id):
        self.task_id = task_id

    def reply(self, task, dialogue, seed):
        if task.id == self.task_id:
            raise SimulatorError("down")
        return "Yes."


@pytest.fixture(scope="module")
def sandbox():
    """The embedded sandbox."""
    with sandboxes.make("embedded", workers=1) as sandbox:
        yield sandbox


@pytest.fixture
def run(sandbox):
    """Function: episodes, number of sub-environments -> trajectories."""

    def run(episodes, num_envs, policy=None, simulator="scripted", **settings):
        env = ColBenchVectorEnv(
            num_envs=num_envs, autoreset_mode="disabled", tasks=TASKS, sandbox=sandbox, simulator=simulator, max_turns=MAX_TURNS
        )
        try:
            return [t for batch in play(policy or Asker(), env, episodes, 0, "collect", **settings) for t in batch]
        finally:
            env.close()

    return run


EPISODES = episodes_of([task.id for task in TASKS], 2)


def test_episodes_stand_in_the_order_of_the_tasks():
    assert episodes_of(["a", "b"], 2) == [EpisodeKey("a", 0), EpisodeKey("a", 1), EpisodeKey("b", 0), EpisodeKey("b", 1)]


@pytest.mark.parametrize("num_envs", [1, 3, 20])
def test_an_episode_does_not_depend_on_its_neighbours(num_envs, run):
    expected = [t.to_row() for t in run(EPISODES, 8)]
    assert [t.to_row() for t in run(EPISODES, num_envs)] == expected
    backwards = [t.to_row() for t in run(EPISODES[::-1], num_envs)]
    assert backwards[::-1] == expected


def test_trajectories_hold_what_was_said(run):
    for episode, key in zip(run(EPISODES, 4), EPISODES, strict=True):
        assert episode.key == key
        assert 1 <= len(episode.turns) <= 4
        said = [message["content"] for message in episode.messages if message["role"] == "assistant"]
        assert len(said) == len(episode.turns)
        assert len(episode.prefix(1)) == 1
        assert episode.prefix(1)[0]["role"] == "user"
        assert [m["role"] for m in episode.prefix(len(said))][-1] == "user"
        assert episode.reward == episode.metrics["success"] or episode.reward == 0.0
        assert [turn.reward for turn in episode.turns] == [*[0.0] * (len(said) - 1), episode.reward]


def test_a_trajectory_survives_its_row(run):
    for episode in run(EPISODES[:2], 2):
        row = episode.to_row()
        assert Episode.from_row(row).to_row() == row
    with pytest.raises(ColBenchError, match=r"^Expected a trajectory row of schema 3, got 0; collect it again\.$"):
        Episode.from_row({**row, "schema": 0})


def test_void_episodes_enter_neither_pairs_nor_means(run):
    failing = TASKS[1].id
    trajectories = run(EPISODES, 3, simulator=Fails(failing))
    void = [t for t in trajectories if t.is_void]
    assert void
    assert {t.task_id for t in void} == {failing}
    assert failing not in {row["task_id"] for row in outcome_pairs([t for t in trajectories if t.is_void], 0.0)}
    by_id = {task.id: task for task in TASKS}
    score = summarize([row_of(t, by_id[t.task_id], BackendRecord()) for t in trajectories])
    assert (score["n"], score["void"]) == (len(trajectories) - len(void), len(void))


def test_the_actor_sees_nothing_hidden(run):
    policy = Asker()
    run(EPISODES, 3, policy)
    assert policy.prompts
    requests = {task.with_turns(MAX_TURNS).description: task for task in TASKS}
    for prompt in policy.prompts:
        assert all(set(message) == {"role", "content"} and message["role"] in ("user", "assistant") for message in prompt)
        task = next(task for text, task in requests.items() if text in prompt[0]["content"])
        text = "\n".join(message["content"] for message in prompt if message["role"] == "user")
        hidden = [line.strip() for line in task.hidden.reference.splitlines()[1:] if len(line.strip()) > 12]
        assert hidden
        assert not [line for line in hidden if line in text]
        assert HINT.split("}")[1].split("{")[0].strip() not in text


class Slow(Simulator):
    """A human who takes a while, each time another while."""

    def __init__(self):
        self.replies = 0

    def reply(self, task, dialogue, seed):
        self.replies += 1
        time.sleep(seed % 7 / 200)
        return f"It is {seed % 5}."


@pytest.mark.parametrize("max_workers", [1, 8, 32])
def test_results_depend_neither_on_workers_nor_on_who_replies_first(max_workers, sandbox, make_tiny_model, tiny_tokenizer):
    rows = []
    for simulator, workers in ((Slow(), max_workers), (Slow(), None)):
        policy = ContinuousTransformersPolicy(make_tiny_model(), Speaker(tiny_tokenizer, 9), batch_size=6)
        env = ColBenchVectorEnv(
            num_envs=6, tasks=TASKS, sandbox=sandbox, simulator=simulator, max_turns=MAX_TURNS, max_workers=workers
        )
        with closing(env):
            rows.append([t.to_row() for batch in play(policy, env, EPISODES, 0, "collect", reply_steps=3) for t in batch])
        assert simulator.replies > 10
    assert rows[0] == rows[1]


class Recording(Asker):
    """Says something at every step in the dialogue that was asked for first, and notes how many wait for a human meanwhile."""

    def __init__(self):
        super().__init__()
        self.asked, self.forgotten, self.steps = [], [], 0

    def add(self, name, dialogue, seed):
        self.asked.append((name, dialogue, seed))

    def step(self):
        self.steps += 1
        name, dialogue, seed = self.asked.pop(0)
        return [(name, self._say(dialogue, seed))]

    def forget(self, name):
        self.forgotten.append(name)


def test_the_agent_speaks_while_humans_think(run):
    policy, ended = Recording(), []
    played = run(EPISODES, 4, policy, reply_steps=2, on_end=lambda: ended.append(policy.steps))
    assert [t.to_row() for t in played] == [t.to_row() for t in run(EPISODES, 4)]
    assert sorted(policy.forgotten) == list(range(len(EPISODES)))
    assert policy.steps == sum(len(t.turns) for t in played), "no step for nothing"
    assert len(ended) == len(EPISODES) and ended == sorted(ended) and ended[0] < ended[-1], "progress while it is played"


def test_a_failure_of_the_world_ends_the_collection_and_leaves_nothing_at_work(sandbox):
    class Breaks(Slow):
        def reply(self, task, dialogue, seed):
            super().reply(task, dialogue, seed)
            raise OSError("disk full")

    env = ColBenchVectorEnv(num_envs=4, tasks=TASKS, sandbox=sandbox, simulator=Breaks(), max_turns=MAX_TURNS)
    with closing(env), pytest.raises(OSError, match="disk full"):
        next(play(Asker(), env, EPISODES, 0, "collect"))


def test_every_turn_of_every_episode_has_a_seed_of_its_own(run):
    class Keeps(Asker):
        def __init__(self):
            super().__init__()
            self.seeds = []

        def generate(self, dialogues, seeds):
            self.seeds += seeds
            return [Utterance("What about rounding?", [3], [-0.5]) for _ in dialogues]

    first, second = Keeps(), Keeps()
    run(episodes_of([TASKS[0].id, TASKS[1].id], 2), 2, first)
    run(episodes_of([TASKS[0].id, TASKS[1].id], 2), 2, second)
    assert len(first.seeds) == len({*first.seeds}) == 2 * 2 * MAX_TURNS
    assert first.seeds == second.seeds
