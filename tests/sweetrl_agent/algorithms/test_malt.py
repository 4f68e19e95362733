"""MALT: values and pairs by brute force on random trees, how many calls a tree takes, DPO's gradient against a slow loop, learning, resume, and what it refuses."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_rows
from sweetrl_agent.algorithms import malt
from sweetrl_agent.algorithms.malt import MALT, MALTConfig
from sweetrl_agent.algorithms.malt_tree import Tree, backed_up, grown, sibling_pairs
from sweetrl_agent.core.episode import Episode, EpisodeKey, Turn
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.evaluation.checks import check
from sweetrl_agent.evaluation.costs import ledger
from sweetrl_agent.rollouts.collection import NothingToLearnError
from sweetrl_agent.rollouts.play import play
from sweetrl_agent.trainers import stage_training
from tests.sweetrl_agent.core.toys import TabularPolicy, dialogues, played
from tests.sweetrl_agent.plain_credit import bradley_terry_loss
from tests.sweetrl_agent.team_games import Team

ROLES = Team.order


def _random_trees(count, seed=0):
    """Leaves of trees of three levels with their values; some leaves are missing, as where a service failed."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(2, 5))
        every = list(itertools.product(range(n), repeat=3))
        kept = [leaf for leaf in every if rng.random() < rng.choice([0.5, 1.0])] or every[:1]
        yield {leaf: float(rng.random() < 0.5) for leaf in kept}


class Any(TabularPolicy):
    """Says one of its texts, whatever it hears."""

    def log_probs(self, messages):
        return torch.log_softmax(self.logits[0], dim=0)


def _value(leaves, node):
    if node in leaves:
        return leaves[node]
    children = {leaf[: len(node) + 1] for leaf in leaves if leaf[: len(node)] == node}
    return sum(_value(leaves, child) for child in children) / len(children)


# ---- the tree ---------------------------------------------------------------------------------------------------------------------


def test_values_are_means_over_children_on_random_trees():
    for leaves in _random_trees(200):
        values = backed_up(leaves)
        assert {*values} == {leaf[:depth] for leaf in leaves for depth in (1, 2, 3)}
        assert values == {node: pytest.approx(_value(leaves, node)) for node in values}
    assert backed_up({}) == {} and backed_up({(0, 0): 1.0, (0, 1): 0.0, (1, 0): 1.0}) == {
        (0, 0): 1.0, (0, 1): 0.0, (1, 0): 1.0, (0,): 0.5, (1,): 1.0,
    }  # fmt: skip


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_pairs_are_all_siblings_of_labels_1_and_0_and_none_is_across_parents(depth):
    found = 0
    for leaves in _random_trees(100, seed=depth):
        values = {node: value for node, value in backed_up(leaves).items() if len(node) == depth}
        pairs = sibling_pairs(values)
        assert all(better[:-1] == worse[:-1] for better, worse in pairs)
        by_parent = {}
        for node in values:
            by_parent.setdefault(node[:-1], []).append(node)
        assert {*pairs} == {
            (a, b)
            for siblings in by_parent.values()
            for a, b in itertools.permutations(siblings, 2)
            if int(values[a] > 0.5) == 1 and int(values[b] > 0.5) == 0
        }
        assert len({*pairs}) == len(pairs)
        found += len(pairs)
    assert found > 50
    assert sibling_pairs({(0, 0): 0.5, (0, 1): 0.6}) == [((0, 1), (0, 0))], "a value of a half has the label 0"


@pytest.mark.parametrize("n", [2, 3])
def test_a_tree_takes_n_and_n_squared_and_n_cubed_calls_and_its_nodes_share_what_is_before(n):
    texts = tuple("abcdefgh")

    policy, envs, keys = Any(texts, ("?",)), dialogues(Team, 2, num_envs=8), []

    def noted(given):
        keys.extend(given)
        return played(policy, envs, given, "tree", keeps_states=True)

    rows = json.loads(json.dumps(grown(["0", "1"], n, ROLES, noted)))
    assert [row["task_id"] for row in rows] == ["0", "1"] and len({key.seed(0, "tree") for key in keys}) == len(
        keys
    ) == 2 * n**3
    for row in rows:
        new = [turn["agent"] for leaf in row["leaves"] for turn in leaf["turns"][leaf["known"] :]]
        assert [new.count(role) for role in ROLES] == [n, n**2, n**3]
        leaves = {tuple(leaf["node"]): [turn["text"] for turn in leaf["turns"]] for leaf in row["leaves"]}
        assert [*leaves] == list(itertools.product(range(n), repeat=3))
        for depth in (1, 2, 3):
            said = {node[:depth]: texts[:depth] for node, texts in leaves.items()}
            assert all(texts[:depth] == said[node[:depth]] for node, texts in leaves.items())
        tree = Tree.of(row)
        for depth, role in enumerate(ROLES, 1):
            views = tree.said(role, depth)
            assert [*views] == list(dict.fromkeys(node[:depth] for node in leaves))
            assert all(view.turns[0].text == leaves[(*node, *[0] * (3 - depth))][depth - 1] for node, view in views.items())
            assert all(view.messages[-1]["role"] == "assistant" and len(view.messages) == 2 for view in views.values())


