"""Leading messages: an agent's instructions, and the hidden information of a critic."""

from __future__ import annotations

#: What the critic is told before the dialogue. Our own words; the paper conditions on the reference, arXiv:2503.15478 eq. 3.
HINT = "The {what} that the person has in mind, which the agent cannot see:\n{hidden}"


def system_message(content: str) -> list[dict[str, str]]:
    """A leading system message, or nothing for empty content."""
    return [{"role": "system", "content": content}] if content else []


def hint_message(hidden: str, instructions: str = "") -> list[dict[str, str]]:
    """The one leading message of a critic: the agent's own instructions, then the hidden information; either may be empty."""
    is_page, is_function = (
        hidden.lstrip().startswith("<"),
        "def " in hidden,
    )  # no function begins with a tag, and every page does
    what = "page" if is_page else "function" if is_function else "answer"
    told = HINT.format(what=what, hidden=hidden) if hidden else ""
    return system_message("\n\n".join(part for part in (instructions, told) if part))
