"""Replies to candidates, from snapshots: for a critic that reads them, in ranking and in best-of-N."""

from __future__ import annotations

import random
from types import SimpleNamespace

import gymnasium as gym
import pytest
from gymnasium.spaces import Text

from colbench_gym.errors import ColBenchError, SimulatorError
from colbench_gym.generators import PrivateGenerators
from sweetrl_agent.algorithms.own_critics import CheckedCritic
from sweetrl_agent.algorithms.ranking import State
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.dialogues import TextDialogue, TextDialogues
from sweetrl_agent.core.episode import Episode, EpisodeKey, Turn
from sweetrl_agent.core.policy import LENGTH, Utterance
from sweetrl_agent.rollouts.play import play
from sweetrl_agent.rollouts.replies import NotRepeatedError, replies_at, replies_to
from sweetrl_agent.rollouts.speakers import BestOf


class Echo(gym.Env):
    """Repeats what is said with a number of the global generator; "end" ends the episode."""

    observation_space = action_space = Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return "begin", {}

    def step(self, action):
        self.count += 1
        return f"{action} {self.count} {random.randrange(1000)}", 1.0, action == "end", False, {}

    def get_state(self):
        return self.count

    def set_state(self, state, reseed=None):
        self.count = state


class Reads(Critic):
    """Prefers what is replied to by a word of its own."""

    requires = frozenset({"snapshot"})

    def rank(self, messages, hidden, texts, replies):
        return [float(reply.startswith("b")) - 5 * (not reply) for reply in replies]


@pytest.fixture
def env():
    return TextDialogue(gym.wrappers.TimeLimit(Echo(), 5), {"0": 0}, "return", 0, PrivateGenerators("x"))


def test_replies_leave_the_episode_as_it_was(env):
    env.reset(options={"task_id": "0"})
    before = env.messages
    replies = replies_to(env, ["a", "end", "b", "a"])
    assert replies[0] == replies[3] and replies[0].startswith("a 1 ") and replies[1] == "" and replies[2].startswith("b 1 ")
    assert [(reply.reward, reply.success) for reply in replies] == [(1.0, None), (1.0, True), (1.0, None), (1.0, None)]
    assert env.messages == before and env.metrics == {}
    assert env.step("a")[0] == replies[0]  # with the same number: the generators are put back too
    assert replies_at(env, "0", 0, before, (), ["b"]) == [replies[2]]
    with pytest.raises(ColBenchError, match="does not repeat a recorded dialogue of task '0'"):
        replies_at(env, "0", 0, [{"role": "user", "content": "other"}], (), ["b"])


def test_a_snapshot_counts_steps_and_a_seed_draws_another_future(env):
    env.reset(options={"task_id": "0"})
    env.step("a")
    state = env.get_state()
    future = [env.step("b") for _ in range(4)]
    assert future[-1][3] and env.metrics["turns"] == 5  # the limit of 5 steps
    env.set_state(state)
    assert [env.step("b") for _ in range(4)] == future
    env.set_state(state, reseed=1)
    again = [env.step("b") for _ in range(4)]
    assert again[-1][3] and [step[0] for step in again] != [step[0] for step in future]
    assert env.metrics["return"] == 5.0


def test_a_critic_that_requires_snapshots_gets_replies(env):
    dialogue = [
        {"role": role, "content": text}
        for role, text in (("user", "begin"), ("assistant", "b"), ("user", "b 1"), ("assistant", "a"))
    ]
    critic = CheckedCritic(Reads(), "reads")
    assert Reads().dialogue_advantages(dialogue, "") == critic.dialogue_advantages(dialogue, "") == [1.0, -5.0]
    assert critic.rank(dialogue[:1], "", ["a", "b", "a"], ["a 1", "b 1", "a 1"]) == [0.0, 1.0, 0.0]


def test_best_of_n_chooses_by_the_reply(env):
    class Says:
        def generate(self, dialogues, seeds):
            return [
                Utterance("end" if len(d) > 3 else ["a", "b", "end"][seed // 8 % 3])
                for d, seed in zip(dialogues, seeds, strict=True)
            ]

    given = []

    def credit(messages, hidden, texts, replies):
        given.append((texts, replies))
        return Reads().rank(messages, hidden, texts, replies)

    ((episode,),) = play(Says(), TextDialogues([env]), [EpisodeKey("0")], 0, "x", best_of=BestOf(16, credit, has_replies=True))
    assert "b" in given[0][0] and episode.turns[0].text == "b" and all(len(texts) == len(replies) for texts, replies in given)
    assert episode.messages[2]["content"] == given[0][1][given[0][0].index("b")]


class Slow(Echo):
    """Says something else the first time, as a page that renders too slowly; or its service fails."""

    slow, fails = 1, False

    def step(self, action):
        if self.fails:
            raise SimulatorError("no connection")
        observation, *rest = super().step(action)
        self.slow -= 1
        return ("too late" if self.slow >= 0 else observation), *rest


def test_what_was_slow_is_taken_again_and_a_failure_is_named():
    dialogue = TextDialogue(Slow(), {"0": 0}, "return", 0, PrivateGenerators("x"))
    dialogue.env.slow = 0
    dialogue.reset(options={"task_id": "0"})
    dialogue.step("a")
    recorded = dialogue.messages
    dialogue.env.slow = 1
    assert replies_at(dialogue, "0", 0, recorded, (), ["b"])[0].startswith("b 2 ")
    dialogue.env.slow = 2
    with pytest.raises(NotRepeatedError, match="repeats itself with a `cache`"):
        replies_at(dialogue, "0", 0, recorded, (), ["b"])
    dialogue.env.fails = True
    with pytest.raises(ColBenchError, match="^No reply to a candidate: no connection$"):
        replies_at(dialogue, "0", 0, recorded, (), ["b"])


class Notices(Echo):
    """Replies otherwise to a message that the limit of tokens cut."""

    def step_cut(self, action):
        _, *rest = self.step(action)
        return "cut", *rest


def test_a_turn_that_was_cut_is_taken_again_as_one():
    dialogue = TextDialogue(Notices(), {"0": 0}, "return", 0, PrivateGenerators("x"))
    dialogue.reset(options={"task_id": "0"})
    dialogue.step("a")
    dialogue.step("b", True)
    recorded = dialogue.messages
    assert recorded[-1]["content"] == "cut"
    assert replies_at(dialogue, "0", 0, recorded, (False, True), ["c"])[0].startswith("c 3 ")
    with pytest.raises(NotRepeatedError):
        replies_at(dialogue, "0", 0, recorded, (), ["c"])
    turns = [Turn("a"), Turn("b", finish_reason=LENGTH), Turn("c")]
    episode = Episode("0", 0, [*recorded, {"role": "assistant", "content": "c"}], turns, {}, 0.0)
    assert State.collected(SimpleNamespace(seed=0), episode, 3).was_cut == [False, True]
