"""``python -m sweetrl_agent.credit RUN --critic NAME --out FILE``: credit per turn of a run's dialogues, as advantages per token for other trainers.

    python -m sweetrl_agent.credit runs/first --out credit.jsonl
    python -m sweetrl_agent.credit runs/first --critic untrained --outcome none --out credit.jsonl
    python -m sweetrl_agent.credit runs/first --critic vineppo --vineppo.k 3 --out credit.jsonl

The dialogues are those that the run collected with its initial policy. `--critic` is any critic, or an on-policy algorithm that gives credit to turns.
FILE has a row for each dialogue: tokens, mask, turn of each token, log-probabilities, advantages. FILE.about.json describes them. If the environment knows the
exact advantage, it also says how well the credit agrees with it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sweetrl_agent.config.command_line import exit_status, prepare_process


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    return exit_status(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    prepare_process()
    from sweetrl_agent.bridges.credit_export import run_job

    return run_job(arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
