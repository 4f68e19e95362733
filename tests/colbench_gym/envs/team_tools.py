"""What the tests of teams share: roles, and whole episodes of scripted messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Roles and the agents of each, in order.
TEAMS = {
    "interviewer,coder": ("interviewer", "coder"),
    "generator,verifier,refiner": ("generator", "verifier", "refiner"),
    "generator,verifier,refiner:2": ("generator", "verifier", "refiner", "verifier#2", "refiner#2"),
    "debaters:2x2": ("interviewer", "coder1_1", "coder2_1", "coder1_2", "coder2_2"),
}


@dataclass
class Step:
    """What an agent saw and said, and what came of it."""

    agent: str
    observation: str
    info: dict[str, Any]
    state: dict[str, Any]
    text: str
    result: tuple[Any, ...]

    @property
    def reward(self):
        return self.result[1]


def played(env, final, note="a note", question="How do you round?", seed=0, **says):
    """Play an episode; returns its steps.

    Args:
        env: An environment of several agents.
        final: What an agent of one message says.
        note: What an agent that talks hands over in its second turn, after its marker.
        question: What it says in its first turn.
        seed: Seed of the episode.
        **says: What other agents say, by name.
    """
    env = env.unwrapped
    markers = {role.name: role.marker for role in env.team.roles if role.talks}
    observation, info = env.reset(seed=seed)
    steps, is_over = [], False
    while not is_over:
        agent = info["agent"]
        hands_over = any(step.agent == agent for step in steps)
        text = says.get(agent, (f"{markers[agent]} {note}" if hands_over else question) if agent in markers else final)
        before, state = (observation, info), env.get_state()
        observation, reward, terminated, truncated, info = env.step(text)
        steps.append(Step(agent, *before, state, text, (observation, reward, terminated, truncated, info)))
        is_over = terminated or truncated
    return steps
