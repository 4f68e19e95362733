"""ColBench-AnyTeam-v0: any environment of a single agent, whose answers a team writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import gymnasium as gym

from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.colbench_env import ColBenchEnv
from colbench_gym.envs.team_roles import HAND_OVER, NOTE_CHARS, Role, check_channel, make_team
from colbench_gym.reasoning import AUTO, Reasoning
from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.scoring.vote import plurality
from colbench_gym.spaces import ASCII, UnicodeText, elapsed_steps, env_name, set_elapsed_steps, step_cut
from sandboxes.arguments import typed


class AnyTeamEnv(gym.Env[str, str]):
    """Any environment of a single agent as the answer turn of a team.

    ## Description
    The first role of the team plays the environment up to an answer. The other roles then deliberate as in ColBench-Team-v0, and what they hand over is sent to the environment as the agent's
    message. In an environment whose answers have a marker, they deliberate over the answer alone; in any other, over every message. There, a debate has no interviewer.
    An interviewer that writes the marker hands over, as with ``HAND OVER:``.

    ## Observation
    Text. For the first role, what the environment says; "Sent:" and the team's message precede it if that is not the role's own. For the others what their role reads of
    the dialogue and of the deliberation. Instructions name a marker only if answers have one.

    ## Action
    Text: a message to the environment, a note, a critique or an answer. Thoughts are removed as the environment does, else between known marks. `step_cut` is `step` for a message that the limit of tokens cut; if it is sent
    to the environment, it goes to the environment's own `step_cut`, if there is one.

    ## Reward
    That of the environment's step; 0 while the team deliberates.

    ## Episode end
    That of the environment.

    ## Info
    "agent": who speaks next; at the end, the first role. For the first role also the environment's info without "messages".

    ## Arguments
    * `env`: id of an environment with text observations and actions, or the environment.
    * `env_kwargs`: its keyword arguments.
    * `roles`: as in ColBench-Team-v0.
    * `marker`: what an answer contains, such as "I WANT TO ANSWER:"; "" if every message is one. None for that of ColBench's environments, and "" for any other.
    * `note_chars`: longer notes are cut.
    * `choose`: "vote" for the most frequent text of the last round of a debate, "first" for the first coder's.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    @typed
    def __init__(
        self,
        env: str | gym.Env[Any, Any] = "ColBench-Backend-v0",
        env_kwargs: Mapping[str, Any] | None = None,
        roles: str = "generator,verifier,refiner",
        marker: str | None = None,
        note_chars: int = NOTE_CHARS,
        choose: Literal["vote", "first"] = "vote",
    ) -> None:
        """Make the environment and the team. The class documents the arguments."""
        check_channel(note_chars, choose)
        team = make_team(roles)
        self.env: gym.Env[Any, Any] = env if isinstance(env, gym.Env) else gym.make(env, **(env_kwargs or {}))
        if not isinstance(self.env.action_space, gym.spaces.Text | UnicodeText):
            raise ValueError(
                f"`env` must be an environment whose actions are texts, and those of {env_name(self.env)!r} are of {self.env.action_space}."
            )
        if len(agents := getattr(self.env.unwrapped, "agents", ())) > 1:
            raise ValueError(
                f"`env` must be an environment of a single agent, and {env_name(self.env)!r} has {', '.join(agents)}."
            )
        is_ours = isinstance(self.env.unwrapped, ColBenchEnv)
        self.marker = (ANSWER_MARKER if is_ours else "") if marker is None else marker
        first, *others = team.roles
        first = replace(first, ending=first.ending.replace(ANSWER_MARKER, self.marker) if self.marker else "")
        self.roles = tuple(others) if team.is_debate and not self.marker else (first, *others)
        self.note_chars, self.choose = note_chars, choose
        self.observation_space = gym.spaces.Text(10_000_000, min_length=0, charset=ASCII)
        self.action_space = gym.spaces.Text(1_000, min_length=0, charset=ASCII)
        self._talk = Dialogue()
        self._said: list[dict[str, Any]] = []
        self._met: list[str] = []
        self._sent, self._own, self._info = "", "", dict[str, Any]()

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in the order in which they speak."""
        return tuple(role.name for role in self.roles)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode of the environment."""
        super().reset(seed=seed)
        observation, self._info = self.env.reset(seed=seed, options=options)
        self._talk = Dialogue().add("user", _last(observation, self._info))
        self._said, self._met, self._sent, self._own = [], [], "", ""
        return self._observation(), self._seen()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say `action` as the agent that speaks next."""
        return self._step(action, False)

    def step_cut(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """As `step`, of a message that was cut by the limit of tokens."""
        return self._step(action, True)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def __getattr__(self, name: str) -> Any:
        """What the environment has besides, such as `hidden_information`; snapshots and keys of both if it has them, and no menu of actions."""
        if name.startswith("_") or name in ("env", "discrete_actions"):
            raise AttributeError(name)
        value = getattr(self.env.unwrapped, name)
        if name == "state_key":
            return value, *(answer["text"] for answer in self._said)
        return {"get_state": self._get_state, "set_state": self._set_state}.get(name, value)

    def _get_state(self) -> dict[str, Any]:
        own = {"talk": self._talk.to_dicts(), "said": self._said, "met": self._met, "sent": self._sent, "own": self._own}
        inner: Any = self.env.unwrapped
        return {"env": inner.get_state(), "limits": elapsed_steps(self.env), "info": self._info, **own}

    def _set_state(self, state: Mapping[str, Any], reseed: int | None = None) -> tuple[str, dict[str, Any]]:
        self.env.unwrapped.set_state(state["env"], reseed=reseed)  # type: ignore[attr-defined]
        set_elapsed_steps(self.env, state["limits"])
        self._talk, self._info = Dialogue.from_dicts(state["talk"]), state["info"]
        self._said, self._met, self._sent, self._own = (state[name] for name in ("said", "met", "sent", "own"))
        return self._observation(), self._seen()

    @property
    def _role(self) -> Role:
        return self.roles[len(self._said)]

    def _step(self, action: str, is_cut: bool) -> tuple[str, float, bool, bool, dict[str, Any]]:
        role, parsed = self._role, getattr(self.env.unwrapped, "parsed", None)
        text = (parsed(action).utterance if parsed else Reasoning(AUTO).speech(str(action))).strip()
        self._met = [*self._met, role.name]
        self._own = text if role.talks else self._own
        marker = next((marker for marker in self._markers(role) if marker and marker in text), "")
        if role.talks and self.marker and not marker and not self._is_last():
            return self._send(text, is_cut)
        handed = text.partition(marker)[2].strip() if marker else text
        handed = handed[: self.note_chars] if role.writes == "note" else handed
        said = [*self._said, {"agent": role.name, "text": handed, "cut": is_cut}]
        if len(said) < len(self.roles):
            self._said = said
            return self._observation(), 0.0, False, False, self._seen()
        written = [one for one, role in zip(said, self.roles, strict=True) if role.answers]
        whole = [answer for answer in written if not answer["cut"]] or written
        chosen = whole[plurality([answer["text"] for answer in whole]) if self.choose == "vote" else 0]
        return self._send(f"{self.marker}\n{chosen['text']}" if self.marker else chosen["text"], chosen["cut"])

    def _markers(self, role: Role) -> tuple[str, ...]:
        """What ends the part of a role; the environment's own marker also ends an interviewer's, or it would answer past the others."""
        return (HAND_OVER, self.marker) if role.writes == "note" else (self.marker,)

    def _is_last(self) -> bool:
        """Whether the next message ends the episode of an environment that states its limit."""
        return bool(self._talk.num_turns + 1 == getattr(self.env.unwrapped, "turn_limit", 0))

    def _send(self, text: str, is_cut: bool) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Send a message to the environment."""
        observation, reward, terminated, truncated, self._info = step_cut(self.env, text) if is_cut else self.env.step(text)
        self._talk = self._talk.add("assistant", text).add("user", _last(observation, self._info))
        self._said, self._sent = [], text
        return self._observation(), float(reward), terminated, truncated, self._seen()

    def _observation(self) -> str:
        """What the agent that speaks next is told."""
        role = self._role
        if role.name in self._met:
            role = replace(role, instruction="", ending="")
        said = {answer["agent"]: answer["text"] for answer in self._said}
        if role.talks:
            return role.first_message(self._news(), said)
        return role.first_message(self._talk.transcript() if role.hears else self._talk.messages[0].content, said)

    def _news(self) -> str:
        """What the first role has not heard yet."""
        news = self._talk.messages[-1].content
        return f"Sent: {self._sent}\n\n{news}" if self._sent and self._sent != self._own else news

    def _seen(self) -> dict[str, Any]:
        info = {name: value for name, value in self._info.items() if name != "messages"} if not self._said else {}
        return {**info, "agent": self._role.name}


def _last(observation: Any, info: Mapping[str, Any]) -> str:
    """What the environment said last."""
    return str(info["messages"][-1]["content"] if info.get("messages") else observation)
