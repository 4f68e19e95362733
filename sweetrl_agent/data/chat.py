"""Dialogues as tokens, identically in sampling, in training and in scoring.

The context of every turn in training equals, token by token, the prompt that the engine gets when it samples the turn: `Chat.prompt` of the messages before
it. Many templates render past turns differently: they drop the thought, trim the text, or move the instructions. Sampled tokens need not be the tokens
that the tokenizer makes of their text. So a dialogue is one sequence only as long as every prompt begins with the tokens before it. Where a prompt does not,
a new sequence starts with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from colbench_gym.reasoning import Reasoning
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.hint import hint_message
from sweetrl_agent.core.messages import as_read
from sweetrl_agent.data.template import Template
from sweetrl_agent.data.text_tokens import TextTokens

_SAMPLE = [
    {"role": role, "content": text}
    for text in ("Is there a fee?", "Yes, two percent.", "Whose fee?")
    for role in ("user", "assistant")
]


@dataclass(frozen=True)
class EncodedDialogue:
    """A dialogue, or a part of it, as tokens.

    Attributes:
        token_ids: Length L.
        turn_ids: Length L; t for tokens of the t-th agent turn of this sequence, counted from 1, and 0 for all other tokens.
    """

    token_ids: list[int]
    turn_ids: list[int]

    @property
    def num_turns(self) -> int:
        """Number of agent turns with a turn id."""
        return max(self.turn_ids, default=0)

    @property
    def turns(self) -> list[list[int]]:
        """Token ids of each turn."""
        pairs = list(zip(self.token_ids, self.turn_ids, strict=True))
        return [[token for token, turn in pairs if turn == number] for number in range(1, self.num_turns + 1)]


class Chat:
    """A tokenizer with its chat template: the only code that tokenizes dialogues.

    Args:
        tokenizer: Tokenizer with a chat template.
        reasoning: The setting `reasoning`, see `colbench_gym.reasoning.Reasoning`.

    Raises:
        ValueError: If the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: Any, reasoning: str = "auto") -> None:
        self.tokenizer, self.template = tokenizer, Template(tokenizer, Reasoning(reasoning))
        self._tokens = TextTokens(tokenizer, self.template.render(_SAMPLE[:-1]))

    def prompt(self, messages: Messages) -> list[int]:
        """Token ids that an engine is given for the agent's next turn.

        Args:
            messages: The dialogue before it, with the instructions in a leading system message.
        """
        return self._tokens([self.template.render(messages)])[0]

    def prefix(self, response_prefix: str) -> list[int]:
        """Token ids that follow the prompt if every turn of the agent starts with a text, without a thought; [] for no text."""
        return self._tokens([self.prefix_text(response_prefix)])[0]

    def prefix_text(self, response_prefix: str) -> str:
        """`prefix` as text."""
        return self.template.lead_of(self.template.render(_SAMPLE[:1])) + response_prefix if response_prefix else ""

    def turn(self, messages: Messages, text: str, thought: str = "") -> list[int]:
        """Token ids of an agent's turn behind its prompt, with the token that ends it.

        Args:
            messages: The dialogue before it.
            text: Its speech.
            thought: The thought before the speech, with its marks; "" for none.
        """
        return self.turns(messages, [text], [thought])[0]

    def turns(self, messages: Messages, texts: Sequence[str], thoughts: Sequence[str] = ()) -> list[list[int]]:
        """`turn` of each of several candidates for the agent's next turn."""
        return self._turns(
            [(messages, text, thought) for text, thought in zip(texts, thoughts or [""] * len(texts), strict=True)]
        )[1]

    def sequences(self, messages: Messages, sampled: Sequence[Sequence[int]] = (), history: int = -1) -> list[EncodedDialogue]:
        """The agent's turns of a dialogue, each behind its prompt.

        Args:
            messages: The dialogue. A message of the agent may have its "thought". One that was "cut" by the limit of tokens did not end there: the token
                behind it that ends a turn is none of its own.
            sampled: Token ids of the agent's turns as sampled; () to tokenize them.
            history: Earlier turns that the agent reads, as in `core.messages.as_read`. Unless it is -1, each turn has a sequence of its own.

        Returns:
            All turns in order, in as few sequences as possible. Each sequence counts its turns from 1. Messages after the last turn are left out.

        Raises:
            ValueError: If there is no agent turn.
        """
        return self.all_sequences([messages], [sampled], history)[0]

    def all_sequences(
        self, dialogues: Sequence[Messages], sampled: Sequence[Sequence[Sequence[int]]] = (), history: int = -1
    ) -> list[list[EncodedDialogue]]:
        """`sequences` of each dialogue, in one call of the tokenizer."""
        before = [
            [(i, as_read(messages[:i], history)) for i, message in enumerate(messages) if message["role"] == "assistant"]
            for messages in dialogues
        ]
        if not all(before):
            raise ValueError("Expected a dialogue with at least one agent turn, got none.")
        agent_turns = [
            (read, messages[i]["content"], messages[i].get("thought", ""))
            for messages, turns in zip(dialogues, before, strict=True)
            for i, read in turns
        ]
        sampled_ids = [list(turn) for turns in sampled for turn in turns]
        prompts, tokens = (
            (self._prompts([read for read, _, _ in agent_turns]), sampled_ids) if sampled_ids else self._turns(agent_turns)
        )
        cut = [messages[i].get("cut") for messages, turns in zip(dialogues, before, strict=True) for i, _ in turns]
        num_actions = [
            len(self.without_end(turn) if is_cut and not sampled_ids else turn)
            for turn, is_cut in zip(tokens, cut, strict=True)
        ]
        encoded = zip(prompts, tokens, num_actions, strict=True)
        return [_joined([next(encoded) for _ in turns], can_join=history < 0) for turns in before]

    def without_end(self, turn: list[int]) -> list[int]:
        """A turn without the token that ends it, unless it has no other."""
        return turn[:-1] if len(turn) > 1 and turn[-1] in self.end_ids() else turn

    def end_ids(self, generation_config: Any = None) -> list[int]:
        """Tokens at which sampling stops: the tokenizer's `eos_token`, those of the generation configuration, and the end of a turn in the template.

        Args:
            generation_config: The model's, with its `eos_token_id`; None for none.
        """
        configured = getattr(generation_config, "eos_token_id", None)
        end = self.tokenizer.convert_tokens_to_ids(self.template.end) if self.template.end else None
        token_ids = [self.tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured]), end]
        return list(dict.fromkeys(token for token in token_ids if token is not None))

    @property
    def stop_texts(self) -> list[str]:
        """Texts at which sampling stops. A template without an end token has one: the text before the other side's message."""
        return [self.template.stop_text] if self.template.stop_text else []

    @property
    def is_append_only(self) -> bool:
        """Whether the template renders past turns as they were sampled, so that a dialogue can be one sequence."""
        return len(self.sequences(_SAMPLE)) == 1

    def describe(self) -> str:
        """How the template is used, in one line."""
        template = self.template
        ends = dict.fromkeys([template.end, *self.tokenizer.convert_ids_to_tokens(self.end_ids())])
        parts = [
            "instructions in " + ("the system message" if template.has_system else "the first user message"),
            f"turns end at {' or '.join(filter(None, ends))}"
            + (f", or at {template.stop_text!r}" if template.stop_text else ""),
            template.describe_thoughts(),
            *(["consecutive messages of one side are merged"] if template.merges else []),
            "a dialogue is one sequence in training"
            if self.is_append_only
            else "each turn is a sequence of its own in training",
        ]
        return "; ".join(filter(None, parts))

    def _prompts(self, dialogues: Sequence[Messages]) -> list[list[int]]:
        return self._tokens(self.template.render_all(dialogues))

    def _turns(self, agent_turns: Sequence[tuple[Messages, str, str]]) -> tuple[list[list[int]], list[list[int]]]:
        """Prompts and turns of messages with the text and the thought that follow them.

        Prompt and turn are tokenized together, and the prompt's tokens are cut off. Where the tokenizer merges the two, the turn is tokenized alone.
        """
        prompts = self.template.render_all([messages for messages, _, _ in agent_turns])
        whole = self.template.render_all(
            [[*messages, {"role": "assistant", "content": text}] for messages, text, _ in agent_turns], is_prompt=False
        )
        texts = [
            self.template.turn(prompt, rendered, text, thought)
            for prompt, rendered, (_, text, thought) in zip(prompts, whole, agent_turns, strict=True)
        ]
        contexts = self._tokens(prompts)
        joint = self._tokens([prompt + text for prompt, text in zip(prompts, texts, strict=True)])
        merged = [i for i, (context, ids) in enumerate(zip(contexts, joint, strict=True)) if ids[: len(context)] != context]
        alone = dict(zip(merged, self._tokens([texts[i] for i in merged]), strict=True))
        return contexts, [alone.get(i, ids[len(contexts[i]) :]) for i, ids in enumerate(joint)]


