"""Any Gymnasium environment over texts as a dialogue: observations are the user's messages, actions are the agent's messages."""

from __future__ import annotations

import copy
import logging
from collections.abc import Container, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import gymnasium as gym

from colbench_gym.errors import ColBenchError, CostError
from colbench_gym.generators import PrivateGenerators
from colbench_gym.spaces import elapsed_steps, set_elapsed_steps, step_cut
from sweetrl_agent.core import contract

#: Outcomes of an episode: terminated, truncated at its limit of turns, or void because the environment failed.
ENDED, CUT, VOID = "ended", "cut", "void"
#: Turns after which an episode that goes on is reported.
MANY_TURNS = 1000
#: The agent of an environment that has only one, and names none.
AGENT = "agent"
#: Failures of services that an environment depends on. Any other exception in a step is a bug of the environment and is raised.
WORLD_ERRORS = (ConnectionError, TimeoutError, ColBenchError)
_log = logging.getLogger(__name__)


def speaks_as(agent: str, named: Container[str] = ()) -> str:
    """The agent whose policy an agent has: "refiner#2", the refiner in a second dialogue of its own, has that of "refiner", unless it is `named` itself."""
    return agent if agent in named else agent.partition("#")[0]


def view_of(messages: Sequence[dict[str, str]], agent: str) -> list[dict[str, str]]:
    """What one agent sees of a dialogue of several: what it said and what was said to it.

    Args:
        messages: The dialogue; messages of other agents than `AGENT`, and to them, have the agent's name as "agent".
        agent: Name of the agent.
    """
    seen = [message for message in messages if message.get("agent", AGENT) == agent]
    return [{"role": message["role"], "content": message["content"]} if "agent" in message else message for message in seen]


class DialogueEnvs(Protocol):
    """Environments as `rollouts.play` steps them, asynchronously.

    Each of `envs` has `reset(seed=, options={"task_id": ...})`, `prepare()` and the attributes `messages`, `hidden_information` ("" for none),
    `metrics` of the finished episode ("outcome", "success", "turns", "answered" and the record's metric) and `world_error`. Those of environments with
    several agents also have `agent`, who speaks next, and `all_messages`; `messages` are then what that agent sees. Those with the capability
    *snapshot* also have `get_state()` and `set_state(state, reseed=None)`, those with *anchor* `state_key`, those with *verifier* `score_answer(text)`.
    """

    num_envs: int

    @property
    def envs(self) -> Sequence[Any]:
        """The environments."""
        ...

    def submit(self, i: int, action: str, is_cut: bool = False) -> Future[tuple[Any, float, bool, bool, dict[str, Any]]]:
        """Send one message of the agent, cut by the limit of tokens or whole, to environment i: a future of what its `step` returns."""
        ...

    def close(self) -> Any:
        """Close all of them."""
        ...


