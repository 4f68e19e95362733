"""PettingZoo: an environment that names who speaks next, in `info["agent"]`, as an agent-environment-cycle environment. Needs the extra `pettingzoo`.

env = to_aec(gym.make("ColBench-Team-v0", roles="generator,verifier,refiner"))
env.reset(seed=0)
for agent in env.agent_iter():
    observation, reward, terminated, truncated, info = env.last()
    env.step(None if terminated or truncated else policies[agent](observation["text"]))
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from colbench_gym.errors import ColBenchError
from colbench_gym.spaces import env_name
from sandboxes.extras import pip_install

try:
    from pettingzoo import AECEnv
except ImportError as missing:
    raise ImportError(f"Environments of PettingZoo need it ({missing}): `{pip_install('[pettingzoo]')}`.") from None


class TextAEC(AECEnv[str, dict[str, str], str]):
    """The agents of a Gymnasium environment over texts, one at a time.

    An observation is ``{"text": ...}``, since PettingZoo's tests require arrays or dictionaries: the latest text to the agent, "" before the first. Every agent
    gets the reward of every step, as a team. An agent's info is the one that came with its latest observation.

    Args:
        env: The environment, whose `env.unwrapped.agents` names all agents.

    Raises:
        ValueError: If it names none.
    """

    def __init__(self, env: gym.Env[str, str]) -> None:
        super().__init__()
        agents = getattr(env.unwrapped, "agents", ())
        if not agents:
            raise ValueError(
                f'{env_name(env)} names no agents: give it an attribute `agents`, the names of all, and `info["agent"]`, who speaks next.'
            )
        self.env = env
        self.render_mode = env.render_mode
        self.metadata = {
            **env.metadata,
            "name": env_name(env),
            "is_parallelizable": False,
        }
        self.possible_agents = list(agents)
        self.observation_spaces = {agent: gym.spaces.Dict({"text": env.observation_space}) for agent in self.possible_agents}
        self.action_spaces = dict.fromkeys(self.possible_agents, env.action_space)

    def observation_space(self, agent: str) -> gym.spaces.Dict:
        """The space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space[str]:
        """The space of an agent's actions."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode; of the options, "task_id" goes to the environment."""
        known = {name: value for name, value in (options or {}).items() if name == "task_id"}
        observation, info = self.env.reset(seed=seed, options=known)
        self.agents = list(self.possible_agents)
        self.rewards, self._cumulative_rewards = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._texts = dict.fromkeys(self.agents, "")
        self._tell(observation, info)

    def step(self, action: str | None) -> None:
        """Say `action` as `agent_selection`; None after its episode has ended."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        observation, reward, terminated, truncated, info = self.env.step(str(action))
        self._cumulative_rewards[agent] = 0.0
        self.rewards = dict.fromkeys(self.agents, float(reward))
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        self._accumulate_rewards()
        self._tell(observation, info)

    def observe(self, agent: str) -> dict[str, str]:
        """The latest text to an agent."""
        return {"text": self._texts[agent]}

    def render(self) -> Any:
        """See the environment."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _tell(self, observation: str, info: dict[str, Any]) -> None:
        """Pass a text on to the agent that the environment names."""
        if info.get("agent") not in self.possible_agents:
            raise ColBenchError(
                f'{env_name(self.env)} must name in `info["agent"]`, after `reset` and after every step, one of its agents '
                f"{', '.join(self.possible_agents)}, got {info.get('agent')!r}."
            )
        self.agent_selection = info["agent"]
        self._texts[self.agent_selection], self.infos[self.agent_selection] = observation, info


def to_aec(env: gym.Env[str, str]) -> TextAEC:
    """An environment of several agents as a PettingZoo AEC environment."""
    return TextAEC(env)
