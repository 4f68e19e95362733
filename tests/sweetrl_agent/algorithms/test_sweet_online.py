"""SWEET-RL in rounds: its first round is SWEET-RL file by file, what later rounds start from and are compared with, its costs, and that it learns and resumes."""

from __future__ import annotations

import shutil

import pytest

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms import sweet, sweet_online
from sweetrl_agent.algorithms.settings import make_algorithms
from sweetrl_agent.algorithms.sweet import Sweet, SweetConfig
from sweetrl_agent.algorithms.sweet_online import SweetOnline, SweetOnlineConfig
from sweetrl_agent.config.pipeline import stages_of
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.evaluation.costs import ledger
from sweetrl_agent.evaluation.main_job import with_work
from sweetrl_agent.rollouts.collection import NothingToLearnError
from sweetrl_agent.trainers.rounds import Round
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.running import TRAINED_TOKENS

GAME = {
    "env": "tests.sweetrl_agent.vowels_game:Vowels-v0", "max_new_tokens": 4, "system_prompt": "", "generation_batch": 16, "threads": 1, "temperature": 1.0,
    "tasks": "seeds:0-5", "test_tasks": "seeds:100-101", "unseen_tasks": "", "sft_dialogues": 0, "num_tasks": 6, "trajectories_per_task": 3, "min_best": 0.0,
    "dtype": "float32",
}  # fmt: skip
SETTINGS = {
    "num_states": 8, "num_candidates": 4, "critic_epochs": 1.0, "critic_batch": 4, "critic_micro_batch": 2, "actor_batch": 4, "actor_micro_batch": 2,
    "actor_epochs": 1.0, "critic_learning_rate": 1e-3, "actor_learning_rate": 1e-3,
}  # fmt: skip
FILES = (
    "trajectories.jsonl",
    "outcome_pairs.jsonl",
    "critic/model.safetensors",
    "candidates.jsonl",
    "scores.jsonl",
    "turn_pairs.jsonl",
    "policy/model.safetensors",
)


@pytest.fixture
def make(tmp_path, tiny_model_folder):
    """Function: folder, algorithm, settings of it -> a run of the game of vowels."""

    def make(folder, algorithm="sweet_online", game=(), **settings):
        of_algorithm = {f"{algorithm}.{name}": value for name, value in {**SETTINGS, **settings}.items()}
        given = {**GAME, **dict(game), "output": tmp_path / folder, "model": tiny_model_folder, **of_algorithm}
        return Run(comparison_job.parse(["--algorithms", algorithm], given)[1])

    return make


def _train(run):
    for stage in with_work(stages_of(run.algorithm)).values():
        if stage.name not in ("sft", "evaluate", "report"):
            with run.stage(stage):
                stage.run(run)
    return run


def test_the_first_round_is_sweet_rl(make):
    offline = _train(make("offline", "sweet"))
    for reference in ("current", "initial"):
        online = _train(make(reference, rounds=1, reference=reference))
        for file in FILES:
            assert online.path(f"sweet_online/round_1/{file}").read_bytes() == offline.path(file).read_bytes(), file
        agent = online.path("sweet_online/agent/model.safetensors").read_bytes()
        assert agent == offline.path("policy/model.safetensors").read_bytes()
        (row,) = read_rows(online.path("metrics.jsonl"))
        costs = [ledger(run, [name])[name] for run, name in ((offline, "sweet"), (online, "sweet_online"))]
        for name in ("environment_turns", "generated_tokens", "trained_tokens", "sandbox_runs", "simulator_calls"):
            assert costs[0][name] == costs[1][name], name
        assert (row["episodes"], row["environment_turns"]) == (18, 36) and row["outcome_pairs"] and row["turn_pairs"]


def _spied(monkeypatch, run):
    """What each stage of each round took for the initial policy, after training."""
    seen = []
    for module, names in ((sweet_online, ("collect",)), (sweet, ("train_critic", "sample_candidates", "rank", "train_actor"))):
        for name in names:
            original = getattr(module, name)
            monkeypatch.setattr(
                module,
                name,
                lambda view, f=original, n=name: (seen.append((view.folder.name, n, view.initial_model, view.seed)), f(view))[
                    1
                ],
            )
    _train(run)
    return seen


@pytest.mark.parametrize("reference", ["current", "initial"])
def test_later_rounds_play_by_the_current_policy_and_train_from_the_reference(make, monkeypatch, reference, tiny_model_folder):
    run = make("online", rounds=2, tasks=6, reference=reference)
    seen = _spied(monkeypatch, run)
    start, first = str(tiny_model_folder), str(run.path("sweet_online/round_1/policy"))
    assert [model for folder, _, model, _ in seen if folder == "round_1"] == [start] * 5
    later = {name: model for folder, name, model, _ in seen if folder == "round_2"}
    assert later["collect"] == later["sample_candidates"] == first
    assert {later[name] for name in ("train_critic", "rank", "train_actor")} == {first if reference == "current" else start}
    assert {(folder, seed) for folder, _, _, seed in seen if folder == "round_1"} == {("round_1", run.seed)}
    assert len({seed for _, _, _, seed in seen}) == 2
    rows = read_rows(run.path("metrics.jsonl"))
    assert [row["episodes"] for row in rows] == [18, 36] and rows[1][TRAINED_TOKENS] > rows[0][TRAINED_TOKENS]
    files = [
        run.path(f"sweet_online/{name}/model.safetensors").read_bytes()
        for name in ("agent", "round_2/policy", "round_1/policy")
    ]
    assert files[0] == files[1] != files[2]


