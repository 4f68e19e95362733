"""The seeds of a comparison in parallel processes, and what the screen shows of them meanwhile."""

from __future__ import annotations

import gc
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from colbench_gym.errors import ColBenchError
from colbench_gym.servers.usage import Meter, current, metered
from sandboxes.cpus import usable_cpus
from sandboxes.logs import shown_logs
from sandboxes.startup import ending_with_reader
from sweetrl_agent.core.processes import die_with_parent

if TYPE_CHECKING:
    from sweetrl_agent.config.job import Config

#: What the process of a seed writes, in the seed's folder.
LOG = "log.txt"
_log = logging.getLogger(__name__)


def run_side_by_side(work: Callable[[Config], None], configs: Sequence[Config], workers: int) -> dict[int, Exception]:
    """Run the seeds in parallel processes, `workers` at a time; each writes its output to `log.txt` in its folder.

    The screen shows the messages of all seeds.

    Args:
        work: Runs one seed; picklable.
        configs: The configuration of every seed, with its own folder.
        workers: Number of processes, each with an equal share of the cores.

    Returns:
        The errors of failed seeds, by seed.
    """
    failed: dict[int, Exception] = {}
    threads = max(1, usable_cpus() // workers)
    for config in configs:
        _log.info("seed %d: its progress bars are in %s", config.run.seed, Path(config.run.output) / LOG)
    # Also a process without a seed dies with this one: the pool starts one in the place of each that has ended.
    with ProcessPoolExecutor(workers, get_context("spawn"), die_with_parent, (os.getpid(),), max_tasks_per_child=1) as pool:
        futures = {
            pool.submit(
                _run, current(), work, replace(config, run=replace(config.run, threads=config.run.threads or threads))
            ): config
            for config in configs
        }
        try:
            for future in as_completed(futures):
                if isinstance(error := future.exception(), ColBenchError):
                    failed[futures[future].run.seed] = error
                elif error:
                    raise error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def _run(meter: Meter | None, work: Callable[[Config], None], config: Config) -> None:
    """Run a seed in this process, with its output in its log and its messages also on the screen."""
    from sweetrl_agent.config.command_line import prepare_process

    prepare_process()
    gc.freeze()  # the libraries' objects: every stage starts garbage collections, which would go through them
    folder = Path(config.run.output)
    folder.mkdir(parents=True, exist_ok=True)
    screen = ending_with_reader(io.TextIOWrapper(io.FileIO(os.dup(1), "wb"), write_through=True))
    with (folder / LOG).open("a") as log:
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            stream.flush()
            os.dup2(log.fileno(), number)
        with shown_logs(config.run.log_level), shown_logs(config.run.log_level, screen), metered(meter):
            work(config)