class TextDialogue:
    """One environment, one episode at a time.

    Args:
        env: Its observations and actions are texts. The keys "messages", "success" (or "is_success"), "metrics" and "agent" (the name of the agent
            that speaks next, to whom the observation is) of its infos are used if present. If the "outcome" of the last info is "void", so is the
            episode, because of `world_error` of the environment.
        seeds: Seed of every task, by task id.
        metric: Name of the metric, higher is better: "return", or a key of the last info or of its "metrics".
        max_turns: Agent turns after which an episode is truncated; 0 leaves this to the environment.
        generators: A state of the global generators that this dialogue alone draws from, seeded by the task; None for the process's.

    Attributes:
        world_error: The error that made the last void episode void.
        agent: Name of the agent that speaks next; `AGENT` if the environment names none.
        all_messages: The dialogue so far, of all agents, as `Episode.messages`.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        seeds: Mapping[str, int],
        metric: str,
        max_turns: int,
        generators: PrivateGenerators | None = None,
    ) -> None:
        self.env, self.metric, self.max_turns, self._generators = env, metric, max_turns, generators
        self.world_error: Exception | None = None
        self._seeds = seeds
        self.agent, self.all_messages = AGENT, list[dict[str, str]]()
        self._metrics: dict[str, Any] = {}
        self._return, self._turns = 0.0, 0

    @property
    def messages(self) -> list[dict[str, str]]:
        """The dialogue so far: everything that the agent that speaks next may see."""
        return view_of(self.all_messages, self.agent)

    @property
    def metrics(self) -> dict[str, Any]:
        """Metrics of the finished episode; {} while it is running."""
        return dict(self._metrics)

    @property
    def reference(self) -> str:
        """The answer to the task, for an oracle.

        Raises:
            AttributeError: If the environment has none.
        """
        return str(self.env.unwrapped.reference)  # type: ignore[attr-defined]

    @property
    def hidden_information(self) -> str:
        """Privileged information now: critics may see it in training, the actor never does; "" if the environment has none."""
        return contract.text("`hidden_information`", getattr(self.env.unwrapped, "hidden_information", ""))

    @property
    def state_key(self) -> Hashable:
        """The key of its state, of an environment that has them (capability *anchor*)."""
        key: Hashable = self.env.unwrapped.state_key  # type: ignore[attr-defined]
        return key

    def prepare(self) -> None:
        """Does nothing: no part of it is slow to start."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> str:
        """Start an episode of the task `options["task_id"]`. The environment is seeded by the task: its episodes differ only in the agent's actions.

        Args:
            seed: Seed of the episode; not used.
            options: "task_id".
        """
        task_id = (options or {})["task_id"]
        if self._generators is not None:
            self._generators.seed("task", self._seeds[task_id])
        with self._isolated():
            observation, info = contract.started(self.env.reset(seed=self._seeds[task_id]))
        self.agent, self.all_messages, self._metrics, self._return, self._turns = AGENT, [], {}, 0.0, 0
        _ = self.hidden_information  # of a wrong type, it is refused before the episode is played
        self._append_observation(observation, info)
        return observation

    def get_state(self) -> dict[str, Any]:
        """A snapshot of the episode, of an environment that has them."""
        return {
            "env": self.env.unwrapped.get_state(),  # type: ignore[attr-defined]
            "dialogue": copy.deepcopy(
                (self.agent, self.all_messages, self._metrics, self._return, self._turns, self._generators)
            ),
            "limits": elapsed_steps(self.env),
        }

    def set_state(self, state: Mapping[str, Any], reseed: int | None = None) -> None:
        """Return to a snapshot.

        Args:
            state: A value of `get_state`, of this dialogue or of another one of the same environment, which has been reset once.
            reseed: None replays the future exactly; a seed keeps the past and samples a new future.
        """
        self.agent, self.all_messages, self._metrics, self._return, self._turns, self._generators = copy.deepcopy(
            state["dialogue"]
        )
        if self._generators is not None and reseed is not None:
            self._generators.seed("branch", reseed)
        with self._isolated():
            self.env.unwrapped.set_state(state["env"], reseed=reseed)  # type: ignore[attr-defined]
        set_elapsed_steps(self.env, state["limits"])

    def redraw_hidden(self, seed: int) -> None:
        """Draw anew what is hidden, of an environment that can: from its distribution given what the agent has seen (capability *redraw*)."""
        with self._isolated():
            self.env.unwrapped.redraw_hidden(seed)  # type: ignore[attr-defined]

    def score_answer(self, text: str) -> Any:
        """What the verifier says of a text as an answer in this state, of an environment that has one (capability *verifier*)."""
        with self._isolated():
            return self.env.unwrapped.score_answer(text)  # type: ignore[attr-defined]

    def step(self, action: str, is_cut: bool = False) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Send one message of the agent; returns what `gymnasium.Env.step` returns.

        An error of `WORLD_ERRORS` makes the episode void: it is counted, but used for neither training nor means.

        Args:
            action: The message.
            is_cut: Whether the limit of tokens cut it. It then goes to the environment's method `step_cut`, if it has one.
        """
        self.all_messages.append(self._named("assistant", action))
        self._turns += 1
        try:
            with self._isolated():
                observation, reward, terminated, truncated, info = contract.stepped(
                    step_cut(self.env, action) if is_cut else self.env.step(action)
                )
        except WORLD_ERRORS as error:
            if isinstance(error, CostError):
                raise
            self.world_error = error
            self._metrics = {"outcome": VOID, "turns": self._turns}
            return "", 0.0, False, True, {}
        self._return += reward
        truncated = truncated or (0 < self.max_turns <= self._turns and not terminated)
        if self._turns == MANY_TURNS and not (terminated or truncated):
            _log.warning(
                "An episode has had %d turns and goes on: if your environment may never end, give `--max_turns`.", MANY_TURNS
            )
        if terminated or truncated:
            self._metrics = self._measured(info, terminated)
        self._append_observation(observation, info)
        return observation, reward, terminated, truncated, dict(info)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _isolated(self) -> AbstractContextManager[None]:
        return nullcontext() if self._generators is None else self._generators.in_use()

    def _append_observation(self, observation: str, info: Mapping[str, Any]) -> None:
        if not self._metrics or "agent" in info:
            self.agent = self._next_agent(info)
        if "messages" in info:  # in the places of what the agent has seen so far: turns keep their order
            given = [self._named(str(message["role"]), message["content"]) for message in info["messages"]]
            places = [i for i, message in enumerate(self.all_messages) if message.get("agent", AGENT) == self.agent]
            for place, message in zip(places, given, strict=False):
                self.all_messages[place] = message
            left_out = {*places[len(given) :]}
            kept = [message for i, message in enumerate(self.all_messages) if i not in left_out]
            self.all_messages = [*kept, *given[len(places) :]]
        elif not self._metrics:  # the last observation is not part of the dialogue: the agent does not answer it
            self.all_messages.append(self._named("user", observation))

    def _named(self, role: str, text: str) -> dict[str, str]:
        """A message of the agent, or to it."""
        return {"role": role, "content": text, **({} if self.agent == AGENT else {"agent": self.agent})}

    def _next_agent(self, info: Mapping[str, Any]) -> str:
        agent = info.get("agent", AGENT)
        has_others = any("agent" in message for message in self.all_messages)
        if not isinstance(agent, str) or not agent or (has_others and "agent" not in info):
            raise contract.ContractError(
                f'`info["agent"]` must name who speaks next, after `reset` and after every step, got {info.get("agent")!r}; an environment of a '
                "single agent leaves it out everywhere."
            )
        agents = getattr(self.env.unwrapped, "agents", ()) if "agent" in info else ()
        if agents and agent not in agents:
            raise contract.ContractError(
                f'`info["agent"]` must be one of the environment\'s `agents`, {", ".join(map(repr, agents))}; got {agent!r}.'
            )
        return agent

    def _measured(self, info: Mapping[str, Any], terminated: bool) -> dict[str, Any]:
        metrics = {**info, **(info["metrics"] if isinstance(info.get("metrics"), Mapping) else {})}
        if metrics.get("outcome") == VOID:
            failure = getattr(self.env.unwrapped, "world_error", None)
            self.world_error = failure or ColBenchError("The environment reports that it failed.")
            return {"outcome": VOID, "turns": self._turns}
        name = next((name for name in ("success", "is_success") if name in metrics), "")
        success = contract.number(f'`info["{name}"]`', metrics[name]) if name else self._return > 0
        if self.metric != "return" and self.metric not in metrics:
            raise contract.ContractError(
                f"the last info of an episode must contain the metric {self.metric!r}, got {sorted(metrics)}."
            )
        return {
            "outcome": ENDED if terminated else CUT,
            "success": int(bool(success)),
            "return": self._return,
            **(
                {}
                if self.metric == "return"
                else {self.metric: contract.number(f"the metric {self.metric!r}", metrics[self.metric])}
            ),
            "answered": int(terminated),
            "turns": self._turns,
        }


class TextDialogues:
    """Several dialogues, stepped asynchronously.

    Args:
        envs: The dialogues.
        waits: Their steps wait for other services and run in threads. Otherwise steps run one after the other, in the order of `submit`, so
            that environments with shared state are deterministic too.
    """

    def __init__(self, envs: Sequence[TextDialogue], waits: bool = False) -> None:
        self.envs, self.num_envs = envs, len(envs)
        self._threads = ThreadPoolExecutor(len(envs), thread_name_prefix="environment") if waits else None

    def submit(self, i: int, action: str, is_cut: bool = False) -> Future[tuple[Any, float, bool, bool, dict[str, Any]]]:
        """See `DialogueEnvs`."""
        if self._threads is not None:
            return self._threads.submit(self.envs[i].step, action, is_cut)
        done: Future[tuple[Any, float, bool, bool, dict[str, Any]]] = Future()
        done.set_result(self.envs[i].step(action, is_cut))
        return done

    def close(self) -> None:
        """Close all of them."""
        if self._threads is not None:
            self._threads.shutdown()
        for env in self.envs:
            env.close()
