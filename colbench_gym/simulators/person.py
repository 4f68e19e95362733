"""A person at the terminal plays the human."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.outside_text import printable
from colbench_gym.simulators.simulator import Simulator
from colbench_gym.tasks.task import Task

SHOW_REFERENCE, QUIT = ":reference", ":quit"
_HELP = f"(answer in one line; {SHOW_REFERENCE} shows the reference, {QUIT} ends the episode)"


class Person(Simulator):
    """Shows the agent's message and asks the person at the terminal for the reply.

    Text of the agent and of the task is shown with control characters escaped, and further lines of the agent are indented, so that
    it can neither control the terminal nor imitate another speaker.

    Commands: ``:reference`` shows the reference solution, ``:quit`` voids the episode. After an empty line the person is asked again.

    Args:
        input: Reads one line after a prompt.
        output: Prints one text.
    """

    is_deterministic = False

    def __init__(self, input: Callable[[str], str] = input, output: Callable[[str], Any] = print) -> None:
        self._input = input
        self._output = output

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """Ask the person; `seed` is ignored.

        Raises:
            SimulatorError: If the person quits or the input ends.
        """
        if dialogue.num_turns <= 1:
            self._output(f"You want: {printable(task.description)}\n{_HELP}")
        if dialogue.messages:
            message = printable(dialogue.messages[-1].content)
            self._output("Agent: " + message.replace("\n", "\n       "))
        while True:
            try:
                line = self._input("You: ").strip()
            except (EOFError, KeyboardInterrupt) as error:
                raise SimulatorError(
                    "Expected a reply from the person, got the end of the input; start the episode again."
                ) from error
            if line == QUIT:
                raise SimulatorError(f"Expected a reply from the person, got {QUIT!r}; start the episode again.")
            if line == SHOW_REFERENCE:
                self._output(printable(task.hidden.reference) or "This task has no reference.")
            elif line:
                return line
