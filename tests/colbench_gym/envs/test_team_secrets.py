"""What one agent of a team may not see reaches no observation and no info of another; and what is hidden reaches none of them."""

from __future__ import annotations

import json
import logging

import gymnasium as gym
import pytest

from colbench_gym.tasks.embedded import embedded_tasks
from tests.colbench_gym.envs.team_tools import TEAMS, played

#: For each agent, the agents whose last message it may read, besides its own dialogue; "talk" stands for the dialogue with the human.
MAY_READ = {
    "interviewer,coder": {"interviewer": set(), "coder": {"interviewer"}},
    "generator,verifier,refiner": {
        "generator": set(),
        "verifier": {"talk", "generator"},
        "refiner": {"talk", "generator", "verifier"},
    },
    "generator,verifier,refiner:2": {
        "generator": set(),
        "verifier": {"talk", "generator"},
        "refiner": {"talk", "generator", "verifier"},
        "verifier#2": {"talk", "generator"},
        "refiner#2": {"talk", "generator", "verifier#2"},
    },
    "debaters:2x2": {
        "interviewer": set(),
        "coder1_1": {"talk"},
        "coder2_1": {"talk"},
        "coder1_2": {"talk", "coder1_1", "coder2_1"},
        "coder2_2": {"talk", "coder1_1", "coder2_1"},
    },
}


def _canary(name):
    return f"CANARY-{name.replace('_', '-').replace('#', '-pass-')}-X"


def _audit(steps, may_read):
    """Every canary that an agent is shown is one that it may see; and it is shown all of these."""
    canaries = [_canary(name) for name in ("talk", *may_read)]
    first = steps[0].agent
    for i, step in enumerate(steps):
        shown = step.observation + json.dumps(step.info)
        own = {"talk"} if step.agent == first and i else set()
        expected = {_canary(name) for name in may_read[step.agent] | own}
        assert {canary for canary in canaries if canary in shown} == expected, step.agent
    observation, *_, info = steps[-1].result
    last = steps[-1].agent
    shown = {canary for canary in canaries if canary in observation + json.dumps(info)}
    assert shown <= {_canary(name) for name in may_read[last] | {last}} and info["agent"] == last


@pytest.mark.parametrize("roles", TEAMS)
def test_an_agent_is_shown_what_its_role_reads_and_nothing_else(sandbox, total_task, roles):
    env = gym.make("ColBench-Team-v0", roles=roles, tasks=[total_task()], sandbox=sandbox)
    says = {agent: _canary(agent) for agent in TEAMS[roles][1:]}
    steps = played(env, "", _canary(TEAMS[roles][0]), f"{_canary('talk')}?", **says)
    _audit(steps, MAY_READ[roles])
    every = json.dumps(env.unwrapped.all_messages)
    assert all(_canary(name) in every for name in ("talk", *TEAMS[roles]))
    env.close()


@pytest.mark.parametrize("roles", TEAMS)
def test_so_it_is_around_any_environment(sandbox, total_task, roles):
    inner = {"tasks": [total_task()], "sandbox": sandbox}
    env = gym.make("ColBench-AnyTeam-v0", roles=roles, env_kwargs=inner)
    markers = {"interviewer,coder": "HAND OVER:"}
    says = {agent: _canary(agent) for agent in TEAMS[roles][1:]}
    observation, info = env.reset(seed=0)
    shown, may_read = {}, MAY_READ[roles]
    for text in (
        f"{_canary('talk')}?",
        f"{markers.get(roles, 'I WANT TO ANSWER:')} {_canary(TEAMS[roles][0])}",
        *says.values(),
    ):
        shown.setdefault(info["agent"], []).append(observation + repr(info))
        assert "messages" not in info
        observation, _, terminated, _, info = env.step(text)
    assert terminated and [*shown] == [*TEAMS[roles]]
    for agent, texts in shown.items():
        seen = {
            name for name in ("talk", *may_read) if _canary(name) in "".join(texts[1:] if agent == TEAMS[roles][0] else texts)
        }
        assert seen == may_read[agent], agent
    env.close()


def test_the_second_of_a_pair_is_shown_the_note_and_not_the_dialogue_of_the_first(sandbox):
    env = gym.make("ColBench-Split-v0", tasks="embedded:test[:20]", sandbox=sandbox)
    steps = played(env, "", _canary("note"), f"{_canary('talk')}?", second=f"{_canary('second')}?")
    seconds = [step for step in steps if step.agent == "second"]
    shown = "".join(step.observation + json.dumps(step.info) for step in seconds)
    assert _canary("note") in shown and _canary("second") in shown and _canary("talk") not in shown
    assert _canary("talk") not in repr(steps[-1].result) and len(seconds) == 6
    env.close()


@pytest.mark.parametrize("roles", [*TEAMS, "split"])
@pytest.mark.parametrize("end", ["answered", "simulator", "sandbox"])
def test_what_is_hidden_reaches_no_agent(humans, sandbox, canary_task, roles, end, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    arguments = {"simulator": humans.Mute(always=False)} if end == "simulator" else {}
    arguments |= {"sandbox": humans.BrokenSandbox() if end == "sandbox" else sandbox, "render_mode": "ansi"}
    if roles == "split":
        canary_task = embedded_tasks("test")[4]
        env = gym.make("ColBench-Split-v0", tasks=[canary_task], **arguments)
        hidden = [fact.sentence for fact in canary_task.hidden.facts] + canary_task.hidden.reference.splitlines()[1:-1]
    else:
        env = gym.make("ColBench-Team-v0", roles=roles, tasks=[canary_task], **arguments)
        hidden = ["xq7canaryz9"]
    steps = played(env, "def total(p): return 1", question="boom" if end == "simulator" else "What is the weather?")
    text = "".join(repr((step.observation, step.info, step.result)) for step in steps) + repr(env) + str(env.unwrapped.render())
    text += json.dumps([step.state for step in steps] if roles != "split" else []) + caplog.text + "".join(capfd.readouterr())
    assert not [secret for secret in hidden if secret.lower() in text.lower()]
    assert steps[-1].result[3] == (end != "answered")
    if end != "answered" and roles != "split":
        assert hidden[0] in str(env.unwrapped.world_error).lower()
    env.close()