def test_a_void_episode_is_no_leaf_and_has_no_branches():
    class Fails(Team):
        def step(self, action):
            if len(self.said) == 2 and action == "b":
                raise ConnectionError("down")
            return super().step(action)

    envs = dialogues(Fails, 1, num_envs=4)
    (row,) = grown(["0"], 3, ROLES, lambda keys: played(Any(("a", "b", "c"), ("?",)), envs, keys, "x", keeps_states=True))
    tree = Tree.of(row)
    assert 0 < len(tree.leaves) < len(row["leaves"]) < 27
    assert all(episode.turns[-1].text != "b" for episode in tree.leaves.values())


# ---- in a run -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def make_run(make_team_run):
    """Function: name, settings of MALT, others -> a run of the game of three roles on the tiny model."""

    def make_it(name, others=(), **settings):
        defaults = {"n": 2, "sft_learning_rate": 3e-3, "sft_epochs": 2.0, "dpo_learning_rate": 3e-3, "dpo_epochs": 1.0}
        given = {"tasks": "seeds:0-5", "generation_batch": 32, **dict(others)}
        return make_team_run("malt", name, "Team-v0", {**defaults, **settings}, **given)

    return make_it


def _success(run, policies):
    """Mean return and success of 60 episodes."""
    keys = [EpisodeKey(str(i % 6), i // 6) for i in range(60)]
    episodes = [e for shard in play(policies, run.environment(run.tasks, 32), keys, 0, "after") for e in shard]
    return np.mean([episode.metrics["success"] for episode in episodes])


def test_a_team_gets_better_and_every_role_has_its_policy(make_run):
    run = make_run("run", n=3, sft_learning_rate=1e-2, sft_epochs=4.0)
    algorithm = run.config.algorithms["malt"]
    algorithm.train(run)
    assert _success(run, algorithm.load(run)) > _success(run, run.load_policy()) + 0.15
    weights = {role: run.path(f"malt/{role}/model.safetensors").read_bytes() for role in ROLES}
    sft = {role: run.path(f"malt/sft/{role}/model.safetensors").read_bytes() for role in ROLES}
    assert len({*weights.values()}) == 3 and weights["generator"] == sft["generator"], "the generator has no DPO"
    assert weights["verifier"] != sft["verifier"] and weights["refiner"] != sft["refiner"]
    (row,) = read_rows(run.path("metrics.jsonl"))
    costs = ledger(run, ["malt"])["malt"]
    assert row["environment_turns"] == costs["environment_turns"] == 6 * (3 + 9 + 27) and row["episodes"] == 6 * 27
    agents = costs["agents"]
    assert [(of["dialogues"], of["environment_turns"]) for of in map(agents.get, ROLES)] == [
        (6 * 3**n, 6 * 3**n) for n in (1, 2, 3)
    ]
    for cost in ("generated_tokens", "trained_tokens"):
        assert sum(of[cost] for of in agents.values()) == costs[cost] and min(of[cost] for of in agents.values()) > 0
    assert costs["generated_tokens"] == row["generated_tokens"] > 0 and costs["trained_tokens"] > 0
    assert 0 < row["refiner/positive"] == row["success"] < 1 and 0 < row["verifier/positive"] < 1


def _once(rows):
    """The rows without repetitions, in order."""
    return [row for i, row in enumerate(rows) if row not in rows[:i]]


def test_what_a_role_has_said_twice_is_trained_on_once(make_run, monkeypatch):
    def leaf(node):  # what good leaves say is one text, and what bad ones say another
        said = [*zip(ROLES, ["a", "b", "c" if node[-1] < 2 else "bad"], strict=True)]
        messages = [{"role": who, "content": text, "agent": role} for role, text in said for who in ("user", "assistant")]
        return Episode("0", 0, messages, [Turn(text, agent=role) for role, text in said], {"outcome": "ended"}, 0.0)

    leaves = {node: leaf(node) for node in itertools.product(range(3), repeat=3)}
    tree = Tree(leaves, backed_up({node: float(node[-1] < 2) for node in leaves}))
    run, seen, algorithm = make_run("run"), {}, MALT()
    monkeypatch.setattr(MALT, "trees", lambda algorithm, view: [tree, tree])
    monkeypatch.setattr(malt, "fine_tune", lambda view, stage, rows, *_, **__: seen.update({stage: list(rows)}))
    for role in ROLES:
        algorithm.clone(run, role)
    assert [[row.turns[0].text for row in rows] for rows in seen.values()] == [["a"], ["b"], ["c"]]
    (pair,) = algorithm.pairs(run, "refiner")
    assert (pair["chosen"][-1]["content"], pair["rejected"][-1]["content"]) == ("c", "bad")


@pytest.mark.parametrize(
    "spoken", [("generator", "verifier", "generator"), ("generator", "refiner", "verifier"), ("generator", "other")]
)
def test_agents_that_speak_again_or_in_another_order_or_have_no_level_are_refused(spoken):
    class Other(Team):
        order = spoken

    envs = dialogues(Other, 1, num_envs=4)
    with pytest.raises(ColBenchError, match=f"verifier, refiner, in this order, and here they speak as {', '.join(spoken)}: "):
        grown(["0"], 2, ROLES, lambda keys: played(Any(("a", "b"), ("?",)), envs, keys, "x", keeps_states=True))


@pytest.mark.parametrize("settings", [{"dpo_generator": True}, {"policies": "one"}])
def test_data_are_those_of_a_policys_roles(make_run, monkeypatch, settings):
    run, seen = make_run("run", **settings), {}
    trained = {}

    def fine_tune(view, stage, episodes, config, folder, is_merged):
        seen[stage] = list(episodes)
        folder.mkdir(parents=True)

    def pair_trainer(start, model, pairs, folder, arguments, **loss):
        trained[folder.name] = (start, pairs, loss)
        raise malt.NothingToLearnError("stop")

    monkeypatch.setattr(malt, "fine_tune", fine_tune)
    monkeypatch.setattr("sweetrl_agent.trainers.critic.pair_trainer", pair_trainer)
    algorithm = run.config.algorithms["malt"]
    with pytest.raises(NothingToLearnError, match="stop"):
        algorithm.train(run)
    trees = [Tree.of(row) for row in read_rows(run.path("malt/tree.jsonl"))]
    name = "team" if "policies" in settings else "generator"
    roles = ROLES if "policies" in settings else ROLES[:1]
    positives = [
        view.messages
        for tree in trees for depth, role in enumerate(ROLES, 1) if role in roles
        for node, view in tree.said(role, depth).items() if tree.values[node] > 0.5
    ]  # fmt: skip
    assert [episode.messages for episode in seen[f"sft {name}"]] == _once(positives)
    start, pairs, loss = trained[name]
    depths = (2, 3) if "policies" in settings else (1,)
    expected = [
        [tree.said(ROLES[depth - 1], depth)[node].messages for node in nodes]
        for tree in trees for depth in depths
        for nodes in sibling_pairs({node: value for node, value in tree.values.items() if len(node) == depth})
    ]  # fmt: skip
    plain = [
        [[{"role": m["role"], "content": m["content"]} for m in row[side]] for side in ("chosen", "rejected")] for row in pairs
    ]
    assert plain == _once([pair for pair in expected if pair[0] != pair[1]]) and plain
    assert start == str(run.path(f"malt/sft/{name}")) and (loss["form"], loss["beta"], loss["nll_coef"]) == ("sum", 0.2, 1.0)


def test_the_gradient_of_dpo_is_that_of_a_slow_loop_and_the_reference_is_the_sft_model(make_run, monkeypatch):
    run, seen, original = make_run("run", dpo_nll=0.0), {}, stage_training.train_stage

    def train_stage(trainer, tokenizer, folder, stage, callbacks, is_merged):
        if stage == "dpo refiner":
            seen["trainer"] = trainer
            raise KeyboardInterrupt
        return original(trainer, tokenizer, folder, stage, callbacks, is_merged=is_merged)

    monkeypatch.setattr(stage_training, "train_stage", train_stage)
    with pytest.raises(KeyboardInterrupt):
        run.config.algorithms["malt"].train(run)
    trainer = seen["trainer"]
    reference = run.load_policy("malt/sft/refiner").model
    row = trainer.train_dataset[0]

    def log_prob(model, side):
        """The sum over the tokens of the turn, one at a time."""
        ids, turns = row[f"{side}_ids"], row[f"{side}_turn_ids"]
        logits = model(torch.tensor([ids])).logits[0]
        return sum(torch.log_softmax(logits[i - 1], dim=0)[ids[i]] for i in range(1, len(ids)) if turns[i])

    with torch.no_grad():
        before = [log_prob(reference, side) for side in ("chosen", "rejected")]
        for parameter in trainer.model.parameters():  # so that the gradient is not that at the reference
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    trainer.model.eval()
    chosen, rejected = (log_prob(trainer.model, side) - old for side, old in zip(("chosen", "rejected"), before, strict=True))
    slow = -torch.nn.functional.logsigmoid(0.2 * (chosen - rejected))
    parameters = list(trainer.model.parameters())
    expected = torch.autograd.grad(slow, parameters)
    loss = trainer._compute_loss(trainer.model, trainer.data_collator([row]), False)
    found = torch.autograd.grad(loss, parameters)
    assert (
        loss.item()
        == pytest.approx(bradley_terry_loss(chosen.item(), rejected.item(), 0.2), rel=1e-4)
        != pytest.approx(math.log(2))
    )
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-5), (one - other).abs().max()
    assert max(gradient.abs().max() for gradient in expected) > 1e-3


class Killed(Exception):
    """Stands for the kill."""


@pytest.mark.parametrize(
    ("moments", "others"),
    [(("append_rows", "fine_tune", "train_stage"), {}), (("train_stage",), {"lora": True, "lora_r": 2})],
    ids=["whole weights", "adapters"],
)
def test_a_run_that_was_killed_ends_with_the_same_files(make_run, monkeypatch, moments, others):
    monkeypatch.setattr(malt, "TASKS_PER_BATCH", 2)
    whole = make_run("whole", others)
    whole.config.algorithms["malt"].train(whole)
    for killed_at in moments:
        where = stage_training if killed_at == "train_stage" else malt
        cut, original, calls = make_run(killed_at, others), getattr(where, killed_at), []

        def kill(*given, original=original, calls=calls, where=where, **named):
            calls += [1] * (where is malt or given[3].startswith("dpo"))
            if len(calls) == 2:
                raise Killed
            return original(*given, **named)

        with monkeypatch.context() as patch:
            patch.setattr(where, killed_at, kill)
            with pytest.raises(Killed):
                cut.config.algorithms["malt"].train(cut)
            cut.config.algorithms["malt"].train(cut)
        files = [
            {
                path.relative_to(run.path(".")): path.read_bytes()
                for path in run.path("malt").rglob("*.*")
                if path.suffix in (".jsonl", ".safetensors") or path.name == "round.json"
            }
            for run in (whole, cut)
        ]
        assert files[0] == files[1] and len(files[0]) == 1 + 1 + 6, killed_at
        assert read_rows(whole.path("metrics.jsonl")) == read_rows(cut.path("metrics.jsonl"))
    if others:
        assert not [*whole.path("malt").rglob("adapter_config.json")], "every role has whole weights"
        whole.config.algorithms["malt"].load(whole)


def test_without_a_success_there_is_nothing_to_train_on_and_a_role_without_one_stays_as_it_is(make_run, monkeypatch):
    monkeypatch.setattr(Team, "reward", lambda self: 0.0)
    run = make_run("run")
    with pytest.raises(NothingToLearnError, match="^No episode of the trees succeeds, so there is nothing to train on"):
        run.config.algorithms["malt"].train(run)
    monkeypatch.setattr(Team, "reward", lambda self: float(len({*self.said[2]}) % 3 == 0))
    run = make_run("other", n=4)
    monkeypatch.setattr(
        Tree, "said", lambda self, role, depth, said=Tree.said: {} if role == "verifier" else said(self, role, depth)
    )
    algorithm = run.config.algorithms["malt"]
    algorithm.train(run)
    assert run.unchanged == {"malt/verifier": "No node of the role has label 1."}
    policies = algorithm.load(run)
    assert policies["verifier"] is not policies["refiner"] and not run.path("malt/verifier").exists()


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("n", "1", "must be at least 2, got 1"), ("policies", "x", "must be one of"), ("roles", "a", r"must name at least two agents, got \['a'\]"),
     ("roles", "a,a", "must be different names"), ("roles", "a,../b", "must be different names")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=f"`malt.{setting}` {error}"):
        comparison_job.parse([f"--malt.{setting}", value])


def test_an_environment_of_other_agents_and_an_agent_that_forgets_are_refused(make_run, tiny_model_folder):
    with pytest.raises(
        ValueError,
        match="^'malt' takes an environment of the agents a, b in this order, and in tests.sweetrl_agent.team_games:Team-v0 'generator' speaks first: take another",
    ):
        check(make_run("run", roles=["a", "b"]).config)
    with pytest.raises(ValueError, match="'malt' compares whole dialogues, .* take `--history -1`, got 0"):
        check(make_run("other", {"history": 0}).config)
    assert MALT().requires == {"snapshot"} and MALT(MALTConfig(policies="one")).folders == ("malt/team",)
