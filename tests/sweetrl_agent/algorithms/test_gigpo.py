"""GiGPO: exact advantages of exhaustive play, parity with the original, its limits, the keys of states, and that it learns and resumes."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from contextlib import closing
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

from colbench_gym.files import read_rows
from colbench_gym.seeds import turn_seed
from sweetrl_agent.algorithms.gigpo import GiGPO, GiGPOConfig, centred, discounted_returns, state_groups
from sweetrl_agent.algorithms.grpo import GRPO, GRPOConfig
from sweetrl_agent.core.batch import Batch
from sweetrl_agent.core.dialogues import TextDialogue, TextDialogues
from sweetrl_agent.core.episode import BranchKey, Episode, EpisodeKey, Turn
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.rollouts.play import play

#: Folder with the original `gigpo/core_gigpo.py` of langfengQ/DrMAS or verl-agent.
ORIGINAL = "GIGPO_ORIGINAL"
GAMMA = 0.9
#: Probability in quarters of asking for the first wish, for the second, and of answering; the last turn answers.
ACTIONS = {"first": 1, "second": 1, "answer": 2}


def _algorithm(**settings):
    return GiGPO(GiGPOConfig(**settings))


def _episode(task, rewards, keys, index=0, agent="agent"):
    turns = [Turn(str(t), [0], [0.0], reward, agent=agent) for t, reward in enumerate(rewards)]
    return Episode(task, index, [], turns, {"outcome": "ended"}, sum(rewards), keys=list(keys))


def _plans():
    """Every course of three turns, as often as the policy takes it in 16 episodes."""
    for first, second in product(ACTIONS, ACTIONS):
        weight = ACTIONS[first] * ACTIONS[second]
        if first == "answer":
            if second == "first":
                yield from [("answer",)] * (4 * ACTIONS[first])
            continue
        yield from [(first, second) if second == "answer" else (first, second, "answer")] * weight


class Planned:
    """Takes the actions of the plans of its episodes."""

    def __init__(self, plans, actions, task, stage):
        self.actions, self.topics = actions, [i for i, fact in enumerate(task.hidden.facts) if fact.is_special]
        self.of_seed = {
            turn_seed(EpisodeKey(task.id, index).seed(0, stage), turn): action
            for index, plan in enumerate(plans)
            for turn, action in enumerate(plan, 1)
        }

    def generate(self, dialogues, seeds):
        return [Utterance(self.say(self.of_seed[seed], d), [1], [0.0]) for d, seed in zip(dialogues, seeds, strict=True)]

    def say(self, action, messages):
        number = self.actions.count - 1 if action == "answer" else self.topics[action == "second"]
        return self.actions.say(number, messages)


def test_exhaustive_play_of_a_task_of_two_wishes_gives_q_minus_v(make_run):
    run = make_run(max_turns=3)
    task, plans = run.tasks[0], list(_plans())
    policy = Planned(plans, run.record.actions(run.config), task, "exhaustive")
    with closing(run.environment([task], 8)) as env:
        keys = [EpisodeKey(task.id, index) for index in range(len(plans))]
        episodes = [e for shard in play(policy, env, keys, 0, "exhaustive", keeps_keys=True) for e in shard]
    assert sum(fact.is_special for fact in task.hidden.facts) == 2 and len(episodes) == 16
    assert sum(episode.reward for episode in episodes) == 2  # both wishes heard, in either order

    def value(heard, turn):
        if turn == 3:
            return float(len(heard) == 2)
        return sum(weight / 4 * q(heard, turn, action) for action, weight in ACTIONS.items())

    def q(heard, turn, action):
        return float(len(heard) == 2) if action == "answer" else GAMMA * value({*heard, action}, turn + 1)

    within = _algorithm(gamma=GAMMA)._within_states(
        episodes, groups := state_groups(episodes, [e.keys for e in episodes]), centred
    )
    of_action, states = defaultdict(list), set()
    for group, values in zip(groups, within, strict=True):
        for (i, t), advantage in zip(group, values, strict=True):
            heard = frozenset(plans[i][:t])
            states.add((heard, t + 1, episodes[i].keys[t]))
            of_action[heard, t + 1, plans[i][t]].append(advantage)
    assert len(groups) == len(states) == 6  # in the last turn the policy has no choice
    for (heard, turn, action), advantages in of_action.items():
        exact = q(heard, turn, action) - value(heard, turn) if turn < 3 else 0.0
        assert np.mean(advantages) == pytest.approx(exact, abs=1e-12), (heard, turn, action)
    assert max(abs(np.mean(a)) for a in of_action.values()) > 0.1


def test_the_credit_is_the_sum_of_both_levels():
    episodes = [
        _episode("a", [0.0, 1.0], ["s", "x"]),
        _episode("a", [0.0, 0.0, 0.0], ["s", "x", "y"]),
        _episode("b", [1.0], ["s"]),
    ]
    credit = _algorithm(gamma=0.5, weight=2.0).credit(Batch(episodes))
    # a: R - mean is 0.5 and -0.5; D is 0.5, 1 and 0, 0, 0: in "s" 0.25 and -0.25, in "x" 0.5 and -0.5. "b" is alone.
    assert credit.advantages == [[0.5 + 2 * 0.25, 0.5 + 2 * 0.5], [-0.5 - 2 * 0.25, -0.5 - 2 * 0.5, -0.5], [0.0]]
    assert credit.metrics == {"shared_states": 4 / 6}
    assert _algorithm().credit(Batch([])).advantages == []


def test_states_meet_within_a_task_and_an_agent_alone():
    episodes = [
        _episode("a", [0.0], ["s"]),
        _episode("b", [0.0], ["s"]),
        _episode("a", [0.0], ["s"], agent="tester"),
        _episode("a", [0.0], ["s"]),
    ]
    assert state_groups(episodes, [e.keys for e in episodes]) == [[(0, 0), (3, 0)], [(1, 0)], [(2, 0)]]
    with pytest.raises(ValueError, match="zip"):
        state_groups(episodes, [[]] * 4)


def _talk(index, said, reward):
    messages = [{"role": "user", "content": "I need it."}]
    for text in said:
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"Yes, {text}."}]
    turns = [Turn(text, [0], [0.0]) for text in said[:-1]] + [Turn(said[-1], [0], [0.0], reward)]
    return Episode("a", index, messages[:-1], turns, {"outcome": "ended"}, reward)


def test_distinct_dialogues_leave_grpo_and_a_term_of_the_first_turn():
    rng = np.random.default_rng(0)
    talks = [_talk(i, [f"{i} {t}" for t in range(rng.integers(1, 5))], float(rng.integers(3))) for i in range(8)]
    credit = _algorithm(anchor="dialogue", gamma=GAMMA).credit(Batch(talks))
    first = np.array([GAMMA ** (len(talk.turns) - 1) * talk.reward for talk in talks])
    for i, (talk, advantages) in enumerate(zip(talks, credit.advantages, strict=True)):
        of_episode = talk.reward - np.mean([other.reward for other in talks])
        expected = [of_episode + first[i] - first.mean(), *[of_episode] * (len(talk.turns) - 1)]
        assert advantages == pytest.approx(expected, abs=1e-12)


def test_similar_dialogues_meet_where_asked():
    talks = [_talk(0, ["How do you round it?", "x"], 1.0), _talk(1, ["How do you round that?", "x"], 0.0)]
    shared = [_algorithm(anchor="dialogue", similarity=s).credit(Batch(talks)).metrics["shared_states"] for s in (1.0, 0.9)]
    assert shared == [0.5, 1.0]


@pytest.fixture(scope="module")
def original():
    """Functions of the original, without its imports of verl."""
    folder = os.environ.get(ORIGINAL)
    if not folder:
        pytest.skip(f"{ORIGINAL} does not name a folder with gigpo/core_gigpo.py of langfengQ/DrMAS or langfengQ/verl-agent")
    tree = ast.parse(Path(folder, "gigpo", "core_gigpo.py").read_text())
    tree.body = [node for node in tree.body if not (isinstance(node, ast.ImportFrom) and node.module == "verl")]
    space = {"DataProto": object}
    exec(compile(tree, "core_gigpo", "exec"), space)
    return SimpleNamespace(**space)


def _random_batch(rng):
    """Episodes of three tasks, each of at least two episodes, with keys that often meet."""
    episodes = []
    for task, count in (("a", 5), ("b", 2), ("c", 4)):
        for index in range(count):
            turns = int(rng.integers(1, 6))
            keys = [(t, *sorted(rng.integers(0, 2, 2).tolist())) for t in range(turns)]
            episodes.append(_episode(task, rng.normal(size=turns).round(2).tolist(), keys, index))
    return [episodes[i] for i in rng.permutation(len(episodes))]


@pytest.mark.parametrize("norm", ["mean", "std"])
def test_it_is_the_original_on_random_episodes(original, norm, capsys):
    rng, weight = np.random.default_rng(3), 0.7
    for _ in range(20):
        episodes = _random_batch(rng)
        rows = [(e, t) for e in episodes for t in range(len(e.turns))]
        task, episode = (np.array([f(e) for e, _ in rows]) for f in (lambda e: e.task_id, lambda e: f"{e.task_id} {e.index}"))
        keys = np.empty(len(rows), object)
        keys[:] = [e.keys[t] for e, t in rows]
        batch = SimpleNamespace(
            non_tensor_batch={"rewards": np.array([e.turns[t].reward for e, t in rows]), "traj_uid": episode, "active_masks": np.ones(len(rows)),
                              "env_step": np.array([t for _, t in rows])}, batch={"input_ids": torch.zeros(1)},
        )  # fmt: skip
        returns = original.compute_step_discounted_returns(batch, GAMMA)
        assert returns.tolist() == pytest.approx([discounted_returns(e, GAMMA)[t] for e, t in rows], abs=1e-5)
        groups = original.build_step_group(keys, task)
        assert _as_sets(groups) == {frozenset(index for index, (e, t) in enumerate(rows) if (episodes.index(e), t) in group)
                                    for group in map(set, state_groups(episodes, [e.keys for e in episodes]))}  # fmt: skip
        scores, mask = torch.tensor([[e.reward] for e, _ in rows], dtype=torch.float32), torch.ones(len(rows), 1)
        remove_std = norm == "mean"
        of_episodes = original.episode_norm_reward(scores, mask, task, episode, remove_std=remove_std)[:, 0]
        of_steps = original.step_norm_reward(returns, mask, groups, remove_std=remove_std)[:, 0]
        if norm == "std":  # its deviation is unbiased, ours is not; a group of equal returns is 0 / 1e-6 there
            of_episodes = of_episodes * _bessel([sum(o.task_id == e.task_id for o in episodes) for e, _ in rows])
            of_steps = of_steps * _bessel([int((groups == g).sum()) for g in groups])
        credit = _algorithm(gamma=GAMMA, weight=weight, norm=norm).credit(Batch(episodes)).advantages
        expected = (of_episodes + weight * of_steps).tolist()
        assert [value for of_turns in credit for value in of_turns] == pytest.approx(
            expected, abs=2e-3 if norm == "std" else 1e-5
        )
    capsys.readouterr()


def _bessel(counts):
    return torch.tensor([np.sqrt(n / (n - 1)) if n > 1 else 1.0 for n in counts])


def _as_sets(groups):
    members = defaultdict(set)
    for index, group in enumerate(groups):
        members[group].add(index)
    return set(map(frozenset, members.values()))


def test_similar_texts_form_the_groups_of_the_original(original, capsys):
    rng = np.random.default_rng(1)
    texts = ["".join(rng.choice(["ab", "ba", "c"], 12)) for _ in range(40)]
    episodes = [_episode("a", [0.0], [text], i) for i, text in enumerate(texts)]
    ours = state_groups(episodes, [e.keys for e in episodes], 0.7)
    theirs = original.build_step_group(np.array(texts), np.array(["a"] * 40), True, 0.7)
    assert {frozenset(i for i, _ in group) for group in ours} == _as_sets(theirs) and 1 < len(ours) < 40
    capsys.readouterr()


class Corridor(gym.Env):
    """Its state is a place that the text does not name."""

    observation_space = action_space = gym.spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state_key = 0
        return "go", {}

    def step(self, action):
        self.state_key += action == "on"
        return "go", float(self.state_key == 2), self.state_key == 2, False, {}

    def get_state(self):
        return {"place": self.state_key}

    def set_state(self, state, reseed=None):
        self.state_key = state["place"]


class Walker:
    """Goes on, or stays, by its seed."""

    def generate(self, dialogues, seeds):
        return [Utterance("on" if seed % 2 else "stay", [0], [0.0]) for seed in seeds]


def test_episodes_keep_the_keys_of_their_states_where_asked():
    envs = TextDialogues([TextDialogue(Corridor(), {"0": 0}, "return", 0) for _ in range(2)])
    keys = [EpisodeKey("0", index) for index in range(4)]
    plain, kept = (
        [e for shard in play(Walker(), envs, keys, 0, "x", keeps_states=True, **more) for e in shard]
        for more in ({}, {"keeps_keys": True})
    )
    assert plain == kept and all(episode.keys == [] for episode in plain) and "keys" not in kept[0].to_row()
    for episode in kept:
        places = np.cumsum([0, *(turn.text == "on" for turn in episode.turns[:-1])])
        assert episode.keys == places.tolist()
    longest = max(kept, key=lambda episode: len(episode.turns))
    branch = BranchKey("0", 9, turn=2, number=0, episode=longest)
    ((fresh,),) = play(Walker(), envs, [branch], 0, "y", keeps_keys=True)
    assert fresh.keys[:2] == longest.keys[:2] and len(fresh.keys) == len(fresh.turns)


def test_a_weight_of_0_is_grpo(make_game):
    game = {"tasks": 4, "group": 4, "iterations": 2, "learning_rate": 1e-2}
    runs = {}
    for name, more in (("grpo", {}), ("gigpo", {"weight": 0.0, "norm": "std", "anchor": "dialogue"})):
        runs[name] = make_game(2, name, **{f"{name}.{key}": value for key, value in {**game, **more}.items()})
        _rename(runs[name].config.algorithms[name]).train(runs[name])
    files = [run.path("same/agent/model.safetensors").read_bytes() for run in runs.values()]
    assert files[0] == files[1]
    advantages = [
        kind.credit(Batch(_random_batch(np.random.default_rng(0)))).advantages
        for kind in (GRPO(GRPOConfig()), _algorithm(weight=0.0, norm="std"))
    ]
    assert advantages[0] == advantages[1]


def _rename(algorithm):
    """The algorithm under another name, which seeds of its episodes are derived from."""
    renamed = algorithm.with_config(algorithm.config)
    renamed.name = "same"
    return renamed


GAME = {"gigpo.tasks": 4, "gigpo.group": 6, "gigpo.learning_rate": 1e-2, "gigpo.anchor": "dialogue"}


def test_it_finds_the_optimum_of_two_turns(make_game):
    run = make_game(2, **GAME, **{"gigpo.iterations": 40})
    run.config.algorithms["gigpo"].train(run)
    rows = [row for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "gigpo"]
    success = [row["return"] for row in rows]
    assert len(success) == 40 and np.mean(success[:3]) < 0.6 and np.mean(success[-5:]) > 0.9
    assert all(0.5 <= row["shared_states"] <= 1 for row in rows)  # all episodes of a task meet at the request


def test_a_run_on_the_wishes_heard_that_was_killed_ends_with_the_same_files(
    make_run, train_with_a_kill, tiny_model_folder, tmp_path
):
    given = {"model": str(tiny_model_folder), "algorithm": "gigpo", "dtype": "float32", "sft_dialogues": 0, "system_prompt": "", "max_new_tokens": 8, "max_turns": 2,
             "gigpo.tasks": 2, "gigpo.group": 3, "gigpo.iterations": 3, "gigpo.learning_rate": 1e-3}  # fmt: skip
    whole, cut = (make_run(output=str(tmp_path / name), **given) for name in ("whole", "cut"))
    seen = _watch(whole)
    whole.config.algorithms["gigpo"].train(whole)
    train_with_a_kill(cut.config.algorithms["gigpo"], cut)
    files = [{p.relative_to(run.path(".")): p.read_bytes() for p in run.path("gigpo").rglob("*.*")} for run in (whole, cut)]
    assert files[0] == files[1] and len(files[0]) > 2
    assert read_rows(whole.path("metrics.jsonl")) == read_rows(cut.path("metrics.jsonl"))
    assert all(key[0] == e.task_id and key[1] == t for e in seen for t, key in enumerate(e.keys)) and len(seen) == 18
    assert all(len(e.keys) == len(e.turns) for e in seen)


def _watch(run):
    """The episodes that a run's callbacks are told of."""
    seen, tell = [], run.callbacks.tell

    def watch(event, *arguments):
        if event == "on_iteration":
            seen.extend(arguments[-1])
        return tell(event, *arguments)

    run.callbacks.tell = watch
    return seen


def test_it_requires_keys_of_states_unless_dialogues_are_compared():
    assert _algorithm().requires == {"anchor"} and _algorithm(anchor="dialogue").requires == set()


@pytest.mark.parametrize(
    ("settings", "error"),
    [(["--gigpo.gamma", "1.5"], "`gigpo.gamma` must be at most 1, got 1.5."), (["--gigpo.group", "1"], "`gigpo.group` must be at least 2, got 1."),
     (["--gigpo.weight", "-1"], "`gigpo.weight` must be at least 0, got -1."),
     (["--gigpo.anchor", "wish"], r"`gigpo.anchor` must be one of \('state', 'dialogue'\), got 'wish'."),
     (["--gigpo.norm", "max"], r"`gigpo.norm` must be one of \('mean', 'std'\), got 'max'."),
     (["--gigpo.similarity", "0.9"], "`gigpo.similarity` below 1 compares texts: take `gigpo.anchor` 'dialogue', got 'state'.")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(settings, error):
    with pytest.raises(ValueError, match=error):
        comparison_job.parse(settings)
