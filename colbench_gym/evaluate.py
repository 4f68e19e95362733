"""python -m colbench_gym.evaluate POLICY...: evaluate policies on ColBench's environments, without torch.

    python -m colbench_gym.evaluate random oracle --tasks "embedded:test[:100]" --output runs/eval
    python -m colbench_gym.evaluate openai:MODEL@http://127.0.0.1:8000/v1 --concurrency 16

A policy is `random` (uninformed), `random_actions` (uniform over the menu of an embedded task), `oracle` (hands in the reference),
`person` (at the terminal), `openai:MODEL@URL` (any OpenAI-compatible chat server), or `module:NAME`, a function of the messages or an agent
of your own; NAME=POLICY gives it a name. All policies meet the same tasks with the same seeds.

In OUTPUT: `evaluation.jsonl` (a row for every episode), `results.json` (means with 95% intervals, paired differences, tokens, cost) and
`settings.json`. A killed evaluation resumes with the same command. `python -m sweetrl_agent.evaluate` adds models, run folders and a report.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colbench_gym.agents.agent import Agent
from colbench_gym.agents.chat import Sampling
from colbench_gym.digests import inputs_of_source, module_of
from colbench_gym.envs.backend import BackendEnv
from colbench_gym.envs.colbench_env import ColBenchEnv
from colbench_gym.envs.frontend import FrontendEnv
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.cells import Cell, find_invalid, in_order, prepare, recorded, write_results
from colbench_gym.evaluation.episodes import Key, Played, Player
from colbench_gym.evaluation.folder import (
    RESULTS,
    ROWS,
    SETTINGS,
    Settings,
    gym_versions,
    locked_folder,
    make_results,
    merged_settings,
    refuse_links,
    split_name,
    unique_names,
)
from colbench_gym.evaluation.human_trial import trial_of
from colbench_gym.evaluation.policies import PolicySpec, default_prompt, find_policies
from colbench_gym.evaluation.prices import Prices, read_prices
from colbench_gym.evaluation.rows import RowFile
from colbench_gym.evaluation.summary import VOID
from colbench_gym.evaluation.table import table
from colbench_gym.evaluation.trial import Trial
from colbench_gym.files import write_json
from colbench_gym.outside_text import printable
from colbench_gym.progress import Progress
from colbench_gym.reasoning import AUTO
from colbench_gym.simulators.isolated import isolate_human
from colbench_gym.stage_records import EVALUATION, StageRecords
from colbench_gym.tasks.embedded import with_dial
from colbench_gym.tasks.task import Task
from sandboxes import system_lacks
from sandboxes.lists import listed, split_lists
from sandboxes.logs import add_log_level, shown_logs
from sandboxes.named import spec_of
from sandboxes.programs import CommandParser, program_name

ENVIRONMENTS: Mapping[str, type[ColBenchEnv]] = {"ColBench-Backend-v0": BackendEnv, "ColBench-Frontend-v0": FrontendEnv}
_SANDBOX_WORKERS = 2
_log = logging.getLogger("colbench_gym.evaluate")  # `__name__` is "__main__" for a command


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated.

    Attributes:
        given: The parsed command line.
        policies: The policies.
        sampling: How chat models are asked.
        splits: The tasks of every split, by its name.
        sources: Their sources.
        simulator: Specification of the simulated human.
        prices: Price of every model; {} for none.
    """

    given: argparse.Namespace
    policies: Sequence[PolicySpec]
    sampling: Sampling
    splits: Mapping[str, Sequence[Task]]
    sources: Mapping[str, str]
    simulator: Any
    prices: Prices

    @property
    def env_class(self) -> type[ColBenchEnv]:
        """Class of the environment."""
        return ENVIRONMENTS[self.given.env]

    def settings(self) -> Settings:
        """What the rows depend on, for `settings.json`. The address of the human's server and the name of its key may change."""
        human = self.simulator
        if isinstance(human, dict):
            human = {name: value for name, value in human.items() if name not in ("base_url", "api_key_env")}
        names = ("env", "max_turns", "episodes", "isolate_generators")
        fixed = {"simulator": human, **{name: getattr(self.given, name) for name in names}}
        return {
            "evaluation": fixed,
            "policies": {policy.name: policy.settings(self.sampling) for policy in self.policies},
            "tasks": {
                split: with_dial(source) if self.env_class is BackendEnv else source for split, source in self.sources.items()
            },
        }

    def cells(self) -> list[Cell]:
        """The episodes of each policy, split and seed, and what they depend on."""
        common = (*module_of(self.simulator), *module_of(spec_of("sandbox", self.given.sandbox)))
        return [
            Cell(policy.name, split, seed, (*inputs_of_source(self.sources[split]), *common, *module_of(policy.text)))
            for policy in self.policies
            for split in self.splits
            for seed in self.given.seeds
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns 0 if all episodes were played, 2 for an error, 130 if interrupted."""
    words = [_with_dashes(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    given = _parser().parse_args(split_lists(words, ("tasks", "seeds", "seed", "redo"), ("seeds", "seed")))
    given.policies = [policy for text in given.policies for policy in listed(text)]
    try:
        evaluation = parsed(given)
        trial = _tried(evaluation)
        if given.dry_run:
            return _plan(evaluation, trial)
        with shown_logs(given.log_level, "stderr"):
            if sentence := trial.sentence(given.env):
                _log.log(logging.INFO if trial.untried else logging.WARNING, "%s", sentence)
            run(evaluation)
    except (ColBenchError, ValueError, TypeError, ImportError, OSError) as error:
        print(f"error: {printable(' '.join(str(error).split()))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; the same command resumes", file=sys.stderr)
        return 130
    return 0


def parsed(given: argparse.Namespace) -> Evaluation:
    """Check the settings and load the tasks.

    Raises:
        ValueError: If a setting is wrong.
        ColBenchError: If tasks cannot be loaded.
    """
    for name, least in (("episodes", 1), ("concurrency", 1), ("max_new_tokens", 1), ("max_retries", 0), ("max_turns", 0)):
        if getattr(given, name) < least:
            raise ValueError(f"`{name}` must be at least {least}, got {getattr(given, name)}.")
    if not (given.timeout_s > 0 and 0 <= given.temperature < float("inf")):
        raise ValueError("`timeout_s` must be more than 0 and `temperature` a number from 0 on.")
    if min(given.seeds) < 0 or len(set(given.seeds)) < len(given.seeds):
        raise ValueError(f"`seeds` must be different numbers from 0 on, got {given.seeds}.")
    if given.env not in ENVIRONMENTS:
        raise ValueError(
            f"`env` must be one of {', '.join(ENVIRONMENTS)}, got {given.env!r}; `python -m sweetrl_agent.evaluate` evaluates on any environment "
            "over texts, such as LMRL-Gym's games."
        )
    if why := system_lacks(spec_of("sandbox", given.sandbox)):
        raise ColBenchError(why)
    policies = find_policies(given.policies)
    prompt = default_prompt(given.env) if given.system_prompt is None else given.system_prompt
    sampling = Sampling(
        prompt, given.temperature, given.max_new_tokens, given.api_key_env, given.timeout_s, given.max_retries, given.reasoning
    )
    names = unique_names(given.tasks, [split_name(source) for source in given.tasks])
    sources = dict(zip(names, given.tasks, strict=True))
    load = ENVIRONMENTS[given.env].load_tasks
    splits = {name: load(source, given.on_error) for name, source in sources.items()}
    evaluation = Evaluation(given, policies, sampling, splits, sources, _simulator(given.simulator), read_prices(given.prices))
    for policy in policies:
        for source in sources.values():
            if policy.text != "person":
                policy.make(given.env, source, given.max_turns, sampling).close()
    return evaluation


def run(evaluation: Evaluation) -> dict[str, Any]:
    """Play the missing episodes, write the results and print them; returns the content of `results.json`."""
    folder = Path(evaluation.given.output)
    with locked_folder(folder):
        records, cells = StageRecords(folder, kind=EVALUATION), evaluation.cells()
        settings = merged_settings(records, evaluation.settings())
        redo = evaluation.given.redo
        prepare(records, settings, cells, find_invalid(records, cells, redo), redo, evaluation.given.replay_void)
        write_json(folder / SETTINGS, settings)
        file, human = RowFile(folder / ROWS), ""
        for policy in evaluation.policies:
            for split in evaluation.splits:
                with _player(evaluation, policy, split) as player:
                    human = player.envs[0].simulator.model
                    for cell in cells:
                        if (cell.agent, cell.split) == (policy.name, split) and not records.is_done(cell.name):
                            with recorded(records, cell):
                                _play(evaluation, policy, player, cell, file)
        env, rows = evaluation.env_class, in_order(file.rows, records)
        results = make_results(rows, settings, env.metric, env.success_means, human, evaluation.prices, gym_versions())
        write_results(records, results)
    print(table(results))
    void = sum(row["outcome"] == VOID for row in file.rows)
    if void:
        print(f"\n{void} of {len(file.rows)} episodes are void: counted, and in no mean. `--replay-void` plays them again.")
    print(f"\nresults: {folder / RESULTS}\nrows:    {folder / ROWS}")
    return results


def _play(evaluation: Evaluation, policy: PolicySpec, player: Player, cell: Cell, file: RowFile) -> None:
    """Play the missing episodes of a cell."""
    tasks, episodes = evaluation.splits[player.split], evaluation.given.episodes
    label, seed = cell.label, cell.seed
    keys = [Key(task, seed, index) for task in tasks for index in range(episodes)]
    by_id = {(key.task.id, key.episode): key for key in keys}
    if evaluation.given.replay_void:
        chosen = [row for row in file.rows if row["outcome"] == VOID and label.items() <= row.items()]
        again = [{**label, **played.row} for played in player.play([by_id[row["task_id"], row["episode"]] for row in chosen])]
        file.replace(lambda row: row["outcome"] == VOID and label.items() <= row.items(), iter(again))
    done = file.count(label)
    if done >= len(keys):
        return
    progress = Progress(
        len(keys), sys.stderr, f"{printable(policy.name)}, {printable(player.split)}, seed {seed}:", "episodes", done
    )
    for number, played in enumerate(player.play(keys[done:]), done + 1):
        file.add({**label, **played.row}, played.why)
        progress.show(number)
        _tell(player.agent, played)
    file.flush()


def _tell(agent: Agent, played: Played) -> None:
    """Tell a person how the episode ended."""
    if agent.is_sequential:
        print(f"Outcome: {printable(str(played.row['outcome']))}, success: {played.row['success']}.")


@contextmanager
def _player(evaluation: Evaluation, policy: PolicySpec, split: str) -> Iterator[Player]:
    given, source = evaluation.given, evaluation.sources[split]
    agent = policy.make(given.env, source, given.max_turns, evaluation.sampling)
    num_episodes = len(evaluation.splits[split]) * given.episodes
    num_envs = 1 if agent.is_sequential else min(given.concurrency, num_episodes)
    with closing(agent), closing(_environments(evaluation, split, num_envs)) as environments:
        yield Player(agent, environments.envs, split, evaluation.env_class.metric)


def _environments(evaluation: Evaluation, split: str, num_envs: int) -> ColBenchVectorEnv:
    given = evaluation.given
    made = ColBenchVectorEnv(
        num_envs, "disabled", sandbox_workers=_SANDBOX_WORKERS, env_class=evaluation.env_class, tasks=evaluation.splits[split],
        simulator=evaluation.simulator, sandbox=spec_of("sandbox", given.sandbox), max_turns=given.max_turns or None, reasoning=given.reasoning,
    )  # fmt: skip
    if given.isolate_generators == "true":
        isolate_human(made.envs)
    return made


def _tried(evaluation: Evaluation) -> Trial:
    """Whether episodes repeat in the environments, as far as a trial episode can show.

    Raises:
        ValueError: If they do not, and `require_reproducible` is given.
    """
    given, source = evaluation.given, next(iter(evaluation.splits))
    with closing(_environments(evaluation, source, 2)) as environments:
        trial = trial_of(environments.envs, given.env, evaluation.simulator, spec_of("sandbox", given.sandbox))
    if given.require_reproducible:
        trial.require(given.env)
    return trial


def _plan(evaluation: Evaluation, trial: Trial) -> int:
    """Print what would be played; plays nothing but the trial."""
    given = evaluation.given
    for policy in evaluation.policies:
        print(f"policy  {printable(policy.name)}: {printable(policy.text)}")
    for split, tasks in evaluation.splits.items():
        print(f"split   {printable(split)}: {len(tasks)} tasks of {printable(evaluation.sources[split])}")
    per_policy = sum(map(len, evaluation.splits.values())) * given.episodes * len(given.seeds)
    print(f"        {per_policy} episodes of each policy in {given.env}, seeds {', '.join(map(str, given.seeds))}")
    refuse_links(Path(given.output))
    records = StageRecords(Path(given.output), kind=EVALUATION)
    merged_settings(records, evaluation.settings())
    for name, why in find_invalid(records, evaluation.cells(), given.redo).items():
        print(f"again   {printable(name)}: {printable(why)}")
    if sentence := trial.sentence(given.env):
        print(f"trial   {sentence}")
    print("The settings are valid; nothing was played.")
    return 0


def _simulator(text: str) -> Any:
    found = spec_of("simulator", text)
    if isinstance(found, dict) and {name.lower() for name in found} & {"key", "api_key", "token", "password", "secret"}:
        raise ValueError(
            "`simulator` must not contain a key or password; name the environment variable with it by `api_key_env`."
        )
    return found


def _with_dashes(word: str) -> str:
    """An option with dashes, which may be written with underscores, as in `sweetrl_agent`."""
    name, equals, value = word.partition("=")
    return f"{name.replace('_', '-')}{equals}{value}" if word.startswith("--") else word


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog=program_name("colbench_gym.evaluate"), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )  # fmt: skip
    add: Callable[..., Any] = parser.add_argument
    add("policies", nargs="+", metavar="POLICY", help="random, random_actions, oracle, person, openai:MODEL@URL or module:NAME")
    add(
        "--env",
        default="ColBench-Backend-v0",
        metavar="ID",
        help=f"one of {', '.join(ENVIRONMENTS)} (default: %(default)s)",
    )
    add("--tasks", nargs="+", default=["embedded:test[:100]"], help="sources of tasks, each a split (default: %(default)s)")
    add("--episodes", type=int, default=1, help="episodes per task and seed (default: %(default)s)")
    add("--seeds", "--seed", type=int, nargs="+", default=[0], help="seeds of the episodes (default: %(default)s)")
    add(
        "--simulator",
        default="scripted",
        help="a name, 'my_package:MyHuman', or JSON with \"name\" and arguments (default: %(default)s)",
    )
    add("--sandbox", default="auto", help="sandbox that runs programs or renders pages (default: %(default)s)")
    add("--max-turns", type=int, default=0, help="maximal number of messages of the agent; 0 for the task's own")
    add(
        "--on-error",
        default="raise",
        choices=("raise", "skip"),
        help="what a malformed row of tasks does (default: %(default)s)",
    )
    add("--concurrency", type=int, default=8, help="dialogues at once (default: %(default)s)")
    add("--system-prompt", help='system prompt of chat models: "benchmark", "pages", or a text (default: the environment\'s)')
    add(
        "--reasoning",
        default=AUTO,
        help="how models mark their thoughts, which are no part of the dialogue: auto for all marks that are known, none, or their own opening and closing "
        "mark, such as '<plan> </plan>' (default: %(default)s)",
    )
    add("--temperature", type=float, default=0.8, help="of chat models (default: %(default)s)")
    add("--max-new-tokens", type=int, default=1024, help="of a message of a chat model (default: %(default)s)")
    add(
        "--api-key-env",
        default="OPENAI_API_KEY",
        help="environment variable with the key of chat servers (default: %(default)s)",
    )
    add(
        "--timeout-s",
        type=float,
        default=120.0,
        help="time limit of a request to a chat server, seconds (default: %(default)s)",
    )
    add("--max-retries", type=int, default=5, help="retries of a request to a chat server (default: %(default)s)")
    add("--prices", default="", help="JSON or YAML: model -> {input, output}, prices of a million tokens")
    add(
        "--isolate-generators",
        default="false",
        choices=("true", "false"),
        help="whether each reply of a human of your own has a state of the global random generators of its own (default: %(default)s)",
    )
    add(
        "--require-reproducible",
        action="store_true",
        help="refuse a human or sandbox whose trial episode does not repeat with the same seed, or is not played",
    )
    add("--replay-void", action="store_true", help="play void episodes again, in place")
    add("--redo", nargs="+", default=[], metavar="POLICY", help="policies whose episodes are played again, from the first")
    add("--output", default="runs/eval", help="folder; an unfinished evaluation in it is resumed (default: %(default)s)")
    add("--dry-run", action="store_true", help="check the settings, print the plan and play nothing")
    add_log_level(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
