"""Encodes dialogues as token ids, identically in training and in scoring.

Agent turns are found by prefix spans: the dialogue is rendered up to a turn with the generation prompt, and again including the
turn; the difference is the turn. This requires a chat template that renders a prefix of a dialogue the same way as within the
whole dialogue. Other templates (such as those that drop earlier reasoning) raise an error. Tokenizers must be fast ones, which know the
characters of a token.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweetrl_agent.core.episode import Messages


@dataclass(frozen=True)
class EncodedDialogue:
    """A dialogue as tokens.

    Attributes:
        token_ids: Length L.
        turn_ids: Length L; t for tokens of agent turn t, counted from 1, and 0 for all other tokens.
    """

    token_ids: list[int]
    turn_ids: list[int]


def encode_prompt(messages: Messages, tokenizer: Any) -> list[int]:
    """Token ids of a dialogue, including the header of the agent's next turn."""
    return _render([messages], tokenizer, add_generation_prompt=True)[0]


def render_prompt(messages: Messages, tokenizer: Any) -> str:
    """The text of a dialogue, including the header of the agent's next turn."""
    return _texts([list(messages)], tokenizer, add_generation_prompt=True)[0]


def encode_dialogue(messages: Messages, tokenizer: Any) -> EncodedDialogue:
    """Encode a dialogue and number the tokens of its agent turns.

    A turn's tokens are its text and the end-of-turn token(s) that the template adds, without its header.

    Raises:
        ValueError: If there is no agent turn, or the chat template renders a turn differently inside the whole dialogue.
    """
    return encode_dialogues([messages], tokenizer)[0]


def encode_dialogues(dialogues: Sequence[Messages], tokenizer: Any) -> list[EncodedDialogue]:
    """`encode_dialogue` of each dialogue. Every dialogue is tokenized once: a turn is found in the text, and its tokens by their offsets.

    Raises:
        ValueError: As `encode_dialogue`.
    """
    spans = [_spans(messages, tokenizer) for messages in dialogues]
    texts = _texts([list(messages) for messages in dialogues], tokenizer)
    if not texts:
        return []
    encoded = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    prompts = tokenizer([own[0][0] for own in spans], add_special_tokens=False)["input_ids"]
    found = zip(spans, texts, encoded["input_ids"], encoded["offset_mapping"], prompts, strict=True)
    return [_numbered(*one) for one in found]


def _spans(messages: Messages, tokenizer: Any) -> list[tuple[str, str]]:
    """Of each agent turn, the rendered dialogue before its text and up to its end."""
    turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    if not turns:
        raise ValueError("Expected a dialogue with at least one agent turn, got none.")
    before = _texts([list(messages[:i]) for i in turns], tokenizer, add_generation_prompt=True)
    return list(zip(before, _texts([list(messages[: i + 1]) for i in turns], tokenizer), strict=True))


def _numbered(
    spans: Sequence[tuple[str, str]],
    text: str,
    token_ids: list[int],
    offsets: Sequence[tuple[int, int]],
    first_prompt: list[int],
) -> EncodedDialogue:
    """Number the tokens of a dialogue's turns.

    Args:
        spans: As `_spans`.
        text: The rendered dialogue.
        token_ids: Its tokens.
        offsets: First character of each token and the one behind its last.
        first_prompt: Tokens of the dialogue before its first turn, on their own.
    """
    ends = [end for _, end in offsets]
    turn_ids = [0] * len(token_ids)
    for turn, rendered in enumerate(spans, 1):
        places = [bisect_right(ends, len(part)) for part in rendered]  # tokens that end within the part
        is_cut = any(place < len(ends) and offsets[place][0] < len(part) for place, part in zip(places, rendered, strict=True))
        if is_cut or not all(text.startswith(part) for part in rendered):
            raise _changing_template(turn)
        turn_ids[places[0] : places[1]] = [turn] * (places[1] - places[0])
    # Offsets leave out white space before a word: a header that ends in a blank may share a token with the turn. One turn tells.
    if first_prompt != token_ids[: turn_ids.index(1) if 1 in turn_ids else 0]:
        raise _changing_template(1)
    return EncodedDialogue(token_ids, turn_ids)


