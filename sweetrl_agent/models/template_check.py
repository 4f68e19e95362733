"""Check of a chat template on a whole sample dialogue, in a process of its own with limits.

A template is a program that came with the model. It runs in Jinja's sandbox, which has no limits of time and memory.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.data.chat import Chat

#: Limits of all renderings: CPU time and wall time in seconds, allocated memory, and characters of output.
CPU_S, WALL_S = 5, 30.0
MEMORY_BYTES, MAX_CHARS = 1 << 29, 1_000_000
#: A dialogue as the agent has it: the other side speaks first, and the agent last.
SAMPLE = (
    {"role": "user", "content": "Write a function that adds the fee."},
    {"role": "assistant", "content": "Is the fee a share of the price?"},
    {"role": "user", "content": "Yes, two percent."},
    {"role": "assistant", "content": "I WANT TO ANSWER:\n```python\ndef total(price):\n    return price * 1.02\n```"},
)


def check_template(tokenizer: Any, instructions: str = "", reasoning: str = "auto", vocab_size: int | None = None) -> str:
    """Make the tokens of the sample dialogue as the agent does.

    Args:
        tokenizer: The tokenizer with the template.
        instructions: The agent's system prompt; "" for none.
        reasoning: The setting `reasoning`.
        vocab_size: Number of tokens that the model knows; None if its configuration does not state it.

    Returns:
        How the template is used: `Chat.describe`.

    Raises:
        ColBenchError: If there is no template, or it fails, omits the other side's messages, does not end, writes too much, or has no token to end a turn.
    """
    if not tokenizer.chat_template:
        raise ColBenchError(
            "its tokenizer has no chat template: take an instruction-tuned model, or set `tokenizer.chat_template` and save it"
        )
    fault, description = _run_limited(tokenizer, [*system_message(instructions), *SAMPLE], reasoning, vocab_size)
    if fault:
        raise ColBenchError(f"its chat template {fault}")
    return description


def _run_limited(tokenizer: Any, *arguments: Any) -> tuple[str, str]:
    """Run `_check` in a process of its own: the fault, "" if there is none, and the description."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in methods else "spawn")  # a fork has the libraries loaded
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_check, args=(sender, tokenizer, *arguments), daemon=True)
    process.start()
    sender.close()
    result = (_over_limit(), "")
    try:
        if receiver.poll(WALL_S):
            result = receiver.recv()
    except EOFError:  # it was killed
        pass
    finally:
        process.kill()
        process.join()
        receiver.close()
    return result


def _over_limit() -> str:
    return f"does not end within {CPU_S} s or takes more than {MEMORY_BYTES >> 20} MiB on {len(SAMPLE)} short messages"


def _check(sender: Connection, *arguments: Any) -> None:
    """Send the fault and the description; runs in the process."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        _set_limits()
    try:
        sender.send(fault_and_use(*arguments))
    except MemoryError:
        sender.send((_over_limit(), ""))


def fault_and_use(
    tokenizer: Any, messages: Messages, reasoning: str = "auto", vocab_size: int | None = None
) -> tuple[str, str]:
    """Why a template cannot be used, "" if it can; and how it is used (`Chat.describe`). The template runs in this process, without limits.

    Args:
        tokenizer: The tokenizer with the template.
        messages: `SAMPLE`, or that after a system prompt.
        reasoning: As in `check_template`.
        vocab_size: As in `check_template`.
    """
    try:
        size = max(len(tokenizer.apply_chat_template(list(SAMPLE[:n]), tokenize=False)) for n in (1, len(SAMPLE)))
        if size > MAX_CHARS:
            return f"writes {size} characters for {len(SAMPLE)} short messages", ""
        chat = Chat(tokenizer, reasoning)
        fault = _fault(chat, messages, vocab_size)
        return fault, "" if fault else chat.describe()
    except MemoryError:
        raise
    except Exception as error:  # the template is a program: it may raise anything
        return f"fails for a dialogue ({type(error).__name__}: {' '.join(str(error).split())[:200]})", ""


def _fault(chat: Chat, messages: Messages, vocab_size: int | None) -> str:
    """Why a template cannot be used; "" if it can."""
    if SAMPLE[2]["content"] not in chat.template.render(messages[:-1]):
        return "leaves out what the other side says last"
    if not chat.template.end:
        return "ends a turn by no token, and its tokenizer has no `eos_token`: set one and save the tokenizer"
    token_ids = {token for part in chat.sequences(messages) for token in part.token_ids}  # spare tokens need no embedding
    largest = max(*token_ids, *chat.end_ids(), chat.tokenizer.pad_token_id or 0)
    if vocab_size is not None and largest >= vocab_size:
        return f"makes token {largest}, and its model has the {vocab_size} tokens from 0 on (`vocab_size`)"
    return ""


def _set_limits() -> None:
    """Limit this process's CPU time, and its memory to `MEMORY_BYTES` more than it has now."""
    import resource
    from pathlib import Path

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
