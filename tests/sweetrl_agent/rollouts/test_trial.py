"""Before a run: do two copies of its environment repeat an episode? And dialogues with generators of their own, which do."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from colbench_gym.simulators import Simulator
from sweetrl_agent import compare, evaluate, train
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.core.agents import AgentPolicy
from sweetrl_agent.core.dialogues import TextDialogues
from sweetrl_agent.evaluate import run_evaluate
from sweetrl_agent.rollouts.play import episodes_of, play
from sweetrl_agent.rollouts.trial import check_trial, trial_of

FOLDER = Path(__file__).parent
GLOBAL = ("python", "numpy", "normal", "torch")


@pytest.fixture(autouse=True)
def _module(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)


def config(kind="python", **settings):
    given = {
        "env": "drawing_envs:DrawnNumber-v0", "env_kwargs": json.dumps({"kind": kind}), "tasks": "seeds:0-9", "test_tasks": "seeds:10-12",
        "unseen_tasks": "", "model": "hub/name", **settings,
    }  # fmt: skip
    return make_config(given)


def trial(kind, **settings):
    given = config(kind, **settings)
    return trial_of(given, given.record)


def drawn():
    return random.random(), float(np.random.rand()), float(torch.rand(()))


@pytest.mark.parametrize("kind", [*GLOBAL, "seeded"])
def test_copies_agree_where_each_dialogue_has_its_own_generators(kind):
    found = trial(kind)
    assert (found.difference, found.untried, found.draws_from) == ("", "", ())
    assert found.num_steps >= 30 and found.step_s > 0 and found.reset_s > 0


@pytest.mark.parametrize(
    ("kind", "name"),
    list(zip(GLOBAL, ("Python's `random`", "`numpy.random`", "`numpy.random`", "torch"), strict=True)),
)
def test_copies_differ_where_they_share_the_global_generators(kind, name):
    found = trial(kind, isolate_generators="false")
    assert found.difference.startswith("the observation after turn ") and found.draws_from == (name,)


@pytest.mark.parametrize("kind", ["unseeded", "leftover", "shared"])
def test_what_no_generator_of_its_own_can_mend_is_seen(kind):
    found = trial(kind)
    assert found.difference and not found.is_reproducible
    assert found.difference.endswith("when one of them plays it again") == (kind == "leftover")


@pytest.mark.parametrize(("named", "is_revealed"), [("it", True), ("all", False), ("nothing", False)])
def test_an_opening_that_reveals_what_is_hidden_is_seen_and_a_list_of_choices_is_none(named, is_revealed, caplog):
    given = config(env="drawing_envs:Reveals-v0", env_kwargs=json.dumps({"named": named}))
    assert trial_of(given, given.record).reveals_hidden == is_revealed
    check_trial(given)
    assert ("reveals its hidden information in the first message" in caplog.text) == is_revealed


@pytest.mark.parametrize("keeps", ["all", "no number", "no turn", "no generator", "alias"])
def test_a_snapshot_that_does_not_restore_the_episode_is_seen(keeps, caplog):
    given = config(env="drawing_envs:Snapshots-v0", env_kwargs=json.dumps({"keeps": keeps}))
    found = trial_of(given, given.record)
    assert found.is_reproducible and bool(found.lost) == (keeps != "all")
    seen = ("the hidden information",) if keeps == "no number" else ("the observation", "the end of the episode")
    assert not found.lost or found.lost.partition(" after turn ")[0] in seen
    check_trial(given)
    assert ("does not return to its snapshots" in caplog.text) == (keeps != "all")


def test_what_breaks_the_contract_after_the_trial_is_a_sentence(tmp_path, capsys):
    words = ["drawing_envs:odd", "--env", "drawing_envs:Late-v0", "--tasks", "seeds:0-2", "--output", str(tmp_path / "e")]
    assert evaluate.main(words) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert (
        said
        == "error: the environment does not keep the contract of environments: the reward of `step` must be a finite number, got nan (float)."
    )


def test_a_draw_at_construction_is_the_same_in_every_dialogue():
    arguments = json.dumps({"kind": "python", "at_construction": True})
    assert trial("python", env_kwargs=arguments).is_reproducible


@pytest.mark.parametrize("kind", [*GLOBAL, "unseeded"])
def test_a_trial_draws_from_nobodys_generators(kind):
    for isolated in ("auto", "false"):
        random.seed(0), np.random.seed(0), torch.manual_seed(0)
        expected = drawn()
        random.seed(0), np.random.seed(0), torch.manual_seed(0)
        trial(kind, isolate_generators=isolated, max_turns=3)
        assert drawn() == expected


def _rows(folder, kind, **settings):
    run_evaluate(
        "drawing_envs:guesses", env="drawing_envs:DrawnNumber-v0", env_kwargs={"kind": kind}, tasks="seeds:0-7", episodes=2, output=str(folder),
        log_level="error", **settings,
    )  # fmt: skip
    return [json.loads(line) for line in (folder / "evaluation.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("kind", GLOBAL)
def test_episodes_do_not_depend_on_the_dialogues_beside_them(kind, tmp_path):
    alone, few, many = (_rows(tmp_path / str(size), kind, generation_batch=size) for size in (1, 3, 16))
    assert alone == few == many
    assert len({str(row["dialogue_history"]) for row in alone}) > 3, "tasks differ"
    together = [_rows(tmp_path / f"shared {size}", kind, generation_batch=size, isolate_generators=False) for size in (1, 3)]
    assert together[0] != together[1]


def test_episodes_do_not_depend_on_the_number_of_workers(tmp_path, monkeypatch):
    if importlib.util.find_spec("ray") is None:  # imported here, it would listen on the whole network
        pytest.skip("needs Ray, of the extra `ray`")
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    here, there = (_rows(tmp_path / str(n), "python", generation_batch=3, ray_workers=n) for n in (0, 2))
    assert here == there


COMMANDS = {
    "train": (train.main, ["--model", "hub/name", "--algorithm", "grpo"]),
    "compare": (compare.main, ["--model", "hub/name", "--algorithms", "initial", "grpo", "--seeds", "1"]),
    "evaluate": (evaluate.main, ["drawing_envs:guesses"]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_it_in_one_sentence_and_refuses_where_it_is_asked_to(command, tmp_path, capsys):
    main, words = COMMANDS[command]
    arguments = json.dumps({"kind": "unseeded"})
    given = [*words, "--env", "drawing_envs:DrawnNumber-v0", "--env_kwargs", arguments, "--output", str(tmp_path / "out")]
    main([*given, "--dry_run"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("trial ")]
    assert "is not reproducible: two copies" in line and line.endswith("paired differences mean nothing here.")
    assert main([*given, "--require_reproducible", "true"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: `require_reproducible` is true, and `env` 'drawing_envs:DrawnNumber-v0' is not reproducible: "
    )
    main(
        [
            *words,
            "--env",
            "drawing_envs:DrawnNumber-v0",
            "--output",
            str(tmp_path / "out"),
            "--dry_run",
            "--require_reproducible",
        ]
    )
    assert "trial      two copies of the environment agree in all of " in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_run_warns(tmp_path, capsys):
    _rows(tmp_path / "eval", "unseeded")
    assert "is not reproducible" not in "".join(capsys.readouterr()), "below --log_level"
    words = [
        "drawing_envs:guesses",
        "--env",
        "drawing_envs:DrawnNumber-v0",
        "--env_kwargs",
        '{"kind": "unseeded"}',
        "--tasks",
        "seeds:0-2",
    ]
    assert evaluate.main([*words, "--output", str(tmp_path / "other")]) == 0
    assert capsys.readouterr().out.count("is not reproducible") == 1


def test_what_waits_for_a_server_is_not_tried_and_keeps_its_threads_unless_it_is_isolated():
    given = config(env="drawing_envs:DrawnNumber-v0", env_record="drawing_envs:Waits")
    assert trial_of(given, given.record).is_reproducible is None
    with pytest.raises(
        ValueError, match="^`require_reproducible` is true, and `env` 'x' is played in no trial episode .its steps wait"
    ):
        trial_of(given, given.record).require("x")
    record = type("Patient", (type(config().record),), {"waits": True})()
    tasks = record.load_tasks("seeds:0-3", given.task)
    for isolated, has_threads in (("auto", True), ("true", False)):
        envs = record.environments(config(isolate_generators=isolated), tasks, 2)
        assert isinstance(envs, TextDialogues) and (envs._threads is not None) == has_threads
        envs.close()


class Server(Simulator):
    model = "one that costs money"

    def reply(self, task, dialogue, seed):
        raise AssertionError("a model server is not asked in a trial")


class Moody(Simulator):
    def reply(self, task, dialogue, seed):
        return f"{random.choice(['Yes', 'No'])}. {random.random()}"


@pytest.mark.parametrize("name", ["Server", "Moody"])
def test_a_human_of_the_users_own_is_tried_unless_it_is_a_model_server(name):
    monkey = {"simulator": f"{__name__}:{name}"}
    found = {
        isolated: trial_of(own, own.record)
        for isolated in ("auto", "true")
        for own in [make_config({**monkey, "isolate_generators": isolated})]
    }
    if name == "Server":
        assert {one.untried for one in found.values()} == {"its human is a model server"}
    else:
        assert not found["auto"].is_reproducible and found["true"].is_reproducible


def test_environments_of_ours_are_reproducible_without_a_trial_and_keep_the_global_generators():
    given = make_config()
    assert trial_of(given, given.record).is_reproducible and not trial_of(given, given.record).num_steps
    assert not given.record.isolates(given.task)
    game = make_config(
        {"env": "LMRL-TwentyQuestions-v0", "tasks": "seeds:0-9", "test_tasks": "seeds:20-21", "unseen_tasks": ""}
    )
    assert not game.record.isolates(game.task) and trial_of(game, game.record).is_reproducible
    served = '{"oracle": {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}}'
    asked = game.with_settings({"env_kwargs": served})
    assert trial_of(asked, asked.record).untried == "its other side is a model server"


@pytest.mark.parametrize(("given", "kept"), [(True, "true"), (False, "false"), ("True", "true"), ("auto", "auto")])
def test_the_setting_takes_booleans(given, kept):
    assert config(isolate_generators=given).task.isolate_generators == kept
    with pytest.raises(ValueError, match="^`isolate_generators` must be one of"):
        config(isolate_generators="perhaps")


class Arena(gym.Env):
    """A game of TextArena for one player. Its wrapper keeps what it has shown beyond `reset`, so the game is made again."""

    def __init__(self, game):
        self.observation_space = self.action_space = gym.spaces.Text(2000, min_length=0)
        self.name = game

    def reset(self, *, seed=None, options=None):
        import textarena

        super().reset(seed=seed)
        self.game = textarena.make(self.name)
        self.game.reset(num_players=1, seed=seed)
        return str(self.game.get_observation()[1]), {}

    def step(self, action):
        is_done, _ = self.game.step(action)
        if is_done:
            rewards, info = self.game.close()
            return str(info), float(rewards[0]), True, False, {}
        return str(self.game.get_observation()[1]), 0.0, False, False, {}


if "TextArenaGame-v0" not in gym.registry:
    gym.register("TextArenaGame-v0", entry_point=Arena, disable_env_checker=True)


@pytest.mark.parametrize("game", ["2048-v0", "Blackjack-v0"])
def test_a_game_of_textarena_which_draws_in_its_steps(game):
    pytest.importorskip("textarena", reason="TextArena is not installed: pip install textarena")
    from colbench_gym.agents.agent import FunctionAgent

    said = {"2048-v0": ("[Up]", "[Left]", "[Down]", "[Right]"), "Blackjack-v0": ("[Hit]", "[Stand]")}[game]
    policy = AgentPolicy(FunctionAgent(lambda messages: said[len(messages) // 2 % len(said)]))

    def played(isolated, num_envs):
        given = config(env="TextArenaGame-v0", env_kwargs=json.dumps({"game": game}), max_turns=12, isolate_generators=isolated)
        tasks = given.record.load_tasks("seeds:0-4", given.task)
        envs = given.record.environments(given, tasks, num_envs)
        keys = episodes_of([task.id for task in tasks], 2)
        return trial_of(given, given.record), [one for shard in play(policy, envs, keys, 0, "test") for one in shard]

    found, alone = played("auto", 1)
    assert found.is_reproducible and played("auto", 3)[1] == alone == played("auto", 10)[1]
    found, alone = played("false", 1)
    assert found.draws_from == ("Python's `random`",) and found.difference and played("false", 3)[1] != alone
    assert "textarena" in sys.modules
