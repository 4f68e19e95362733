"""``python -m sweetrl_agent.show RUN``: the initial and the trained policy of a run on the same task, side by side in the terminal.

    python -m sweetrl_agent.show runs/first
    python -m sweetrl_agent.show runs/first --task 7 --seed 1

Every turn shows the agent's message, the human's reply, and the reply's information gain: by how much it raises the log-likelihood of the hidden reference under
the model that reads gains (`gain_model`, by default the initial policy). To play the agent yourself: `python -m colbench_gym.play`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence

from sandboxes.logs import add_log_level, shown_logs
from sandboxes.programs import program_name
from sweetrl_agent.config.command_line import ending_with, exit_status, prepare_process


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog=program_name("sweetrl_agent.show"), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="folder of a finished run")
    parser.add_argument("--task", default="0", help="number of a held-out task from 0, or its id (default: 0)")
    parser.add_argument("--split", default="test", help="held-out split (default: test)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the human and of sampling (default: 0)")
    parser.add_argument("--width", type=int, default=0, help="columns of the screen (default: the terminal's)")
    add_log_level(parser)
    return exit_status(lambda: _run(parser.parse_args(arguments)))


def _run(given: argparse.Namespace) -> int:
    prepare_process()
    from colbench_gym.errors import ColBenchError
    from sweetrl_agent.evaluation.recorded_run import open_recorded
    from sweetrl_agent.evaluation.side_by_side_play import columns, gains_of, play_both

    with ending_with(ColBenchError, ValueError, OSError), shown_logs(given.log_level):
        run = open_recorded(given.run)
        run = open_recorded(given.run, [run.algorithm.name, "gain", *run.algorithm.algorithms_needed])
        tasks = run.held_out.get(given.split, ())
        by_id = {str(getattr(task, "public_id", task.id)): task for task in tasks}
        number = int(given.task) if given.task.isdecimal() else -1
        task = tasks[number] if 0 <= number < len(tasks) else by_id.get(given.task)
        if task is None:
            raise ValueError(
                f"`--task` is a number below {len(tasks)} or the id of a task of {given.split!r}, got {given.task!r}."
                if tasks
                else f"`--split` must be one of {', '.join(run.held_out)}, got {given.split!r}."
            )
        if run.algorithm.folders and not all(
            run.path(folder).exists() or folder in run.unchanged for folder in run.algorithm.folders
        ):
            raise ValueError(
                f"{given.run} has no trained policy of {run.algorithm.name!r} yet: the run is not finished. Its own command resumes it."
            )
        run.records.refuse_changed_files(["initial/", *(f"{folder}/" for folder in run.algorithm.folders if folder)])
        algorithm = run.config.algorithms[run.algorithm.name]
        played = play_both(run, task, given.seed, {"initial": algorithm.load_initial(run), "trained": algorithm.load(run)})
        width = given.width or shutil.get_terminal_size((120, 40)).columns
        print("\n".join(columns(played, gains_of(run, list(played.values())), width)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
