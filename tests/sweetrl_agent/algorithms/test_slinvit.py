"""SLINVIT: its planner against the original's and against all paths, its prior, leaves and costs, and runs."""

from __future__ import annotations

import ast
import itertools
import json
import math
import os
import types
from contextlib import closing
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

from colbench_gym.files import read_rows
from sweetrl_agent import compare
from sweetrl_agent.algorithms.slinvit import Reached, SearchPolicy, Slinvit, SlinvitConfig, _Search, likelihood_of
from sweetrl_agent.core.episode import EpisodeKey
from sweetrl_agent.core.policy import SearchingPolicy, Utterance
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.rollouts.replies import replies_to
from sweetrl_agent.rollouts.search import LearntWorld, Node, SimulatorWorld, Spot, forward_search
from sweetrl_agent.trainers.run import Run
from tests.sweetrl_agent import menu_lock
from tests.sweetrl_agent.core.toys import TabularPolicy, dialogues, played

#: A checkout of agentification/Language-Integrated-VI; measured with e2b7584.
ORIGINAL = os.environ.get("LINVIT_ORIGINAL", "")


def random_tree(rng, depth, most=3, alpha=1.0):
    """A random tree of nodes; the payload is (value, name), and some nodes are over."""

    def grow(level, name):
        node = Node(alpha * rng.random() if name else 0.0, payload=(float(rng.normal()), name))
        node.is_over = bool(name) and rng.random() < 0.15
        node.children = (
            [] if node.is_over or level == depth else [grow(level + 1, (*name, i)) for i in range(rng.integers(1, most + 1))]
        )
        return node

    return grow(0, ())


def value_of(node):
    return node.payload[0]


def values_of(nodes):
    return [value_of(node) for node in nodes]


def grown(nodes):
    return [node.children for node in nodes]


@pytest.mark.parametrize("seed", range(5))
def test_without_limits_the_search_finds_the_best_of_all_paths(seed):
    root = random_tree(np.random.default_rng(seed), 3)

    def totals(node, so_far):
        total = so_far + node.prior + node.reward
        return [total + value_of(node)] if not node.children else [x for child in node.children for x in totals(child, total)]

    plan = forward_search(root, grown, values_of, depth=3, breadth=0)
    assert plan.value == pytest.approx(max(totals(root, 0.0))) and plan.num_paths == len(totals(root, 0.0))


def test_breadth_keeps_the_children_of_highest_rank_and_depth_ends_the_search():
    children = [
        Node(prior, payload=(value, name)) for prior, value, name in ((0.1, 9.0, "a"), (0.3, 1.0, "b"), (0.2, 2.0, "c"))
    ]
    root, expanded = Node(), []

    def expand(nodes):
        expanded.extend(nodes)
        return [children] * len(nodes)

    assert forward_search(root, expand, values_of, 1, 2).path[0].payload[1] == "c"
    assert forward_search(root, expand, values_of, 1, 1).path[0].payload[1] == "b"
    assert forward_search(root, expand, values_of, 1, 0).path[0].payload[1] == "a"
    assert forward_search(root, expand, values_of, 1, 1, rank=value_of).path[0].payload[1] == "a"
    assert expanded == [root]
    assert forward_search(root, expand, lambda nodes: [math.nan, 1.0, -math.inf], 1, 0).value == pytest.approx(
        1.2
    )  # c, second by prior
    with pytest.raises(ValueError, match="at least one child"):
        forward_search(Node(), lambda nodes: [[]], values_of, 1, 0)


def original_search():
    """`ForwardSearch` of the original, by `ast`; its `np.sum` of a generator, which NumPy 2 refuses, is Python's `sum`."""
    source = (Path(ORIGINAL) / "blocksworld/src/forward_search.py").read_text()
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    numpy = types.SimpleNamespace(argmax=np.argmax, array=np.array, random=np.random, sum=lambda values: sum(values))
    names = {"np": numpy, "ABC": object, "deepcopy": deepcopy, "List": list, "Tuple": tuple}
    exec(compile(tree, "forward_search.py", "exec"), names)
    return names["ForwardSearch"], names["AbsNode"]


@pytest.mark.skipif(not ORIGINAL, reason="LINVIT_ORIGINAL names no checkout of agentification/Language-Integrated-VI")
@pytest.mark.parametrize(("depth", "breadth", "alpha"), [*itertools.product((1, 2, 3), (0, 1, 2), (0.0, 0.1, 1.0))])
def test_the_planner_takes_the_step_of_the_original(depth, breadth, alpha):
    search, base = original_search()

    class Original(base):
        """The original's interface over a node of ours."""

        def __init__(self, node, level=0):
            self.node, self.depth, self.is_terminal = node, level, node.is_over
            self._prob_r, self._alpha, self._v_rand = (node.prior / alpha if alpha else 0.5), alpha, value_of(node)

        def get_children(self):
            return [Original(child, self.depth + 1) for child in self.node.children]

    for seed in range(20):
        root = random_tree(np.random.default_rng(seed), 3, alpha=alpha)
        theirs, steps = search(depth, breadth)(Original(root))
        plan = forward_search(root, grown, values_of, depth, breadth, rank=lambda node: node.prior + value_of(node))
        assert plan.path[0].payload[1] == theirs.node.payload[1]
        assert steps >= plan.num_paths


