"""Check of a chat template on a whole sample dialogue, in a process of its own with limits.

A template is a program that came with the model. It runs in Jinja's sandbox, which has no limits of time and memory.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.messages import hint_message, system_message
from sweetrl_agent.data.chat import encode_dialogue

#: CPU time of all renderings in seconds, the wall time to wait for them, and what they may allocate and write.
CPU_S, WALL_S = 5, 30.0
MEMORY_BYTES, MAX_CHARS = 1 << 29, 1_000_000
#: A dialogue as the agent has it: the other side speaks first, and the agent last.
SAMPLE = (
    {"role": "user", "content": "Write a function that adds the fee."},
    {"role": "assistant", "content": "Is the fee a share of the price?"},
    {"role": "user", "content": "Yes, two percent."},
    {"role": "assistant", "content": "I WANT TO ANSWER:\n```python\ndef total(price):\n    return price * 1.02\n```"},
)

Messages = Sequence[Mapping[str, str]]


def check_template(tokenizer: Any, instructions: str, has_hint: bool, is_trained: bool = False) -> None:
    """Render the sample dialogue as the agent and a critic do.

    Args:
        tokenizer: The tokenizer with the template.
        instructions: The agent's system prompt; "" for none.
        has_hint: Whether a critic reads hidden information in front of the dialogue, as a system message.
        is_trained: Whether the model is trained, which needs the tokens of every turn of the agent inside the whole dialogue.

    Raises:
        ColBenchError: If there is no template, or it fails, renders a turn differently inside the whole dialogue of a trained model, does not end or writes too much. The message says for which dialogue.
    """
    if not tokenizer.chat_template:
        raise ColBenchError(
            "its tokenizer has no chat template: take an instruction-tuned model, or set `tokenizer.chat_template` and save it"
        )
    cases: dict[str, Messages] = {"a dialogue": SAMPLE}
    if instructions:
        cases["a dialogue with a system message (`system_prompt`)"] = [*system_message(instructions), *SAMPLE]
    if has_hint:
        cases["a critic's dialogue, which has the hidden information as a system message"] = [
            *hint_message("def f", instructions),
            *SAMPLE,
        ]
    if reason := _in_a_process(tokenizer, cases, is_trained):
        raise ColBenchError(f"its chat template {reason}")


def _in_a_process(tokenizer: Any, cases: Mapping[str, Messages], is_trained: bool) -> str:
    """What is wrong with the renderings; "" if nothing is."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in methods else "spawn")  # a fork has the libraries loaded
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_render, args=(tokenizer, cases, is_trained, sender), daemon=True)
    process.start()
    sender.close()
    reason = ""
    try:
        reason = str(receiver.recv()) if receiver.poll(WALL_S) else _no_end()
    except EOFError:
        reason = _no_end()
    finally:
        process.kill()
        process.join()
        receiver.close()
    return reason


def _no_end() -> str:
    return f"does not end within {CPU_S} s or takes more than {MEMORY_BYTES >> 20} MiB on {len(SAMPLE)} short messages"


def _render(tokenizer: Any, cases: Mapping[str, Messages], is_trained: bool, sender: Connection) -> None:
    """In the process: send what is wrong."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        _limit()
    for name, messages in cases.items():
        try:
            whole = tokenizer.apply_chat_template(list(messages), tokenize=False)
            prompt = tokenizer.apply_chat_template(list(messages)[:-1], tokenize=False, add_generation_prompt=True)
        except MemoryError:
            sender.send(_no_end())
            return
        except Exception as error:  # the template is a program: it may raise anything
            sender.send(f"fails for {name} ({type(error).__name__}: {' '.join(str(error).split())[:200]})")
            return
        if max(len(whole), len(prompt)) > MAX_CHARS:
            sender.send(f"writes {max(len(whole), len(prompt))} characters for {len(SAMPLE)} short messages")
            return
        if SAMPLE[2]["content"] not in prompt:
            sender.send(f"leaves out what the other side says last, for {name}")
            return
        try:
            if is_trained:
                encode_dialogue([dict(message) for message in messages], tokenizer)
        except ValueError as error:
            sender.send(f"cannot be trained with, for {name}: {error}".rstrip("."))
            return
    sender.send("")


def _limit() -> None:
    """Limit this process's CPU time, and its memory to what the process that it comes from has and `MEMORY_BYTES`."""
    import resource
    from pathlib import Path

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY_BYTES, held + MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
