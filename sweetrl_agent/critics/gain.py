"""Information gain: how much more likely a text becomes by what the other side says.

Three rules of credit measure log p(target | dialogue) before and after a reply, and differ in the target and in what a reply is compared with:

* `algorithms.infopo`: the agent's next turn, after the real and after a counterfactual reply;
* `algorithms.igpo`: the hidden reference as the agent's answer, before and after every turn of an episode;
* `GainCritic`: the same for candidates of one turn, each with its reply from a snapshot.

A target that is a reference is the answer's marker and the reference. The marker's tokens, and those that end the turn, do not count: they are certain
or not for reasons that have nothing to do with what is known, and on the tiny model they were most of the noise. On request only those tokens count
in which the reference differs from what it could have been instead (`core.environment.EnvironmentRecord.alternatives`): the rest of a program is boilerplate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from os.path import commonprefix
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.episode import Episode, Messages
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.critics.advantage import candidate_log_probs
from sweetrl_agent.data.chat import Chat

#: Which tokens of a reference count: all, or those in which it differs from its alternatives.
ALL, DIFFERING = "all", "differing"
#: How a gain is read off the gains of a reference's tokens: their sum is the difference of log-likelihoods.
RULES: Mapping[str, Callable[[Tensor], Tensor]] = {"sum": torch.sum, "mean": torch.mean, "largest": torch.max}
#: Score of a candidate that ends the episode, in nats: this if it is a success, else minus this. No gain is larger.
ENDING = 1000.0
#: Turns on which the noise level of gains is measured.
NOISE_TURNS = 64
#: Tokens of one pass over states, those of the shared prefix excluded.
PASS_TOKENS = 2048


@dataclass(frozen=True)
class Target:
    """A reference as the agent's answer.

    Attributes:
        text: The answer's marker and the reference.
        token_ids: Its tokens as a turn of the agent.
        counted: Positions of the tokens that count; none for an empty reference.
    """

    text: str
    token_ids: list[int]
    counted: list[int]

    def mean(self, log_probs: Sequence[float]) -> float:
        """Mean of the log-probabilities of the tokens that count; 0 without any."""
        return sum(log_probs[i] for i in self.counted) / max(len(self.counted), 1)


class Targets:
    """Makes targets of references, each once.

    Args:
        chat: Tokenizer and template of the model that reads them.
        marker: What an answer starts with, such as `EnvironmentRecord.answer_prefix`.
        alternatives: What a reference could have been instead; None to count all of its tokens.
    """

    def __init__(self, chat: Chat, marker: str = "", alternatives: Callable[[str], Sequence[str]] | None = None) -> None:
        self.chat, self.marker, self._alternatives = chat, marker, alternatives
        self._known: dict[str, Target] = {}

    def __call__(self, reference: str) -> Target:
        """The target of a reference."""
        if reference not in self._known:
            others = self._alternatives(reference) if self._alternatives else ()
            token_ids, first, end = self._encoded(reference)
            counted = list(range(first, end))
            if others:
                bodies = [ids[i:j] for ids, i, j in map(self._encoded, others)]
                counted = [first + i for i in differing_places(token_ids[first:end], bodies)] or counted
            self._known[reference] = Target(self.marker + reference, token_ids, counted)
        return self._known[reference]

    def _encoded(self, reference: str) -> tuple[list[int], int, int]:
        """Tokens of the answer, and where those of the reference begin and end."""
        asked, decode = [{"role": "user", "content": "?"}], self.chat.tokenizer.decode
        token_ids = self.chat.turn(asked, self.marker + reference)
        first, end, text = 0, len(token_ids), reference.strip()
        if not text:
            return token_ids, 0, 0
        if text not in decode(
            token_ids
        ):  # the tokenizer changes it, such as é of two characters: between what an empty answer begins and ends with
            empty = self.chat.turn(asked, self.marker)
            alike = [a == b for a, b in zip(token_ids, empty, strict=False)]
            first = alike.index(False) if False in alike else len(alike) - 1
            return token_ids, first, end - (token_ids[-1] in self.chat.end_ids())
        while end > first + 1 and text in decode(token_ids[first : end - 1]):
            end -= 1
        while first < end - 1 and text in decode(token_ids[first + 1 : end]):
            first += 1
        return token_ids, first, end


def differing_places(tokens: Sequence[int], others: Sequence[Sequence[int]]) -> list[int]:
    """Positions of the tokens that are not in the same place in one of the others; where another has more, the position behind."""
    places: set[int] = set()
    for other in others:
        for kind, start, stop, _, _ in SequenceMatcher(None, tokens, other, autojunk=False).get_opcodes():
            if kind != "equal":
                places.update(range(start, max(stop, start + 1)))
    return sorted(place for place in places if place < len(tokens))


def with_reply(episode: Episode, turn: int, reply: str) -> Episode:
    """The episode of one agent up to turn `turn` + 1, with another reply to turn `turn`, counted from 1."""
    cut = episode.until(turn + 1, episode.turns[turn])
    messages = list(cut.messages)
    messages[-2] = {**messages[-2], "content": reply}
    return replace(cut, messages=messages)


def last_log_probs(score: Callable[..., list[list[list[float]]]], dialogues: Sequence[Episode]) -> list[list[float]]:
    """Log-probabilities of the tokens of the last turn of each dialogue, in nats; equal dialogues of an episode are scored once.

    Args:
        score: `core.batch.Batch.score`.
        dialogues: Edited episodes. Those of an episode should follow each other, for then their common prefix is read once.
    """
    keys = [(e.task_id, e.index, *(message["content"] for message in e.messages)) for e in dialogues]
    distinct = dict(zip(keys, dialogues, strict=True))
    scored = score(list(distinct.values()), True) if distinct else []
    by_key = {key: turns[-1] for key, turns in zip(distinct, scored, strict=True)}
    return [by_key[key] for key in keys]


class NoNoiseError(ColBenchError):
    """The noise level of gains cannot be measured."""


class GainCritic(Critic):
    """Scores a candidate by the gain in the log-likelihood of the hidden reference by the candidate and the reply to it, in nats.

    log p(c | o, a, reply) - log p(c | o), combined over the reference's tokens that count by a rule: their sum or mean, or the largest. A candidate that
    ends the episode has no reply: a success is above all gains, a failure below them, and an ending whose success is not known scores 0.

    Args:
        model: A causal language model, as it is: nothing is trained.
        targets: Makes targets of references.
        instructions: System prompt of the agent.
        rule: One of `RULES`.
        threshold: Noise level in nats: gains above it score 1, others 0, so that what lies inside the noise makes no pair. 0 for the gain itself.
    """

    requires = frozenset({"snapshot"})

    def __init__(self, model: Any, targets: Targets, instructions: str = "", rule: str = "sum", threshold: float = 0.0) -> None:
        self.model, self.targets, self.instructions = model.eval(), targets, instructions
        self.rule, self.threshold = RULES[rule], threshold

    def gain(self, messages: Messages, hidden: str, text: str, reply: str) -> float:
        """The gain of an utterance by a reply to it, in nats, whatever the noise level is."""
        before, after = self.log_likelihoods([messages, [*messages, *_exchange(text, reply)]], hidden)
        return self._gain(after - before)

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str], replies: Sequence[str] = ()) -> list[float]:
        """Scores of candidates for the next agent turn; see `Critic`.

        Args:
            messages: The dialogue as the agent sees it.
            hidden: The reference.
            texts: The candidates.
            replies: The replies to them.
        """
        said = {text: reply for text, reply in zip(texts, replies, strict=True) if reply}
        states = [messages, *([*messages, *_exchange(text, reply)] for text, reply in said.items())]
        before, *after = self.log_likelihoods(states, hidden) if said else [torch.zeros(0)]
        scores = {text: self._score(state - before) for text, state in zip(said, after, strict=True)}
        return [scores[text] if reply else _of_ending(reply) for text, reply in zip(texts, replies, strict=True)]

    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """Gain of every agent turn of a dialogue, in order; 0 for a turn without a reply."""
        turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        ends = [*turns, *([turns[-1] + 2] if turns and turns[-1] + 2 <= len(messages) else [])]
        states = self.log_likelihoods([messages[:end] for end in ends], hidden) if len(ends) > 1 else []
        gains = [self._score(after - before) for before, after in zip(states, states[1:], strict=False)]
        return [*gains, *[0.0] * (len(turns) - len(gains))]

    @torch.inference_mode()
    def log_likelihoods(self, states: Sequence[Messages], hidden: str) -> list[Tensor]:
        """Log-probabilities of the reference's tokens that count, as the agent's answer in each state, in nats.

        Args:
            states: Dialogues before a turn of the agent. What all have in common is read once.
            hidden: The reference.
        """
        target = self.targets(hidden)
        leading = system_message(self.instructions)
        rows = [self.targets.chat.prompt([*leading, *state]) + target.token_ids for state in states]
        size, log_probs = len(target.token_ids), list[Tensor]()
        if not target.counted:
            return [torch.zeros(0) for _ in rows]
        for part, shared in _passes(rows, most_shared=min(map(len, rows)) - size):
            found = candidate_log_probs(self.model, part[0][:shared], [row[shared:] for row in part])
            log_probs += [values[len(values) - size :][target.counted] for values in found]
        return log_probs

    def _gain(self, gains: Tensor) -> float:
        return float(self.rule(gains)) if len(gains) else 0.0

    def _score(self, gains: Tensor) -> float:
        gain = self._gain(gains)
        return float(gain > self.threshold) if self.threshold else max(-ENDING, min(gain, ENDING))


def noise_level(critic: GainCritic, episodes: Sequence[Episode], quantile: float, seed: int, count: int = NOISE_TURNS) -> float:
    """A quantile of the gains by replies that tell nothing: each is the reply to a turn of another task.

    Args:
        critic: The critic.
        episodes: Recorded dialogues of several tasks.
        quantile: The quantile.
        seed: Seed of the draw of turns and replies.
        count: Number of turns.

    Returns:
        The noise level in nats, at least a thousandth; equal dialogues, quantile and seed have equal levels.

    Raises:
        NoNoiseError: If no two tasks have dialogues with replies.
    """
    rng = np.random.default_rng(seed)
    replied = [(episode, turn) for episode in episodes for turn in range(1, len(episode.turns)) if not episode.is_void]
    if len({episode.task_id for episode, _ in replied}) < 2:
        tasks = len({episode.task_id for episode in episodes if not episode.is_void})
        raise NoNoiseError(
            "`gain_noise` is measured on replies of other tasks, and no two tasks have dialogues with replies: "
            + (
                f"the initial policy asks nothing in the dialogues of {tasks} tasks. Start from one that asks (`--demonstrations`, `--sft_dialogues`)."
                if tasks > 1
                else "collect dialogues of more tasks (`--num_tasks`), or state the noise level by `gain_threshold` and give `gain_noise` 0."
            )
        )
    gains = []
    for place in rng.permutation(len(replied))[:count]:
        episode, turn = replied[place]
        others = [state for state in replied if state[0].task_id != episode.task_id]
        other, at = others[int(rng.integers(len(others)))]
        reply, prefix = other.prefix(at + 1)[-1]["content"], episode.prefix(turn)
        gains.append(critic.gain(prefix, episode.hidden_at(turn), episode.turns[turn - 1].text, reply))
    return max(float(np.quantile(gains, quantile)), 1e-3)


def _exchange(text: str, reply: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}, {"role": "user", "content": str(reply)}]


def _of_ending(reply: str) -> float:
    """Score of a candidate that ends the episode; 0 if its success is not known."""
    success = getattr(reply, "success", None)
    return 0.0 if success is None else (ENDING if success else -ENDING) + float(getattr(reply, "reward", 0.0))


def _passes(rows: Sequence[list[int]], most_shared: int) -> Iterator[tuple[list[list[int]], int]]:
    """Parts of the rows of about `PASS_TOKENS` tokens behind their common prefix, and the length of this prefix, at most `most_shared`."""
    shared = min(len(commonprefix(rows)), most_shared)
    part: list[list[int]] = []
    for row in rows:
        if part and sum(len(other) - shared for other in [*part, row]) > PASS_TOKENS:
            yield part, shared
            part = []
        part.append(row)
    if part:
        yield part, shared