# ---- the policy -----------------------------------------------------------------------------------------------------------

HEARD = ("Which colour is first?", "It clicks. And then?")


def lock_policy(config=None, **settings):
    """A search with a uniformly random policy over colours, which knows nothing."""
    policy = TabularPolicy(menu_lock.COLOURS, HEARD)
    return SearchPolicy(policy, config or SlinvitConfig(**{"samples": 12, "breadth": 3, **settings}))


def success_of(policies, count=30):
    envs = dialogues(menu_lock.Lock, count, num_envs=3)
    episodes = played(policies, envs, [EpisodeKey(str(i)) for i in range(count)], "evaluate")
    return sum(episode.metrics["success"] for episode in episodes) / count, episodes


def test_a_search_as_deep_as_the_lock_opens_it_and_counts_what_it_took():
    plain, _ = success_of(TabularPolicy(menu_lock.COLOURS, HEARD))
    searched, episodes = success_of(lock_policy(depth=3, lam=0.0, samples=40))
    assert plain < 0.3 and searched == 1.0
    # 3 first steps with 3 + 3 x 3 nodes where the right colours lead on; no rollout, since all paths end
    assert episodes[0].metrics["simulated_turns"] == 3 + 3 + 3 + (3 + 3) + 3
    assert [turn.text for turn in episodes[0].turns] == list(menu_lock.COMBINATION)
    again = success_of(lock_policy(depth=3, lam=0.0, samples=40))[1]
    assert [episode.to_row() for episode in again] == [episode.to_row() for episode in episodes]


def test_more_rollouts_value_a_shallow_search_better():
    success = [success_of(lock_policy(depth=1, lam=0.0, rollouts=rollouts))[0] for rollouts in (1, 40)]
    assert success[1] > 0.9 and success[0] < success[1]


def test_a_broken_off_rollout_has_no_further_reward():
    blind, _ = success_of(lock_policy(depth=1, lam=0.0, rollouts=20, horizon=1))
    assert blind < 0.3  # at the first place it sees only the consolation of wrong colours


def test_a_large_lambda_is_the_likeliest_utterance():
    policy = TabularPolicy(menu_lock.COLOURS, HEARD)
    policy.logits.data[:, 1] = 2.0
    env = dialogues(menu_lock.Lock, 1, 1).envs[0]
    env.reset(options={"task_id": "0"})
    before = env.messages
    (said,) = SearchPolicy(policy, SlinvitConfig(samples=12, breadth=3, lam=100.0, depth=1)).generate_in([env], [0])
    assert said.text == "blue" and env.messages == before and not env.metrics
    (said,) = SearchPolicy(policy, SlinvitConfig(samples=12, breadth=3, lam=0.0, depth=3)).generate_in([env], [0])
    assert said.text == "red" and said.usage == (0, 0)


def test_the_prior_is_normalised_by_length():
    assert likelihood_of(Utterance("a", [1, 2], [-1.0, -3.0])) == pytest.approx(math.exp(-2))
    with pytest.raises(ValueError, match="needs log-probabilities"):
        likelihood_of(Utterance("a"))


def test_a_critic_at_depth_1_asks_no_simulator():
    asked = []

    def score(messages, hidden, text):
        asked.append((len(messages), text))
        return float(text == "green")

    policy = SearchPolicy(TabularPolicy(menu_lock.COLOURS, HEARD), SlinvitConfig(samples=20, breadth=3, depth=1), score)
    env = dialogues(menu_lock.Lock, 1, 1).envs[0]
    env.reset(options={"task_id": "0"})
    (said,) = policy.generate_in([env], [0])
    assert (
        said.text == "green"
        and said.simulated_turns == 0
        and sorted(asked) == [(1, text) for text in sorted(menu_lock.COLOURS)]
    )


def test_a_learnt_model_of_the_human_takes_the_simulators_place():
    def reply(messages, seed):
        said = [message["content"] for message in messages if message["role"] == "assistant"]
        return None if tuple(said) == menu_lock.COMBINATION or said[-1] != menu_lock.COMBINATION[len(said) - 1] else HEARD[1]

    def score(messages, hidden, text):
        return float(tuple([m["content"] for m in messages if m["role"] == "assistant"] + [text]) == menu_lock.COMBINATION)

    policy = SearchPolicy(
        TabularPolicy(menu_lock.COLOURS, HEARD), SlinvitConfig(samples=12, breadth=3, lam=0.0, depth=3), score,
        lambda env: LearntWorld(reply, Spot(list(env.messages), env.hidden_information)),
    )  # fmt: skip
    env = dialogues(menu_lock.Lock, 1, 1).envs[0]
    env.reset(options={"task_id": "0"})
    (said,) = policy.generate_in([env], [0])
    assert said.text == "red" and said.simulated_turns == 0