def numbered_actions(parts: Sequence[EncodedDialogue]) -> list[int]:
    """The agent turn in the whole dialogue, counted from 1, of each token of the agent in its sequences."""
    numbers, before = list[int](), 0
    for part in parts:
        numbers += [before + turn for turn in part.turn_ids if turn]
        before += part.num_turns
    return numbers


def _joined(turns: Sequence[tuple[list[int], list[int], int]], can_join: bool) -> list[EncodedDialogue]:
    """Sequences of prompts and turns, of whose tokens so many are the agent's own. A turn joins the previous sequence if its prompt begins with all of it."""
    sequences: list[EncodedDialogue] = []
    for prompt, turn, num_actions in turns:
        last = sequences[-1] if sequences and can_join else None
        if last is None or prompt[: len(last.token_ids)] != last.token_ids:
            sequences.append(last := EncodedDialogue([], []))
        context = prompt[len(last.token_ids) :]
        number = last.num_turns + 1
        last.token_ids.extend([*context, *turn])
        last.turn_ids.extend([*[0] * len(context), *[number] * num_actions, *[0] * (len(turn) - num_actions)])
    return sequences


def encode_hinted(
    messages: Messages,
    hidden: Sequence[str],
    instructions: str,
    noun: str,
    chat: Chat,
    sampled: Sequence[Sequence[int]] = (),
    history: int = -1,
) -> list[EncodedDialogue]:
    """Encode a dialogue after a hint with the hidden information, as a critic reads it.

    Where the environment redraws the hidden information, every turn is the last turn of a sequence of its own.

    Args:
        messages: The dialogue. A critic's has no thoughts; an agent's may have the "thought" of its messages.
        hidden: The hidden information: one text for all turns, or one for each.
        instructions: The agent's system prompt.
        noun: `EnvironmentRecord.hidden_noun`.
        chat: The critic's tokenizer and template.
        sampled: Token ids of the agent's turns as sampled; () to tokenize them.
        history: Earlier turns that are read, as in `core.messages.as_read`.

    Returns:
        All turns in order, as `Chat.sequences`.

    Raises:
        ValueError: As `Chat.sequences`, or if there are several texts but not one for each turn.
    """
    if len(hidden) == 1:
        return chat.sequences([*hint_message(hidden[0], instructions, noun), *messages], sampled, history)
    turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    hints = [hint_message(hint, instructions, noun) for hint in hidden]
    parts: list[EncodedDialogue] = []
    for number, (i, hint) in enumerate(zip(turns, hints, strict=True)):
        read = as_read([*hint, *messages[:i]], history)
        prompt = chat.prompt(read)
        turn = list(sampled[number]) if sampled else chat.turn(read, messages[i]["content"], messages[i].get("thought", ""))
        parts.append(EncodedDialogue(prompt + turn, [0] * len(prompt) + [1] * len(turn)))
    return parts
