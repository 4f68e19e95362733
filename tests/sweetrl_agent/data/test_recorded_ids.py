"""Token ids of dialogues of the packaged tokenizer: those that the recorded results were made with."""

from __future__ import annotations

import hashlib
import json
import random

import pytest
from transformers import AutoTokenizer

from sweetrl_agent.config.packaged import FOLDER
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.data.chat import Chat, encode_hinted
from sweetrl_agent.trainers.offline import action_tokens
from sweetrl_agent.trainers.sft import sft_dataset

PARTS = (
    "total", " of", "my ", "\n", "é", "✓🙂", "return", "  ", "?", "0.5", "<|", "\t", "I WANT TO ANSWER:\n", "def f(x):\n    return x + 1", "x",
)  # fmt: skip
#: Of commit d4c50a7, which tokenized whole dialogues and found the turns in them.
RECORDED = {
    "prompts": "5a201d1d67d3be19",
    "dialogues": "214044b6b9e2b20d",
    "sft -1": "fee65d053216fe45",
    "sft 0": "6a2bf759a2d5b625",
    "sft 1": "f57418b879fae6d0",
    "sft 2": "ba77988172146faf",
    "offline -1": "9df7b19f404e1ce2",
    "offline 0": "d0fe6d00227f6b11",
    "offline 1": "851099c8b40eec93",
    "offline 2": "92aba99ef12d9cfe",
    "hinted": "45a404787aa0406b",
    "candidates": "2d02e64785bee96f",
    "preferences": "5d1d272d87f73bc4",
    "sampled": "f28934b405f445d7",
}


def _text(rng):
    return "".join(rng.choices(PARTS, k=rng.randint(0, 6)))


def _dialogue(rng):
    return [{"role": role, "content": _text(rng)} for _ in range(rng.randint(1, 5)) for role in ("user", "assistant")]


@pytest.fixture(scope="module")
def found():
    chat, rng = Chat(AutoTokenizer.from_pretrained(FOLDER)), random.Random(0)
    dialogues = [_dialogue(rng) for _ in range(60)]
    led = [[*system_message(_text(rng)), *dialogue] for dialogue in dialogues]
    prefixes = [dialogue[:i] for dialogue in led for i, m in enumerate(dialogue) if m["role"] == "assistant"]
    encoded = chat.all_sequences(led)
    hidden = [(d, own) for d in dialogues for own in (["def f"], [f"def f{i}" for i in range(len(d) // 2)])]
    sampled = [[*parts[0].turns] for parts in encoded]
    for turns in sampled:
        turns[0] = turns[0][:-1] if len(turns) > 1 and len(turns[0]) > 1 else turns[0]  # cut by the limit of tokens
    return {
        "prompts": [chat.prompt(prefix) for prefix in prefixes],
        "dialogues": [_pair(parts) for parts in encoded],
        **{f"sft {history}": _columns(sft_dataset(led, chat, history)) for history in (-1, 0, 1, 2)},
        **{
            f"offline {history}": action_tokens(_episodes(dialogues), chat, system_message("Ask."), history).to_list()
            for history in (-1, 0, 1, 2)
        },
        "hinted": [
            [[part.token_ids, part.turn_ids] for part in encode_hinted(dialogue, own, "Ask.", "function", chat)]
            for dialogue, own in hidden
        ],
        "candidates": [chat.turns(prefix, ["Yes.", "", " no\n", "I"]) for prefix in prefixes],
        "preferences": [[chat.prompt(prefix), *chat.turns(prefix, ["Yes.\n", " no"])] for prefix in prefixes],
        "sampled": [_pair(chat.sequences(dialogue, turns)) for dialogue, turns in zip(led, sampled, strict=True)],
    }


def _pair(parts):
    assert len(parts) == 1
    return [parts[0].token_ids, parts[0].turn_ids]


def _columns(dataset):
    return [list(map(list, dataset[name])) for name in ("input_ids", "labels")]


def _episodes(dialogues):
    return [
        Episode(
            str(i), 0, dialogue, [Turn(m["content"], reward=0.5) for m in dialogue[1::2]], {"outcome": "x"}, 0.0
        )
        for i, dialogue in enumerate(dialogues)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", RECORDED)
def test_token_ids_are_the_recorded_ones(found, kind):
    assert hashlib.sha256(json.dumps(found[kind]).encode()).hexdigest()[:16] == RECORDED[kind]
