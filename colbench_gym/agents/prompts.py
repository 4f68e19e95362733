"""System prompts for chat models as agents."""

from __future__ import annotations

_BENCHMARK = (
    "You help a colleague to get a Python function written. They ask for it vaguely and know more than they say. "
    "In each turn either ask one short question about what the function should do, without writing code, or hand in your answer. "
    "To hand in, begin your message with 'I WANT TO ANSWER:' and give the complete function, with the name and arguments that "
    "were asked for, in one ```python block. You have at most ten turns, or as many as the request names, and only one answer: hand it in when you know enough."
)
#: An example dialogue (few-shot prompting). Its function and its questions belong to no embedded family.
_EXAMPLE = """An example:

Colleague: I need a function that picks a password for a new employee. The signature is: def password(first, last)
You: Which letters of the names should it contain?
Colleague: The first letter of each name.
You: Should anything follow the letters?
Colleague: The length of the last name.
You: Are the letters lower case?
Colleague: No preference.
You: I WANT TO ANSWER:
```python
def password(first, last):
    return first[0] + last[0] + str(len(last))
```"""
#: System prompts for pretrained chat models, by name: for functions at length, in brief for a model after SFT, and with an example dialogue; for pages. The wording is ours; the markers are the benchmark's.
PROMPTS: dict[str, str] = {
    "benchmark": _BENCHMARK,
    "brief": "In each message ask one short question about what the function should do. In the last one begin with 'I WANT TO ANSWER:' "
    "and give the whole function in one ```python block.",
    "example": f"{_BENCHMARK}\n\n{_EXAMPLE}",
    "pages": "You design a web page with a person who has a certain page in mind and describes it vaguely. "
    "In each turn show the whole page as it is so far, in one ```html block; they look at its picture, not at its code, and say what should be "
    'different. Style it with the classes of Tailwind 2, which <link rel="stylesheet" '
    'href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css"> brings; scripts do not run. '
    "To hand in, begin your message with 'I WANT TO ANSWER:' and give the final page. You have at most ten turns, and only one answer.",
}
#: Environment of each prompt.
ENV_OF_PROMPT = {name: "ColBench-Frontend-v0" if name == "pages" else "ColBench-Backend-v0" for name in PROMPTS}
#: Name of the prompt for an environment.
PROMPT_OF = {"ColBench-Backend-v0": "benchmark", "ColBench-Frontend-v0": "pages"}


def instructions(env: str, given: str = "auto") -> str:
    """The system prompt of an agent.

    Args:
        env: Id of the environment.
        given: "auto" for ours for this environment, a name of `PROMPTS`, or the text itself; "" for no system prompt.
    """
    return PROMPTS.get(PROMPT_OF[env] if given == "auto" else given, given)
