"""Credit per turn as advantages per token, for trainers that take them: TRL, verifiers and prime-rl, SkyRL, verl, rLLM, Tinker.

    rows = turn_credit(episodes, critic, tokenizer)

A critic is anything with `dialogue_advantages` (`core.critic.Critic`), or a function that maps episodes to a number for each of their turns. With the credit
c_t of turn t of an episode and the return r, the advantage of every token of the turn is

    outcome(r) + weight * (c_t - center) / scale.

outcome(r) is GRPO's: r standardized over the episodes of the task, as TRL does it. `center` and `scale` are the mean and the standard deviation of the credit of
*all* turns of the task's episodes. Centring each turn index apart is a common alternative, and biased where episodes differ in length: of a turn that one
episode alone reaches, the credit is its own mean, so nothing of it is left (verl issue 7244).

A number belongs to a turn and is copied to the tokens that were sampled, so a critic with another tokenizer fits. It is a function of what is hidden: use
it in training, and never show it to an agent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, SupportsFloat

import numpy as np
from transformers import AutoModelForCausalLM, AutoTokenizer

from colbench_gym.reasoning import AUTO
from colbench_gym.task_ids import public_id
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.critic import Critic, all_advantages
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import Episode, Hidden, Messages
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.settings import require
from sweetrl_agent.critics.gain import GainCritic, Targets
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.trainers.preflight import check_model

#: Credit of the turns of an episode; None for a turn that the rule gives no number.
TurnCredit = Sequence[float | None]
#: Maps episodes to the credit of their turns.
Rule = Callable[[Sequence[Episode]], Sequence[TurnCredit]]
STANDARDIZED, CENTERED, NONE, TASK, TURN = "standardized", "centered", "none", "task", "turn"
#: What is added to a standard deviation, as in TRL.
EPSILON = 1e-4
SCHEMA = 1


@dataclass(frozen=True)
class Scale:
    """How credit and return become an advantage.

    Attributes:
        outcome: "standardized" over the task's episodes as in GRPO, "centered" on their mean, or "none".
        weight: Weight of the credit; 0 for the outcome alone.
        center: "task" subtracts the mean credit of all turns of the task's episodes, "turn" that of the turns of the same index, "none" nothing.
        scale: "task" divides by the standard deviation of the credit of all turns of the task's episodes, "none" does not.
    """

    outcome: str = STANDARDIZED
    weight: float = 1.0
    center: str = TASK
    scale: str = TASK

    def __post_init__(self) -> None:
        """Refuse unknown names, and a weight that is no finite number.

        Raises:
            ValueError: Lists the names.
        """
        if isinstance(self.weight, bool | str) or not math.isfinite(self.weight):
            raise ValueError(f"`weight` must be a finite number, got {self.weight!r}.")
        require("outcome", self.outcome, (STANDARDIZED, CENTERED, NONE))
        require("center", self.center, (TASK, TURN, NONE))
        require("scale", self.scale, (TASK, NONE))


#: GRPO's outcome, and standardized credit.
DEFAULT = Scale()
#: The rule's numbers as they are.
RAW = Scale(NONE, 1.0, NONE, NONE)


@dataclass(frozen=True)
class TokenCredit:
    """An episode, or a part of it, as a trainer takes it. All lists but `turn_credit` and `prompt_ids` have the length T of `completion_ids`.

    Attributes:
        task_id: Public id of the task.
        episode: Index of the episode within its task.
        sequence: Index of the part within its episode. There are several parts where the chat template, or the tokenizer, renders past turns in another
            way than they were sampled; then each part has the context that its turns were sampled in.
        reward: The return; None if the episode is void.
        turn_credit: The raw credit of all K turns of the episode; None where the rule gives none.
        prompt_ids: Tokens before the first turn.
        completion_ids: Tokens from the first turn's on, those of the other side included.
        mask: 1 for a token that the agent sampled, else 0.
        turn_ids: Number of the turn, 1 to K, of a token that the agent sampled, else 0.
        logprobs: Log-probabilities under the sampling distribution, in nats; 0 where `mask` is.
        advantages: 0 where `mask` is, and everywhere in a void episode.
    """

    task_id: str
    episode: int
    sequence: int
    reward: float | None
    turn_credit: list[float | None]
    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    turn_ids: list[int]
    logprobs: list[float]
    advantages: list[float]

    def to_row(self) -> dict[str, Any]:
        """As a JSON row, with all digits."""
        return {"schema": SCHEMA, **asdict(self)}


def turn_credit(
    episodes: Sequence[Episode],
    critic: Critic | Rule,
    tokenizer: Any,
    system_prompt: str = "",
    scale: Scale = DEFAULT,
    reasoning: str = AUTO,
) -> list[TokenCredit]:
    """Advantages of every sampled token of episodes.

    Args:
        episodes: Episodes of one agent, with the tokens that were sampled. Those of a task form a group.
        critic: A critic, or a function from episodes to the credit of their turns.
        tokenizer: Tokenizer and template of the agent.
        system_prompt: The agent's instructions; they are part of `prompt_ids`.
        scale: How credit and return become an advantage.
        reasoning: How the agent's model marks thoughts, as `--reasoning`.

    Returns:
        The rows of the episodes in order. An episode without a turn has none.

    Raises:
        ValueError: If a turn has no tokens, or another number of log-probabilities; if an episode has several agents; if the critic's numbers are not one
            for each turn.
        TypeError: If an episode, the critic, the tokenizer or `scale` is none.
    """
    if not hasattr(tokenizer, "apply_chat_template"):
        raise TypeError(
            f"`tokenizer` must be a tokenizer with a chat template, such as AutoTokenizer.from_pretrained(MODEL), got {tokenizer!r}."
        )
    if not isinstance(scale, Scale):
        raise TypeError(f"`scale` must be of Scale, got {scale!r}.")
    chat = Chat(tokenizer, reasoning)
    for episode in episodes:
        _refuse(episode)
    credit = credit_of_turns(critic, episodes)
    advantages = turn_advantages(episodes, credit, scale)
    rows: list[TokenCredit] = []
    for episode, of_turns, advantage in zip(episodes, credit, advantages, strict=True):
        reward = None if episode.is_void else episode.reward
        for number, part in enumerate(sequences_of(episode, system_prompt, chat)):
            by_token = [advantage[turn - 1] if turn else 0.0 for turn in part.turn_ids]
            rows.append(
                TokenCredit(
                    public_id(episode.task_id), episode.index, number, reward, list(of_turns), part.prompt_ids, part.completion_ids, part.mask,
                    part.turn_ids, part.logprobs, by_token,
                )
            )  # fmt: skip
    return rows


def credit_of_turns(critic: Critic | Rule, episodes: Sequence[Episode]) -> list[list[float | None]]:
    """The credit of every turn of every episode; None for all turns of a void one.

    A critic that scores a turn by the reply to it gives none to a turn without a reply.

    Raises:
        ValueError: If the numbers are not one for each turn, or one is not finite.
        TypeError: If `critic` gives no credit, or something else than a list of numbers for each episode.
    """
    refuse_critic(critic)
    valid = [episode for episode in episodes if not episode.is_void]
    by_dialogue: Any = critic
    if hasattr(critic, "dialogue_advantages"):
        sees, needs_reply = getattr(critic, "uses_hidden", True), "snapshot" in getattr(critic, "requires", ())
        scored = iter(
            [credit_by(by_dialogue, episode.messages, episode.hidden if sees else "", needs_reply) for episode in valid]
        )
    else:
        scored = iter([_listed(numbers) for numbers in by_dialogue(valid)])
    none: list[float | None] = [None]
    credit = [none * len(e.turns) if e.is_void else next(scored, []) for e in episodes]
    for episode, of_turns in zip(episodes, credit, strict=True):
        if len(of_turns) != len(episode.turns):
            raise ValueError(
                f"The critic gave {len(of_turns)} numbers to the {len(episode.turns)} turns of an episode of task {episode.task_id!r}."
            )
        if not all(value is None or math.isfinite(value) for value in of_turns):
            raise ValueError(f"The critic gave a number that is not finite to a turn of task {episode.task_id!r}: {of_turns}.")
    return credit


def _listed(of_turns: Any) -> list[float | None]:
    """The credit of an episode's turns, as a function of the user's own gave it."""
    values = list(of_turns) if isinstance(of_turns, Iterable) and not isinstance(of_turns, str) else [of_turns]
    if not isinstance(of_turns, Iterable) or not all(value is None or isinstance(value, SupportsFloat) for value in values):
        raise TypeError(f"The critic must give a list for each episode, with a number or None for each turn, got {of_turns!r}.")
    return [None if value is None else float(value) for value in values]


def refuse_critic(critic: Any) -> None:
    """Refuse what gives no credit.

    Raises:
        TypeError: Says what does.
    """
    if isinstance(critic, type) or not (hasattr(critic, "dialogue_advantages") or callable(critic)):
        raise TypeError(
            "`critic` must be an object with `dialogue_advantages`, such as gain_critic(MODEL), or a function from episodes to the credit of their turns, "
            f"got {critic!r}; the names of critics are for `python -m sweetrl_agent.credit`."
        )


def credit_by(critic: Critic, messages: Messages, hidden: Hidden, needs_reply: bool) -> list[float | None]:
    """A critic's numbers for the agent's turns in a dialogue.

    Args:
        critic: The critic.
        messages: The dialogue.
        hidden: The hidden information that it sees.
        needs_reply: Whether it scores a turn by the reply to it, and so gives none to a turn without.
    """
    credit: list[float | None] = [*all_advantages(critic, messages, hidden)]
    if needs_reply and credit and messages[-1]["role"] == "assistant":
        credit[-1] = None
    return credit


def turn_advantages(episodes: Sequence[Episode], credit: Sequence[TurnCredit], scale: Scale) -> list[list[float]]:
    """The advantage of every turn of every episode; the formula of the module's docstring.

    Args:
        episodes: The episodes. Those of a task form a group; a void one is in none and has advantages of 0.
        credit: The credit of their turns. A turn without one has the advantage of the outcome.
        scale: How both become an advantage.
    """
    valid = [i for i, episode in enumerate(episodes) if not episode.is_void]
    tasks = [episodes[i].task_id for i in valid]
    outcomes = [0.0] * len(valid)
    groups: dict[str, list[int]] = defaultdict(list)
    for i, task_id in enumerate(tasks):
        groups[task_id].append(i)
    for group in groups.values():
        for i, outcome in zip(group, _outcomes([episodes[valid[i]].reward for i in group], scale.outcome), strict=True):
            outcomes[i] = outcome
    advantages = [[0.0] * len(episode.turns) for episode in episodes]
    for i, outcome, terms in zip(valid, outcomes, credit_terms(tasks, [credit[i] for i in valid], scale), strict=True):
        advantages[i] = [outcome + term for term in terms]
    return advantages


def credit_terms(tasks: Sequence[str], credit: Sequence[TurnCredit], scale: Scale) -> list[list[float]]:
    """Weight * (c_t - center) / scale for every turn of every episode; 0 for a turn without credit.

    Args:
        tasks: Id of each episode's task. Episodes of a task form a group.
        credit: The credit of the episodes' turns.
        scale: Its weight, center and scale.
    """
    terms: list[list[float]] = [[] for _ in tasks]
    for group in _groups(tasks):
        for i, of_turns in zip(group, _terms([credit[i] for i in group], scale), strict=True):
            terms[i] = of_turns
    return terms


def _terms(credit: Sequence[TurnCredit], scale: Scale) -> list[list[float]]:
    everything = [value for of_turns in credit for value in of_turns if value is not None]
    spread = _spread(everything) if scale.scale == TASK else 1.0
    by_index: dict[int, list[float]] = defaultdict(list)
    for of_turns in credit:
        for t, value in enumerate(of_turns):
            if value is not None:
                by_index[t].append(value)

    def center(t: int) -> float:
        if scale.center == NONE:
            return 0.0
        return float(np.mean(by_index[t] if scale.center == TURN else everything))

    return [
        [0.0 if value is None else scale.weight * (value - center(t)) / spread for t, value in enumerate(of_turns)]
        for of_turns in credit
    ]


@dataclass(frozen=True)
class Tokens:
    """A part of an episode that is one sequence: the fields of `TokenCredit` that need no credit."""

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    turn_ids: list[int]
    logprobs: list[float]


def sequences_of(episode: Episode, system_prompt: str, chat: Chat) -> Iterator[Tokens]:
    """The tokens of an episode, in as few sequences as its turns were sampled in; none of an episode without a turn."""
    if not episode.turns:
        return
    messages = [*system_message(system_prompt), *episode.messages]
    before = 0
    for part in chat.sequences(messages, [turn.token_ids for turn in episode.turns]):
        turns = episode.turns[before : before + part.num_turns]
        turn_ids = [before + turn if turn else 0 for turn in part.turn_ids]
        start = next(i for i, turn in enumerate(turn_ids) if turn)
        log_probs = iter([value for turn in turns for value in turn.log_probs])
        yield Tokens(
            part.token_ids[:start],
            part.token_ids[start:],
            [int(turn > 0) for turn in turn_ids[start:]],
            turn_ids[start:],
            [next(log_probs) if turn else 0.0 for turn in turn_ids[start:]],
        )
        before += part.num_turns


def gain_critic(model: Any, answer_prefix: str = "", rule: str = "largest", threshold: float = 0.0) -> GainCritic:
    """The information gain of replies by a frozen language model (`critics.gain.GainCritic`).

    Args:
        model: Folder or hub name of the model, best the one that training starts from.
        answer_prefix: What an answer starts with, `GRPORollouts.record.answer_prefix`.
        rule: "largest" gain of one token of the reference, "sum" or "mean".
        threshold: Noise level in nats: gains above it count 1, others 0. 0 for the gain itself.

    Raises:
        ColBenchError: If there is no such model; says what it is.
    """
    check_model("model", model, ModelArguments())
    reader = AutoModelForCausalLM.from_pretrained(model)
    return GainCritic(reader, Targets(Chat(AutoTokenizer.from_pretrained(model)), answer_prefix), "", rule, threshold)


def _groups(tasks: Sequence[str]) -> list[list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for i, task_id in enumerate(tasks):
        groups[task_id].append(i)
    return list(groups.values())


def _outcomes(returns: Sequence[float], kind: str) -> list[float]:
    if kind == NONE:
        return [0.0] * len(returns)
    spread = _spread(returns) if kind == STANDARDIZED else 1.0
    return [(value - float(np.mean(returns))) / spread for value in returns]


def _spread(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) + EPSILON if len(values) > 1 else 1.0


def _refuse(episode: Episode) -> None:
    if not isinstance(episode, Episode):
        raise TypeError(
            "`episodes` must be `Episode` objects: `GRPORollouts.episodes`, or Episode.from_row(row) of the rows of a run's trajectories.jsonl, "
            f"got {type(episode).__name__}."
        )
    if episode.agents not in ((), (AGENT,)):
        raise ValueError(
            f"`turn_credit` takes episodes of one agent, and one has {', '.join(episode.agents)}: give `episode.view(agent)` of each."
        )
    for number, turn in enumerate(episode.turns, 1):
        if not turn.token_ids or len(turn.log_probs) != len(turn.token_ids):
            raise ValueError(
                f"Turn {number} of an episode of task {episode.task_id!r} has {len(turn.token_ids)} tokens and {len(turn.log_probs)} log-probabilities; "
                "advantages per token need those that were sampled."
            )
