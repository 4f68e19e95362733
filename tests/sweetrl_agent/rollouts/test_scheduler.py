"""The schedule of a shard on an environment of plain numbers: seeds of turns, when replies are taken up, and when the world counts as down."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest

from colbench_gym.errors import ScoringError, SimulatorError, reason_of
from colbench_gym.seeds import derive_seed, turn_seed
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import BranchKey, Episode, EpisodeKey
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.rollouts.scheduler import ServiceDownError, Shard
from sweetrl_agent.rollouts.speakers import BestOf, BestOfNSampler, PolicySampler

TURNS = 3


class World:
    """A sub-environment: an episode ends after `TURNS` turns, or at its first where the world fails; a turn is rewarded with its number."""

    def __init__(self, failing):
        self.failing, self.prepared, self.resets = failing, 0, []

    def prepare(self):
        self.prepared += 1

    def reset(self, seed, options):
        self.task_id, self.turns = options["task_id"], 0
        self.resets.append((self.task_id, seed))
        self.world_error = self.failing.get(self.task_id)
        self.messages = [{"role": "user", "content": self.task_id}]
        self.hidden_information = f"hidden {self.task_id}"

    def step(self, text):
        self.turns += 1
        self.messages = [*self.messages, {"role": "assistant", "content": text}]
        is_over = self.world_error is not None or self.turns == TURNS
        self.metrics = {"outcome": "void" if self.world_error is not None else "answered", "turns": self.turns}
        return None, float(self.turns), is_over and self.turns == TURNS, is_over and self.turns < TURNS, {}

    def get_state(self):
        return self.task_id, self.turns

    def set_state(self, state, reseed):
        (self.task_id, self.turns), self.reseeded = state, reseed

    def redraw_hidden(self, seed):
        self.redrawn, self.hidden_information = seed, "redrawn"


class Worlds:
    """Some of them; what is submitted is done at once, and noted."""

    def __init__(self, num_envs, failing=None):
        self.num_envs, self.envs = num_envs, [World(failing or {}) for _ in range(num_envs)]

    def submit(self, place, text, is_cut=False):
        reply = Future()
        reply.set_result(self.envs[place].step(text))
        return reply


class Speaker:
    """Says the seed that it is given, in all dialogues at once; notes who speaks in each step."""

    def __init__(self):
        self.seeds, self.steps, self.ended, self.asked = {}, [], [], {}

    def ask(self, number, env, seed):
        self.seeds.setdefault(number, []).append(seed)
        self.asked[number] = seed

    def step(self):
        asked, self.asked = self.asked, {}
        self.steps.append(sorted(asked))
        return [(number, Utterance(str(seed), [seed % 7], [-0.5])) for number, seed in asked.items()]

    def end(self, number):
        self.ended.append(number)


def _shard(keys, num_envs=2, failing=None, speaker=None, reply_steps=1, on_end=None):
    env = Worlds(num_envs, failing)
    return Shard(speaker or Speaker(), env, keys, 5, "collect", reply_steps, on_end)


def test_every_turn_is_sampled_with_a_seed_of_its_own_address():
    keys = episodes_of(["a", "b"], 2)
    shard = _shard(keys)
    played = shard.play()
    for number, key in enumerate(keys):
        of_episode = derive_seed(5, "collect", key.task_id, key.index)
        expected = [derive_seed(of_episode, "turn", turn) for turn in range(1, TURNS + 1)]
        assert shard.speaker.seeds[number] == expected
        assert [turn.text for turn in played[number].turns] == list(map(str, expected))
        assert (key.task_id, of_episode) in shard.env.envs[0].resets + shard.env.envs[1].resets
    assert len({seed for own in shard.speaker.seeds.values() for seed in own}) == len(keys) * TURNS


def test_an_episode_holds_its_turns_rewards_and_what_was_hidden():
    ended = []
    shard = _shard([EpisodeKey("a", 4)], on_end=lambda: ended.append(1))
    (episode,) = shard.play()
    assert (episode.key, episode.hidden, episode.error) == (EpisodeKey("a", 4), "hidden a", "")
    assert [turn.reward for turn in episode.turns] == [1.0, 2.0, 3.0] and episode.reward == 6.0
    assert [turn.token_ids for turn in episode.turns] == [[seed % 7] for seed in shard.speaker.seeds[0]]
    assert [turn.log_probs for turn in episode.turns] == [[-0.5]] * TURNS
    assert episode.metrics == {"outcome": "answered", "turns": 3} and len(episode.messages) == 1 + TURNS
    assert ended == [1] and shard.speaker.ended == [0] and shard.env.envs[0].prepared == 1


def test_an_episode_says_who_spoke_what_it_cost_and_what_all_could_read():
    class Counts(Speaker):
        def step(self):
            return [
                (number, replace(said, usage=(10, 2), simulated_turns=len(self.seeds[number])))
                for number, said in super().step()
            ]

    shard = _shard([EpisodeKey("a")], num_envs=1, speaker=Counts())
    (episode,) = shard.play()
    assert [(turn.agent, turn.usage) for turn in episode.turns] == [(AGENT, (10, 2))] * TURNS
    assert episode.metrics == {"outcome": "answered", "turns": 3, "simulated_turns": 1 + 2 + 3}
    assert episode.messages == shard.env.envs[0].messages
    shard = _shard([EpisodeKey("a")], num_envs=1)
    world = shard.env.envs[0]
    world.agent, world.all_messages = "guide", [{"role": "user", "content": "for all"}]
    (episode,) = shard.play()
    assert {turn.agent for turn in episode.turns} == {"guide"} and episode.messages == world.all_messages


class OneByOne(Speaker):
    """Speaks in one dialogue in each step: that which was asked for first."""

    def step(self):
        number = next(iter(self.asked))
        self.steps.append(number)
        return [(number, Utterance(str(self.asked.pop(number)), [1], [-0.5]))]


@pytest.mark.parametrize("reply_steps", [1, 2, 4])
def test_a_reply_waits_for_the_next_multiple_of_the_reply_steps(reply_steps):
    taken = []

    class Watched(Shard):
        def _take_up_replies(self, step):
            before = len(self.waiting)
            super()._take_up_replies(step)
            if before > len(self.waiting):
                taken.append(step)

    shard = Watched(OneByOne(), Worlds(3), episodes_of(["a", "b", "c"], 1), 5, "collect", reply_steps, None, {})
    shard.play()
    assert shard.speaker.steps == [0, 1, 2] * TURNS
    assert all(step % reply_steps == 0 for step in taken) and taken[0] == reply_steps
    assert reply_steps > 1 or taken == list(range(1, 10))  # each is taken up while the others speak


def test_a_void_episode_says_why():
    down = SimulatorError("no words for it")
    played = _shard(episodes_of(["a", "b"], 1), failing={"a": down}).play()
    said = [(episode.is_void, episode.error, episode.void_reason) for episode in played]
    assert said == [(True, "no words for it", reason_of(down)), (False, "", "")] and reason_of(down)
    assert len(played[0].turns) == 1 and played[0].reward == 1.0


def test_an_utterance_that_fails_ends_its_episode_before_it_was_said():
    class Fails(Speaker):
        def step(self):
            asked, self.asked = self.asked, {}
            return [(number, Utterance("", error=SimulatorError("no words"))) for number in asked]

    (episode,) = _shard([EpisodeKey("a")], num_envs=1, speaker=Fails()).play()
    assert episode.metrics == {"outcome": "void", "turns": 0}
    shard = _shard([EpisodeKey("a")], num_envs=1, speaker=Fails())
    shard.env.envs[0].human_usage = {"human_tokens": 7}
    (episode,) = shard.play()
    assert (episode.is_void, episode.error, episode.turns, episode.hidden) == (True, "no words", [], "hidden a")
    assert episode.metrics == {"outcome": "void", "turns": 0, "human_tokens": 7}
    assert episode.reward == 0 and isinstance(episode.reward, float)


def test_an_episode_goes_on_from_the_snapshot_before_its_turn():
    assert _shard([EpisodeKey("a")]).play()[0].states == []
    (episode,) = Shard(Speaker(), Worlds(1), [EpisodeKey("a")], 5, "collect", 1, None, True).play()
    assert episode.states == [("a", turn) for turn in range(TURNS)]
    key = BranchKey("a", 1, turn=2, number=0, episode=episode)
    shard = Shard(Speaker(), Worlds(1), [key], 5, "branch", 1, None, True)
    (other,) = shard.play()
    assert other.turns[0] == episode.turns[0] and [turn.reward for turn in other.turns] == [1.0, 2.0, 3.0]
    assert other.states == episode.states and other.hidden == "hidden a"
    seed = key.seed(5, "branch")
    assert shard.env.envs[0].reseeded == seed and shard.speaker.seeds[0] == [derive_seed(seed, "turn", turn) for turn in (2, 3)]
    assert not hasattr(shard.env.envs[0], "redrawn")
    shard = Shard(Speaker(), Worlds(1), [replace(key, redraws=True)], 5, "branch", 1, None, True)
    shard.play()
    assert shard.env.envs[0].redrawn == turn_seed(seed, 0)  # another for every continuation, and none of its turns'
    for states in ([], episode.states[:1]):
        with pytest.raises(ValueError, match='must have "snapshot" in `requires`'):
            _shard([BranchKey("a", 1, turn=2, number=0, episode=replace(episode, states=states))]).play()


def test_turns_before_a_continuation_keep_what_was_hidden_then():
    (episode,) = Shard(Speaker(), Worlds(1), [EpisodeKey("a")], 5, "collect", 1, None, True).play()
    episode = replace(episode, hidden=["first", "second", "third"])
    for turn, hidden in ((2, ["first", "redrawn", "redrawn"]), (3, ["first", "second", "redrawn"])):
        key = BranchKey("a", 1, turn=turn, number=0, episode=episode, redraws=True)
        (other,) = Shard(Speaker(), Worlds(1), [key], 5, "branch", 1, None, True).play()
        assert other.hidden == hidden


def _failing(tasks, error=None):
    return {task: error or SimulatorError("the human is away.") for task in tasks}


def test_ten_void_episodes_in_a_row_of_three_tasks_end_the_stage():
    keys = episodes_of(["well", "a", "b", "c"], 4)
    shard = _shard(keys, num_envs=1, failing=_failing("abc"))
    with pytest.raises(ServiceDownError, match=(
        r"^10 episodes in a row are void\. The last error: the human is away\. The stage stops, .*; the 4 valid ones since the last save are kept\."
    )) as raised:  # fmt: skip
        shard.play()
    assert [key.task_id for key in raised.value.played] == ["well"] * 4
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value) and list(again.played) == list(raised.value.played)


@pytest.mark.parametrize(
    ("tasks", "count", "failing", "is_down"),
    [
        ("abc", 3, "abc", False),  # nine are too few
        ("abcd", 5, "ab", False),  # ten of two tasks are of those tasks
        ("ab", 5, "ab", True),  # unless there are no others
        ("a", 10, "a", True),
    ],
)
def test_few_failures_or_those_of_few_tasks_are_no_world_that_is_down(tasks, count, failing, is_down):
    shard = _shard(episodes_of(list(tasks), count), num_envs=1, failing=_failing(failing))
    if is_down:
        with pytest.raises(ServiceDownError):
            shard.play()
    else:
        assert sum(t.is_void for t in shard.play()) == len(failing) * count


def test_an_episode_that_ends_well_begins_the_count_anew():
    keys = [EpisodeKey(task, i) for i in range(6) for task in ("a", "b", "c", "well")]
    assert sum(t.is_void for t in _shard(keys, num_envs=1, failing=_failing("abc")).play()) == 18


def test_a_grade_that_fails_is_the_tasks_fault_and_not_the_worlds():
    keys = episodes_of(["a", "b", "c"], 5)
    played = _shard(keys, failing=_failing("abc", ScoringError("no reference"))).play()
    assert len(played) == 15 and all(t.is_void for t in played)


class Recorded:
    """A policy that notes what it is asked, and says the dialogue's number and the seed."""

    def __init__(self):
        self.added, self.forgotten = [], []

    def add(self, name, dialogue, seed):
        self.added.append((name, dialogue, seed))

    def step(self):
        return [(name, Utterance(str(seed))) for name, _, seed in self.added]

    def forget(self, name):
        self.forgotten.append(name)