def test_a_known_outcome_is_not_overruled_by_the_critic():
    policy = SearchPolicy(
        TabularPolicy(menu_lock.COLOURS, HEARD), SlinvitConfig(samples=12, breadth=3, lam=0.0, depth=2), lambda messages, hidden, text: 0.9
    )  # fmt: skip
    env = dialogues(menu_lock.Lock, 1, 1).envs[0]
    env.reset(options={"task_id": "0"})
    search = _Search(policy, SimulatorWorld(env))
    root = Node(payload=Reached(search.world.root, 0))
    (children,) = search.expand([root])
    assert {node.is_over for node in children} == {True, False}
    assert search.values(children) == [0.0 if node.is_over else 0.9 for node in children]


def test_what_is_cut_is_said_as_in_an_episode():
    said = []

    class Env:
        metrics, messages, hidden_information = types.MappingProxyType({}), ({"role": "user", "content": "?"},), ""

        def get_state(self):
            return 0

        def set_state(self, state, reseed=None):
            pass

        def step(self, text):
            said.append((text, False))
            return "", 1.0, True, False, {}

        def step_cut(self, text):
            said.append((text, True))
            return "", 0.0, True, False, {}

    world = SimulatorWorld(Env())
    assert [world.step(world.root, "a", is_cut=cut)[1] for cut in (False, True)] == [1.0, 0.0]
    assert [reply.reward for reply in replies_to(Env(), ["a", "a", "a"], [True, False, True])] == [0.0, 1.0, 0.0]
    assert said == [("a", False), ("a", True), ("a", True), ("a", False)]


def test_a_world_of_snapshots_returns_to_the_episode():
    env = dialogues(menu_lock.Lock, 1, 1).envs[0]
    env.reset(options={"task_id": "0"})
    world = SimulatorWorld(env)
    spot, reward, is_over = world.step(world.root, "red", seed=1)
    assert (spot.messages[-1]["content"], reward, is_over) == (HEARD[1], 0.0, False)
    assert world.step(world.root, "blue")[1:] == (0.1, True) and world.step(spot, "red")[1:] == (0.1, True) and world.turns == 3
    world.restore()
    assert env.messages == world.root.messages and not env.metrics


# ---- runs ------------------------------------------------------------------------------------------------------------------


def test_a_comparison_labels_the_search(tmp_path, tiny_model_folder, capsys):
    given = {
        **menu_lock.settings(tmp_path / "run", tiny_model_folder),
        "seeds": 1,
        "slinvit.samples": 2,
        "slinvit.depth": 1,
        "slinvit.horizon": 2,
    }
    assert compare.main(["--algorithms", "initial", "slinvit"], given) == 0
    assert "SLINVIT (search with simulator access)" in capsys.readouterr().out
    assert "search with simulator access" in (tmp_path / "run" / "report.md").read_text()
    rows = [row for row in read_rows(tmp_path / "run" / "seed_0" / "evaluation.jsonl") if row["agent"] == "slinvit"]
    assert all(row["simulated_turns"] > 0 for row in rows)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert {*results["algorithms"]} == {"initial", "slinvit"}


@pytest.mark.parametrize("critic", ["untrained", "value_head"])
def test_a_critic_of_the_run_values_leaves_and_one_that_is_missing_is_named(tmp_path, tiny_model_folder, critic):
    given = {
        **menu_lock.settings(tmp_path / "run", tiny_model_folder),
        "slinvit.leaf": "critic",
        "slinvit.critic": critic,
        "slinvit.depth": 1,
    }
    run = Run(comparison_job.parse(["--algorithms", "slinvit"], given)[1])
    algorithm = run.config.algorithms["slinvit"]
    if critic == "value_head":
        with pytest.raises(
            ValueError, match=r"`--slinvit.critic` 'value_head' has no files in .* `compare --algorithms value_head slinvit`"
        ):
            algorithm.load(run)
        return
    with closing(run.environment(run.tasks, 1)) as envs:
        envs.envs[0].reset(options={"task_id": run.tasks[0].id})
        (said,) = algorithm.load(run).generate_in(envs.envs, [0])
    assert said.simulated_turns == 0 and said.token_ids


def test_the_policy_is_one_that_searches():
    policy = lock_policy()
    assert isinstance(policy, SearchingPolicy) and not isinstance(TabularPolicy(["a"], ["b"]), SearchingPolicy)
    with pytest.raises(TypeError, match="call `generate_in`"):
        policy.generate([[]], [0])
    assert Slinvit.requires == {"snapshot"} and "simulator access" in Slinvit.title


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"leaf": "guess"}, "`leaf`"),
        ({"samples": 1}, "`breadth` must be at most `samples`, got 2 and 1."),
        ({"leaf": "critic", "critic": "nobody"}, "`critic`"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SlinvitConfig(**settings)