def encode_as_sampled(messages: Messages, sampled: Sequence[Sequence[int]], tokenizer: Any) -> EncodedDialogue:
    """Encode a dialogue with the tokens of its last agent turns as the policy sampled them; earlier turns are context, and get the turn id 0.

    Tokenizing a sampled text again may give other tokens, and log-probabilities belong to the sampled ones. Therefore only the text between
    turns is rendered. Tokens that the template adds after a turn (the end token of a truncated turn, a line break) belong to no turn.

    Args:
        messages: The dialogue, including a leading system message.
        sampled: Token ids of the last agent turns.
        tokenizer: Tokenizer with the chat template.

    Raises:
        ValueError: As `encode_dialogue`.
    """
    rendered = encode_dialogue(messages, tokenizer)
    token_ids: list[int] = []
    turn_ids: list[int] = []
    before = 0
    for turn, own in enumerate(sampled, max(rendered.turn_ids) - len(sampled) + 1):
        start = rendered.turn_ids.index(turn, before)
        end = start + rendered.turn_ids.count(turn)
        text = rendered.token_ids[start:end]
        last = own[-1] if own and own[-1] == tokenizer.eos_token_id else None
        closing = _after(text, tokenizer.eos_token_id)
        behind = closing[1:] if last is not None else closing
        token_ids += [*rendered.token_ids[before:start], *own, *behind]
        turn_ids += [*[0] * (start - before), *[turn] * len(own), *[0] * len(behind)]
        before = end
    return EncodedDialogue([*token_ids, *rendered.token_ids[before:]], [*turn_ids, *[0] * (len(rendered.token_ids) - before)])


def _after(token_ids: list[int], end_id: int) -> list[int]:
    """The last end token and everything after it; [] if there is none."""
    places = [i for i, token in enumerate(token_ids) if token == end_id]
    return token_ids[places[-1] :] if places else []


def encode_turns(messages: Messages, prompt: list[int], texts: Sequence[str], tokenizer: Any) -> list[list[int]]:
    """Token ids of each of several candidates for the agent's next turn, including the end-of-turn token(s).

    Args:
        messages: The dialogue before them.
        prompt: Result of `encode_prompt` for the dialogue.
        texts: The candidates.
        tokenizer: Tokenizer with the chat template.

    Raises:
        ValueError: If the chat template renders the dialogue differently when a turn follows.
    """
    dialogues = _render([[*messages, {"role": "assistant", "content": text}] for text in texts], tokenizer)
    if any(token_ids[: len(prompt)] != prompt for token_ids in dialogues):
        raise _changing_template(sum(message["role"] == "assistant" for message in messages) + 1)
    return [token_ids[len(prompt) :] for token_ids in dialogues]


def _changing_template(turn: int) -> ValueError:
    return ValueError(
        f"The chat template renders agent turn {turn} differently inside the whole dialogue, so its tokens cannot be "
        "identified; use a template that keeps every turn unchanged (for a reasoning model, its non-reasoning template)."
    )


def _texts(dialogues: Sequence[list[dict[str, str]]], tokenizer: Any, add_generation_prompt: bool = False) -> list[str]:
    """Each dialogue as the chat template renders it; "" for a dialogue without messages."""
    said = [messages for messages in dialogues if messages]
    rendered = iter(
        tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=add_generation_prompt) if said else ()
    )
    return [next(rendered) if messages else "" for messages in dialogues]


def _render(dialogues: Sequence[Messages], tokenizer: Any, add_generation_prompt: bool = False) -> list[list[int]]:
    """Token ids of each dialogue, [] for a dialogue without messages. One call for all takes half the time of many."""
    said = [list(messages) for messages in dialogues if messages]
    encoded = tokenizer.apply_chat_template(
        said, tokenize=True, add_generation_prompt=add_generation_prompt, return_dict=True
    ) if said else {"input_ids": []}  # fmt: skip
    token_ids = iter(encoded["input_ids"])
    return [list(next(token_ids)) if messages else [] for messages in dialogues]