def test_alone_the_agent_speaks_by_the_seed_of_the_turn():
    policy = Recorded()
    speaker = PolicySampler(policy)
    speaker.ask(3, SimpleNamespace(messages=["m"]), 11)
    assert policy.added == [(3, ["m"], 11)] and speaker.step() == [(3, Utterance("11"))]
    speaker.end(3)
    assert policy.forgotten == [3]


def test_the_best_of_several_candidates_is_said_when_all_are_there():
    policy, seen = Recorded(), []

    def credit(messages, hidden, texts, replies):
        seen.append((messages, hidden, list(texts)))
        return [float(text == texts[1]) for text in texts]

    speaker = BestOfNSampler(policy, BestOf(3, credit))
    speaker.ask(8, SimpleNamespace(messages=["m"], hidden_information="h"), 11)
    seeds = [derive_seed(11, "candidate", i) for i in range(3)]
    assert policy.added == [((8, i), ["m"], seeds[i]) for i in range(3)]
    asked, policy.added = policy.added, policy.added[2:]
    assert speaker.step() == []  # the third is said first
    policy.added = asked[:2]
    assert speaker.step() == [(8, Utterance(str(seeds[1])))]
    assert seen == [(["m"], "h", list(map(str, seeds)))]
    assert sorted(policy.forgotten) == [(8, 0), (8, 1), (8, 2)]


