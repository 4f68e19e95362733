"""The agents of a mixture (`algorithms.collab`): the options that each has for a draft, their divergence from the reference, and completions.

A draft is an utterance as far as it is decoded. An option z extends it: by one token, by a chunk of at most N tokens, or by a whole utterance. The options of
agent j in a state s are its `p` likeliest tokens, or `m` samples of a chunk or an utterance. KL(pi_j || pi_ref at s) is that of the distribution which options
are drawn from: exact for tokens, and for longer options the mean over the samples of the sum over their tokens l of KL(pi_j || pi_ref at s z_<l). That is an
unbiased estimate, which cannot be negative. All are under the sampling distribution, with its temperature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from colbench_gym.seeds import derive_seed
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Policy, Utterance, sample_each
from sweetrl_agent.data.padding import right_padded
from sweetrl_agent.policies.transformers import TransformersPolicy

TOKEN, CHUNK, UTTERANCE = "token", "chunk", "utterance"
#: Most logits that a forward pass returns; rows beyond them are read in another pass.
MOST_LOGITS = 2**28


@dataclass(eq=False)
class Draft:
    """An utterance that is being decoded.

    Attributes:
        messages: The dialogue before it.
        hidden: What is hidden then; "" if nothing is.
        seed: Seed of all that is drawn for it.
        env: The environment of the dialogue; None without one.
        token_ids: Its tokens so far.
        log_probs: Their log-probabilities under the agents that proposed them.
        utterance: The utterance, once it has ended.
        num_options: Number of options that it consists of.
        usage: Tokens read and generated for it; None if an agent does not tell.
        simulated_turns: Turns that were taken in the simulator for it.
    """

    messages: Messages
    hidden: str
    seed: int
    env: Any = None
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    utterance: Utterance | None = None
    num_options: int = 0
    usage: tuple[int, int] | None = (0, 0)
    simulated_turns: int = 0

    def append(self, option: Option) -> None:
        """Extend it by an option."""
        self.token_ids, self.log_probs = [*self.token_ids, *option.token_ids], [*self.log_probs, *option.log_probs]
        self.utterance, self.num_options = option.utterance, self.num_options + 1

    def spend(self, usage: tuple[int, int] | None) -> None:
        """Count tokens read and generated for it."""
        self.usage = None if usage is None or self.usage is None else (self.usage[0] + usage[0], self.usage[1] + usage[1])

    def result(self) -> Utterance:
        """The utterance, with the costs of all that was read, generated and simulated for it."""
        assert self.utterance is not None
        return replace(self.utterance, usage=self.usage, simulated_turns=self.simulated_turns)


@dataclass(frozen=True, eq=False)
class Option:
    """An option z of an agent for a draft.

    Attributes:
        draft: The draft.
        agent: Number j of the agent.
        token_ids: Tokens of z.
        log_probs: Their log-probabilities under the agent.
        seed: Seed of all that is drawn after it.
        utterance: The whole utterance, if it ends with z.
        divergence: KL(pi_j || pi_ref at s): the same for all options of the agent. 0.0 if it was not asked for.
        count: How many of the agent's samples are this one.
    """

    draft: Draft
    agent: int
    token_ids: list[int]
    log_probs: list[float]
    seed: int
    utterance: Utterance | None = None
    divergence: float = 0.0
    count: int = 1


def refuse_other_tokenizers(tokenizers: Mapping[str, Any]) -> None:
    """Refuse agents whose tokens mean different things.

    Args:
        tokenizers: The tokenizer of each agent, by its name.

    Raises:
        ValueError: Names the first two that differ.
    """
    (first, base), *others = tokenizers.items()
    for name, tokenizer in others:
        if tokenizer.get_vocab() != base.get_vocab():
            raise ValueError(
                f"Agents that are mixed must have the same tokenizer, got other tokens in {name!r} than in {first!r}."
            )


class MixedAgent:
    """An agent of a mixture.

    Args:
        policy: Its policy. For tokens, chunks and divergences a `TransformersPolicy`; for whole utterances without a divergence any.
        number: Its number j.
    """

    def __init__(self, policy: Policy, number: int = 0) -> None:
        self.policy: Any = policy
        self.number = number

    # ---- options -------------------------------------------------------------------------------------------------------------

    def options(
        self, drafts: Sequence[Draft], granularity: str, p: int, m: int, reference: MixedAgent | None = None
    ) -> list[Option]:
        """Its options for drafts, draft after draft; equal ones once.

        Args:
            drafts: Drafts that have not ended.
            granularity: "token", "chunk:N" or "utterance".
            p: Number of tokens, the likeliest.
            m: Number of samples of a chunk or an utterance.
            reference: pi_ref, for the divergence; None for none.
        """
        kind, _, size = granularity.partition(":")
        if kind == TOKEN:
            return [option for draft in drafts for option in self._tokens(draft, p, reference)]
        seeds = [[self._seed(draft, i) for i in range(m)] for draft in drafts]
        sampled = self._utterances(drafts, seeds) if kind == UTTERANCE else self._chunks(drafts, seeds, int(size))
        return [option for of_draft in sampled for option in self._distinct(of_draft, reference)]

    def _tokens(self, draft: Draft, p: int, reference: MixedAgent | None) -> list[Option]:
        (next_token,) = self.log_probs(draft, [[0]])  # the distribution before a token does not depend on it
        divergence = self._divergences(draft, [[0]], [next_token], reference)[0] if reference else 0.0
        top = next_token[0].topk(min(p, next_token.shape[1]))
        return [
            replace(self._option(draft, [token], [value], self._seed(draft, i)), divergence=divergence)
            for i, (token, value) in enumerate(zip(top.indices.tolist(), top.values.tolist(), strict=True))
        ]

    def _utterances(self, drafts: Sequence[Draft], seeds: Sequence[Sequence[int]]) -> list[list[Option]]:
        sampled = sample_each(self.policy, [draft.messages for draft in drafts], seeds)
        for draft, utterances in zip(drafts, sampled, strict=True):
            for utterance in utterances:
                draft.spend(utterance.usage)
        return [
            [Option(draft, self.number, u.token_ids, u.log_probs, seed, u) for u, seed in zip(*of_draft, strict=True)]
            for draft, of_draft in zip(drafts, zip(sampled, seeds, strict=True), strict=True)
        ]

    def _chunks(self, drafts: Sequence[Draft], seeds: Sequence[Sequence[int]], size: int) -> list[list[Option]]:
        asked = [(draft, seed) for draft, of_draft in zip(drafts, seeds, strict=True) for seed in of_draft]
        sampled = self.policy.sample([self.prefix(draft) for draft, _ in asked], [seed for _, seed in asked], size)
        options = [self._option(draft, ids, values, seed) for (draft, seed), (ids, values) in zip(asked, sampled, strict=True)]
        for option in options:
            option.draft.spend((len(self.prefix(option.draft)), len(option.token_ids)))
        return [[option for option in options if option.draft is draft] for draft in drafts]

    def _option(self, draft: Draft, token_ids: list[int], log_probs: list[float], seed: int) -> Option:
        """An option of tokens, up to the end of the utterance."""
        policy, limit = self.policy, self.policy.speaker.max_new_tokens - len(draft.token_ids)
        end = next((i + 1 for i, token in enumerate(token_ids) if token in policy.end_ids), len(token_ids))
        token_ids, log_probs = token_ids[: min(end, limit)], log_probs[: min(end, limit)]
        said = [*draft.token_ids, *token_ids]
        has_ended = token_ids[-1] in policy.end_ids or len(token_ids) == limit or policy.speaker.utterances.stop_length(said)
        utterance = policy.utterance(said, [*draft.log_probs, *log_probs], self._prompt(draft)) if has_ended else None
        return Option(draft, self.number, token_ids, log_probs, seed, utterance)

    def _distinct(self, options: list[Option], reference: MixedAgent | None) -> list[Option]:
        """The different ones of an agent's samples for a draft, with their counts, and the divergence that all of them estimate."""
        names = [option.token_ids or (option.utterance and option.utterance.text) for option in options]
        places = [i for i, name in enumerate(names) if names.index(name) == i]
        distinct = [replace(options[i], count=names.count(names[i])) for i in places]
        if reference is None:
            return distinct
        draft, samples = distinct[0].draft, [option.token_ids for option in distinct]
        each = self._divergences(draft, samples, self.log_probs(draft, samples), reference)
        divergence = sum(option.count * value for option, value in zip(distinct, each, strict=True)) / len(options)
        return [replace(option, divergence=divergence) for option in distinct]

    def _seed(self, draft: Draft, number: int) -> int:
        return derive_seed(draft.seed, "option", self.number, draft.num_options, number)

    # ---- distributions ---------------------------------------------------------------------------------------------------------

    def _divergences(
        self, draft: Draft, samples: Sequence[list[int]], log_probs: Sequence[Tensor], reference: MixedAgent
    ) -> list[float]:
        """Of each sample the sum of KL(pi_j || pi_ref) over its tokens, whose distributions are `log_probs`."""
        found = []
        for own, other in zip(log_probs, reference.log_probs(draft, samples, self._temperature), strict=True):
            width = min(own.shape[1], other.shape[1])  # models may pad the vocabulary of one tokenizer differently
            own, other = own[:, :width], other[:, :width]
            found.append(float((own.exp() * (own - other)).sum()))
        return found

    @torch.inference_mode()
    def log_probs(self, draft: Draft, continuations: Sequence[list[int]], temperature: float | None = None) -> list[Tensor]:
        """Log-probabilities of the whole vocabulary before every token of continuations of a draft, each of shape (L, vocabulary), in float32.

        Args:
            draft: The draft.
            continuations: Token ids, L of each, at least one.
            temperature: Divides the logits; None for the sampling temperature.
        """
        prefix, model = self.prefix(draft), self.policy.model.eval()
        rows = [[*prefix, *continuation[:-1]] for continuation in continuations]
        draft.spend((sum(map(len, rows)), 0))
        at_once = max(1, MOST_LOGITS // (max(map(len, rows)) * model.config.get_text_config().vocab_size))
        found: list[Tensor] = []
        for start in range(0, len(rows), at_once):
            batch = right_padded(rows[start : start + at_once], model.device)
            logits = model(batch, use_cache=False).logits[:, len(prefix) - 1 :]
            scaled = logits.float() / (temperature or self._temperature)
            lengths = map(len, continuations[start : start + at_once])
            found += [torch.log_softmax(row[:length], dim=-1) for row, length in zip(scaled, lengths, strict=True)]
        return found

    def log_likelihoods(
        self, draft: Draft, continuations: Sequence[list[int]], temperature: float | None = None
    ) -> list[Tensor]:
        """Log-probabilities of the tokens of continuations of a draft, each of shape (L,). Arguments as `log_probs`."""
        log_probs = self.log_probs(draft, continuations, temperature)
        return [values[range(len(ids)), ids] for values, ids in zip(log_probs, continuations, strict=True)]

    def prefix(self, draft: Draft) -> list[int]:
        """What it reads before the next token of a draft."""
        return [*self._prompt(draft), *draft.token_ids]

    def _prompt(self, draft: Draft) -> list[int]:
        prompt: list[int] = self.policy.speaker.prompt(draft.messages)
        return prompt

    @property
    def _temperature(self) -> float:
        return float(self.policy.speaker.temperature)

    # ---- what follows an option ------------------------------------------------------------------------------------------------

    def completed(self, options: Sequence[Option], seeds: Sequence[int]) -> list[Utterance]:
        """The utterances that options lead to: itself, or a sample of the rest.

        Args:
            options: Its options.
            seeds: Seed of each sample.
        """
        unfinished = [i for i, option in enumerate(options) if option.utterance is None]
        prefixes = [[*self.prefix(options[i].draft), *options[i].token_ids] for i in unfinished]
        limits = [
            self.policy.speaker.max_new_tokens - len(options[i].draft.token_ids + options[i].token_ids) for i in unfinished
        ]
        rest = self.policy.sample(prefixes, [seeds[i] for i in unfinished], max(limits)) if unfinished else []
        utterances = {i: option.utterance for i, option in enumerate(options)}
        for i, prefix, limit, (token_ids, _) in zip(unfinished, prefixes, limits, rest, strict=True):
            draft = options[i].draft
            said = [*draft.token_ids, *options[i].token_ids]
            utterance = self.policy.utterance([*said, *token_ids[:limit]], [], self._prompt(draft))
            draft.spend((len(prefix), len(utterance.token_ids) - len(said)))
            utterances[i] = utterance
        return [utterance for utterance in utterances.values() if utterance is not None]


def language_model_agents(policies: Mapping[str, Any]) -> list[MixedAgent]:
    """The agents of a mixture from policies by their names.

    Raises:
        ValueError: If one is no language model of this process, or two have other tokenizers.
    """
    for name, policy in policies.items():
        if not isinstance(policy, TransformersPolicy):
            kind = "is a team of several" if isinstance(policy, Mapping) else "is not one"
            raise ValueError(f"Only agents that are language models of this process can be mixed, and {name!r} {kind}.")
    refuse_other_tokenizers({name: policy.speaker.tokenizer for name, policy in policies.items()})
    return [MixedAgent(policy, number) for number, policy in enumerate(policies.values())]