def test_rounds_share_the_tasks_in_rotation(make):
    run = make("online", rounds=4)
    algorithm = run.algorithm
    ids = [[task.id for task in algorithm.rounds(run, number, "")[0].tasks] for number in (1, 2, 6, 7)]
    assert ids == [["0"], ["1"], ["5"], ["0"]]
    larger = algorithm.with_config(make_algorithms(["sweet_online"], {"sweet_online.tasks": 4})["sweet_online"].config)
    assert [[task.id for task in larger.rounds(run, number, "")[0].tasks] for number in (1, 2)] == [
        ["0", "1", "2", "3"],
        ["4", "5", "0", "1"],
    ]
    assert isinstance(larger.rounds(run, 1, "")[0], Round)


def test_a_round_without_a_difference_ends_the_training(make, monkeypatch, caplog):
    run = make("online", rounds=3, tasks=6)
    original = sweet_online.pair_outcomes

    def pair_outcomes(view):
        if view.folder.name != "round_1":
            raise NothingToLearnError("no difference")
        original(view)

    monkeypatch.setattr(sweet_online, "pair_outcomes", pair_outcomes)
    _train(run)
    first, last = read_rows(run.path("metrics.jsonl"))
    assert (first["step"], last["step"]) == (1, 2) and "policy before round 2: no difference" in caplog.text
    assert (
        last["episodes"] == 2 * first["episodes"] and last["generated_tokens"] > first["generated_tokens"]
    )  # round 2 was played
    assert last[TRAINED_TOKENS] == first[TRAINED_TOKENS] and last["turn_pairs"] == 0
    assert (
        run.path("sweet_online/agent/model.safetensors").read_bytes()
        == run.path("sweet_online/round_1/policy/model.safetensors").read_bytes()
    )
    monkeypatch.setattr(sweet_online, "pair_outcomes", lambda view: (_ for _ in ()).throw(NothingToLearnError("no difference")))
    shutil.rmtree(run.path("sweet_online"))
    with pytest.raises(NothingToLearnError, match="no difference"):
        run.algorithm.train(run)


def test_a_callback_ends_the_rounds_and_a_round_requires_what_sweet_rl_does(make, monkeypatch):
    run = make("online", rounds=3, tasks=6)
    monkeypatch.setattr(run.callbacks, "tell", lambda event, *values: not (event == "on_log" and values[0] == "sweet_online"))
    _train(run)
    assert [row["step"] for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "sweet_online"] == [1]
    configured = SweetOnline().with_config(SweetOnlineConfig(answers="verifier"))
    assert (
        configured.requires
        == Sweet().with_config(SweetConfig(answers="verifier")).requires
        > {"hidden"}
        == SweetOnline().requires
    )


class Killed(Exception):
    """Stands for the kill."""


@pytest.mark.parametrize(("lora", "moments"), [(False, ("train_critic", "rank")), (True, ("train_critic",))])
def test_a_run_that_was_killed_ends_with_the_same_files(make, monkeypatch, lora, moments):
    settings = {"rounds": 2, "tasks": 6, "game": {"lora": lora, "lora_r": 2}}
    whole = _train(make("whole", **settings))
    for killed_at in moments:
        cut, original, calls = make(killed_at, **settings), getattr(sweet, killed_at), []

        def kill(view, original=original):
            if view.folder.name == "round_2":
                raise Killed
            original(view)

        with monkeypatch.context() as patch:
            patch.setattr(sweet, killed_at, kill)
            with pytest.raises(Killed):
                _train(cut)
        with monkeypatch.context() as patch:
            patch.setattr(sweet_online, "collect", calls.append)
            _train(cut)
        assert not calls  # what was finished is not done again
        files = [
            {
                p.relative_to(run.path(".")): p.read_bytes()
                for p in run.path("sweet_online").rglob("*.*")
                if p.suffix in (".jsonl", ".safetensors")
            }
            for run in (whole, cut)
        ]
        assert files[0] == files[1] and len(files[0]) >= 15, killed_at
        assert read_rows(whole.path("metrics.jsonl")) == read_rows(cut.path("metrics.jsonl"))
    if lora:
        assert not whole.path("sweet_online/agent/adapter_config.json").exists()
        whole.algorithm.load(whole)


def test_the_return_rises_over_rounds(make):
    game = {"trajectories_per_task": 8}
    settings = {"num_states": 32, "num_candidates": 8, "actor_learning_rate": 1e-2, "critic_epochs": 2.0, "actor_epochs": 2.0}
    run = _train(make("online", rounds=3, tasks=6, game=game, **settings))
    returns = [row["return"] for row in read_rows(run.path("metrics.jsonl"))]
    assert returns[-1] > 1.2 * returns[0], returns


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("rounds", "0", "must be at least 1, got 0"), ("tasks", "-1", "must be at least 0, got -1"), ("critic_batch", "3", "must be a multiple of"),
     ("reference", "best", r"must be one of \('current', 'initial'\), got 'best'")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=f"`sweet_online.{setting}` {error}"):
        comparison_job.parse([f"--sweet_online.{setting}", value])
