"""Leading messages: an agent's instructions, and a critic's hidden information."""

from __future__ import annotations

#: Hidden information in front of a critic's dialogue. The wording is ours; the paper conditions on the reference, arXiv:2503.15478 eq. 3.
HINT = "The {what} that the person has in mind, which the agent cannot see:\n{hidden}"


def system_message(*parts: str) -> list[dict[str, str]]:
    """A leading system message of the parts that are not empty, an empty line between them; no message if all are empty."""
    content = "\n\n".join(part for part in parts if part)
    return [{"role": "system", "content": content}] if content else []


def hint_message(hidden: str, instructions: str = "") -> list[dict[str, str]]:
    """The leading message of a critic: the agent's instructions, then the hidden information; either may be empty."""
    is_page, is_function = (
        hidden.lstrip().startswith("<"),
        "def " in hidden,
    )  # every page begins with a tag, and no function does
    what = "page" if is_page else "function" if is_function else "answer"
    hint = HINT.format(what=what, hidden=hidden) if hidden else ""
    return system_message(instructions, hint)