def test_a_turn_that_was_cut_goes_where_cut_ones_go_and_is_counted_with_silent_ones():
    class CutWorlds(Worlds):
        cut = ()

        def submit(self, place, text, is_cut=False):
            self.cut += (text,) if is_cut else ()
            return super().submit(place, text)

    class Thinks(Speaker):
        def step(self):
            asked, self.asked = self.asked, {}
            turn = len(self.seeds[0])
            said = (
                Utterance("", thought="<think>a")
                if turn == 1
                else Utterance(str(turn), thought="<think>b</think>", finish_reason="length")
            )
            return [(number, said if turn < TURNS else Utterance("end")) for number in asked]

    env = CutWorlds(1)
    (episode,) = Shard(Thinks(), env, episodes_of(["a"], 1), 5, "collect", 1, None).play()
    assert env.cut == ("2",)
    assert {name: episode.metrics.get(name) for name in ("silent_turns", "cut_turns")} == {"silent_turns": 1, "cut_turns": 1}
    assert [said["content"] for said in episode.messages[1:]] == ["", "2", "end"]
    assert [(turn.thought, turn.finish_reason) for turn in episode.turns][:2] == [
        ("<think>a", "stop"),
        ("<think>b</think>", "length"),
    ]
    assert Episode.from_row(episode.to_row()).turns == episode.turns
