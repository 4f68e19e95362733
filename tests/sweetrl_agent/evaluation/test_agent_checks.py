"""Refusals before a run: algorithms whose agents are not those of the environment, with the settings that fit; too few demonstrations."""

from __future__ import annotations

import pytest

from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.evaluation.checks import check
from tests.sweetrl_agent.team_games import Team


@pytest.fixture
def config(tmp_path):
    """Function: settings -> those of the game of three agents, whose demonstrations nobody reads."""
    (tmp_path / "sft.jsonl").touch()
    game = {"env": "tests.sweetrl_agent.team_games:Team-v0", "tasks": "seeds:0-7", "test_tasks": "seeds:10-11", "unseen_tasks": "", "demonstrations": str(tmp_path / "sft.jsonl")}  # fmt: skip
    return lambda algorithms=None, **given: make_config({**game, **given}, algorithms)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"algorithm": "at_grpo", "at_grpo.agents": ["interviewer", "codr"]}, "'at_grpo' takes .* interviewer, codr, and ColBench-Team-v0 has interviewer, coder: give --at_grpo.agents interviewer coder.$"),
        ({"algorithm": "malt", "malt.roles": ["coder", "interviewer"]}, "'malt' takes .* coder, interviewer in this order, .*: give --malt.roles interviewer coder.$"),
        ({"algorithm": "maporl", "env_kwargs": '{"roles": "debaters:3x2"}'}, "'maporl' takes .*: give --maporl.coders 3 --maporl.rounds 2.$"),
        ({"algorithm": "maporl"}, "'maporl' takes .*, and ColBench-Team-v0 has interviewer, coder: take another environment .*, or name its agents.$"),
        ({"algorithm": "sweet"}, "'sweet' learns from the dialogues of one agent, and ColBench-Team-v0 has interviewer, coder: take an on-policy"),
        ({"algorithm": "rft"}, "'rft' learns from the dialogues of one agent"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_team_is_refused_before_a_run(given, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        check(make_config({"env": "ColBench-Team-v0", **given}))


def test_fewer_demonstrations_than_an_optimizer_step_takes_are_refused():
    with pytest.raises(
        ValueError, match="^`sft_dialogues` must be at least `sft_batch`, 16, the dialogues of an optimizer step, got 5.$"
    ):
        check(make_config({"sft_dialogues": 5}))


def test_an_environment_that_names_no_agents_is_refused_by_who_speaks_first(config):
    with pytest.raises(ValueError, match="^'rft' learns from the dialogues of one agent, and .*Team-v0 has generator: take"):
        check(config(algorithm="rft"))
    with pytest.raises(
        ValueError, match="^'malt' takes .* refiner, generator in this order, and in .*Team-v0 'generator' speaks first"
    ):
        check(config(algorithm="malt", **{"malt.roles": ["refiner", "generator"]}))


def test_an_environment_that_names_its_agents_is_compared_with_all_of_them(config, monkeypatch):
    monkeypatch.setattr(Team, "agents", Team.order, raising=False)
    with pytest.raises(ValueError, match="^'malt' takes .*: give --malt.roles generator verifier refiner.$"):
        check(config(algorithm="malt", **{"malt.roles": ["generator", "refiner", "verifier"]}))
    check(config(algorithm="malt"))


@pytest.mark.parametrize(
    ("agents", "says"),
    [(("a b", "c"), "give --at_grpo.agents 'a b' c.$"), (("a/b", "c"), "take another environment .*, or name its agents.$"), (("verifier", "verifier#2"), "take another")],
)  # fmt: skip
def test_settings_that_fit_are_as_typed_in_a_shell_or_left_out(config, monkeypatch, agents, says):
    monkeypatch.setattr(Team, "agents", agents, raising=False)
    monkeypatch.setattr(Team, "order", agents)
    with pytest.raises(ValueError, match=f"^'at_grpo' takes .*: {says}"):
        check(config(algorithm="at_grpo", **{"at_grpo.agents": ["agent", "d"]}))


@pytest.mark.parametrize("roles", ['["interviewer", "coder"]', "3"])
def test_roles_that_are_no_text_are_refused(roles):
    with pytest.raises(ValueError, match="^`roles` must be text, got (list|3).$"):
        check(make_config({"env": "ColBench-Team-v0", "env_kwargs": f'{{"roles": {roles}}}', "algorithm": "grpo"}))


def test_what_cannot_be_mixed_is_refused_before_a_run(config):
    says = "^`agents` must name algorithms whose agent is one language model, and "
    given = {"collab.agents": ["at_grpo", "initial"], "at_grpo.agents": [*Team.order]}
    with pytest.raises(ValueError, match=f"{says}'at_grpo' trains several agents.$"):
        check(config(["initial", "at_grpo", "collab"], **given))
    with pytest.raises(ValueError, match=f"{says}'slinvit' chooses what it says in another way.$"):
        check(make_config({"collab.agents": ["slinvit"]}, ["initial", "slinvit", "collab"]))
    with pytest.raises(ValueError, match="'collab' is the mixture"):
        make_config({"collab.agents": ["collab"]}, ["collab"])
