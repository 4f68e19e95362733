"""Your own callback: stop an on-policy algorithm early, and print what it does.

    python examples/own_callback.py [--output runs/early] [settings of `python -m sweetrl_agent.train`]

trains the guesser of `own_environment.py` by GRPO, evaluates it every ten iterations, and stops once its success reaches the goal. The same callback
on the command line:

    python -m sweetrl_agent.train ... --algorithm grpo --eval_every 10 --callbacks examples.own_callback:StopWhenGood

A callback may also be a `transformers.TrainerCallback`, for the stages that trainers of TRL and transformers train (here `sft`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sweetrl_agent import Callback


class StopWhenGood(Callback):
    """Stops the training once the success on the evaluated tasks reaches a goal.

    Stop on other tasks than the reported ones. Here they are seeds that `own_environment.py` does not use.

    Args:
        goal: Success in [0, 1].
    """

    def __init__(self, goal: float = 0.6) -> None:
        self.goal = goal

    def on_evaluate(self, run: Any, stage: str, step: int, values: Mapping[str, float]) -> bool | None:
        """Print the curve. Returning False ends the training of this stage, as `raise StopTraining` does."""
        if stage.startswith("evaluate"):
            return None  # the stage after the training
        low, high = values["test/success_low"], values["test/success_high"]
        print(f"{stage}, iteration {step}: success {values['test/success']:.0%} ({low:.0%} to {high:.0%})")
        return values["test/success"] < self.goal

    def on_stage_end(self, run: Any, stage: str, values: Mapping[str, float]) -> None:
        """Print how long a stage took."""
        print(f"{stage}: {values['seconds']:.0f} s, {values['peak_mib']:.0f} MiB")


def main(arguments: list[str]) -> int:
    """Train; returns the exit status."""
    from examples import own_environment

    defaults = {
        "output": "runs/early", "test_tasks": "seeds:2000000-2000099", "eval_every": 10, "eval_every_tasks": 100,
        "callbacks": "examples.own_callback:StopWhenGood",
    }  # fmt: skip
    return own_environment.main(arguments, defaults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
