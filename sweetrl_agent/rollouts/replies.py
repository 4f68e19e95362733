"""The other side's replies to candidates for a turn, from a snapshot: what a critic gets that requires it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.critic import Reply
from sweetrl_agent.core.dialogues import VOID
from sweetrl_agent.core.episode import Messages

#: How often a recorded dialogue is taken again: what is said there may depend on the machine, as a page does that renders too slowly.
TRIES = 2
Taken = TypeVar("Taken")


class NotRepeatedError(ColBenchError):
    """The environment replies otherwise than recorded."""


def say(env: Any, text: str, is_cut: bool = False) -> tuple[str, float, bool, bool, dict[str, Any]]:
    """`step` of a sub-environment; with a message that the limit of tokens cut, `step_cut` where there is one, as in an episode."""
    if not is_cut:
        return env.step(text)  # type: ignore[no-any-return]
    return env.step_cut(text) if hasattr(env, "step_cut") else env.step(text, True)  # type: ignore[no-any-return]


def replies_to(env: Any, texts: Sequence[str], cut: Sequence[bool] = ()) -> list[Reply]:
    """The reply to each candidate for the next turn, "" where it ends the episode. Equal candidates get equal replies.

    Args:
        env: A sub-environment with snapshots, in an episode that is not over; its state is the same afterwards.
        texts: The candidates.
        cut: Whether the limit of tokens cut each; () for none.

    Raises:
        ColBenchError: If a service that the environment needs has failed.
    """
    state, replies = env.get_state(), dict[tuple[str, bool], Reply]()
    candidates = list(zip(texts, cut or [False] * len(texts), strict=True))
    for candidate in dict.fromkeys(candidates):
        _, reward, *_ = say(env, *candidate)
        refuse_void(env)
        metrics, last = env.metrics, env.messages[-1]
        success = bool(metrics["success"]) if "success" in metrics else None
        replies[candidate] = Reply.of(last["content"] if last["role"] == "user" else "", float(reward), success)
        env.set_state(state)
    return [replies[candidate] for candidate in candidates]


def retaken(
    env: Any,
    task_id: str,
    seed: int,
    messages: Messages,
    was_cut: Sequence[bool],
    start: Taken,
    take: Callable[[Taken, str, bool], Taken],
) -> Taken:
    """Take the agent's turns of a recorded dialogue of one agent again in an environment, which is then in the state after them.

    Args:
        env: A sub-environment.
        task_id: Id of the dialogue's task.
        seed: Seed of its episode.
        messages: The dialogue.
        was_cut: Whether the limit of tokens cut each of the agent's messages; () for none.
        start: What `take` gets first.
        take: Function of what it returned before, a message and whether it was cut: takes the turn.

    Returns:
        What `take` returned last.

    Raises:
        NotRepeatedError: If the environment replies otherwise than recorded.
        ColBenchError: If a service that it needs has failed.
    """
    texts = [message["content"] for message in messages if message["role"] == "assistant"]
    turns = list(zip(texts, was_cut or [False] * len(texts), strict=True))
    for _ in range(TRIES):
        env.reset(seed=seed, options={"task_id": task_id})
        taken = start
        for turn in turns:
            taken = take(taken, *turn)
        if list(env.messages) == list(messages):
            return taken
    raise NotRepeatedError(
        f"The environment does not repeat a recorded dialogue of task {task_id!r}, so the replies to other candidates are not known. Credit "
        "by replies needs a reproducible environment: a simulated human on a server repeats itself with a `cache`."
    )


def replies_at(
    env: Any,
    task_id: str,
    seed: int,
    messages: Messages,
    was_cut: Sequence[bool],
    texts: Sequence[str],
    cut: Sequence[bool] = (),
) -> list[Reply]:
    """`replies_to` candidates for the next turn of a recorded dialogue, which is `retaken`: see both for arguments and errors."""

    def take(before: None, *turn: Any) -> None:
        say(env, *turn)
        refuse_void(env)

    retaken(env, task_id, seed, messages, was_cut, None, take)
    return replies_to(env, texts, cut)


def refuse_void(env: Any) -> None:
    """Refuse an episode that is void after a step.

    Raises:
        ColBenchError: Names the service that has failed.
    """
    if env.metrics.get("outcome") == VOID:
        raise ColBenchError(f"No reply to a candidate: {env.world_error}")
