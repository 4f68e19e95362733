"""python -m colbench_gym.evaluate POLICY...: evaluate policies on ColBench's environments, without torch.

    python -m colbench_gym.evaluate random oracle --tasks "embedded:test[:100]" --output runs/eval
    python -m colbench_gym.evaluate openai:MODEL@http://127.0.0.1:8000/v1 --concurrency 16

A policy is `random` (uninformed), `random_actions` (uniform over the menu of discrete actions), `oracle` (hands in the reference),
`person` (at the terminal), `openai:MODEL@URL` (any OpenAI-compatible chat server), or `module:NAME`, a function of the messages or an agent
of your own; NAME=POLICY gives it a name. All policies play the same tasks with the same seeds.

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
from functools import partial
from pathlib import Path
from typing import Any

from colbench_gym.agents.chat import Sampling
from colbench_gym.agents.prompts import PROMPT_OF
from colbench_gym.digests import inputs_of_source, module_of
from colbench_gym.envs.backend import BackendEnv
from colbench_gym.envs.colbench_env import ColBenchEnv
from colbench_gym.envs.frontend import FrontendEnv
from colbench_gym.envs.vector import ColBenchVectorEnv, isolate_human
from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.agents import AgentPlayer, make_agent
from colbench_gym.evaluation.evaluation import EvaluatedPolicy, Evaluation, Players, Split, evaluate, plan, result_lines
from colbench_gym.evaluation.folder import without_address
from colbench_gym.evaluation.human_trial import trial_of
from colbench_gym.evaluation.names import named_sources, versions
from colbench_gym.evaluation.policies import PolicySpec, find_policies, sampled_with
from colbench_gym.evaluation.prices import read_prices
from colbench_gym.evaluation.trial import Trial
from colbench_gym.files import check_output, locked
from colbench_gym.outside_text import printable
from colbench_gym.reasoning import AUTO
from colbench_gym.tasks.embedded import with_dial
from colbench_gym.tasks.task import Task
from sandboxes import system_lacks
from sandboxes.lists import listed, split_lists
from sandboxes.logs import add_log_level, shown_logs
from sandboxes.named import spec_of
from sandboxes.programs import program_name

ENVIRONMENTS: Mapping[str, type[ColBenchEnv]] = {"ColBench-Backend-v0": BackendEnv, "ColBench-Frontend-v0": FrontendEnv}
_SANDBOX_WORKERS = 2
_SAMPLING = ("system_prompt", "reasoning", "max_new_tokens", "temperature")
#: Settings with one value: name, default, meaning.
_VALUES: tuple[tuple[str, Any, str], ...] = (
    ("--env", "ColBench-Backend-v0", f"one of {', '.join(ENVIRONMENTS)}"),
    ("--episodes", 1, "episodes per task and seed"),
    ("--simulator", "scripted", "a name, 'my_package:MyHuman', or JSON with \"name\" and arguments"),
    ("--sandbox", "auto", "sandbox that runs programs or renders pages"),
    ("--max-turns", 0, "maximal number of messages of the agent; 0 for the task's own limit"),
    ("--concurrency", 8, "dialogues at once"),
    (
        "--reasoning",
        AUTO,
        "how models mark their thoughts, which are not part of the dialogue: auto for all known marks, none, or an opening and a closing "
        "mark, such as '<plan> </plan>'",
    ),
    ("--temperature", 0.8, "of chat models"),
    ("--max-new-tokens", 1024, "of a message of a chat model"),
    ("--api-key-env", "OPENAI_API_KEY", "environment variable with the key of chat servers"),
    ("--timeout-s", 120.0, "time limit of a request to a chat server, seconds"),
    ("--max-retries", 5, "retries of a request to a chat server"),
    ("--prices", "", "JSON or YAML: model -> {input, output}, prices of a million tokens"),
    (
        "--max-cost",
        0.0,
        "most that all requests to model servers may cost, in the currency of the prices, earlier ones of the folder included; 0 for no limit",
    ),
    ("--output", "runs/eval", "folder; an unfinished evaluation in it is resumed"),
)
#: Settings that are true or false.
_SWITCHES = (
    (
        "--isolate-generators",
        "whether each reply of your own simulated human has its own state of the global random generators",
    ),
    (
        "--require-reproducible",
        "refuse a simulated human or sandbox if its trial episode does not repeat with the same seed, or is not played",
    ),
    ("--replay-void", "play void episodes again, in place"),
    ("--dry-run", "check the settings, print the plan and play nothing"),
)
_log = logging.getLogger("colbench_gym.evaluate")  # `__name__` is "__main__" for a command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns 0 if all episodes were played, 2 for an error, 130 if interrupted."""
    words = [_with_dashes(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    given = _parser().parse_args(split_lists(words, ("tasks", "seeds", "seed", "redo"), ("seeds", "seed")))
    given.policies = [policy for text in given.policies for policy in listed(text)]
    try:
        _run(given)
    except (ColBenchError, ValueError, TypeError, ImportError, OSError) as error:
        print(f"error: {printable(' '.join(str(error).split()))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; the same command resumes", file=sys.stderr)
        return 130
    return 0


def _run(given: argparse.Namespace) -> None:
    world = _world(given)
    evaluation = _evaluation(given, world)
    trial = world.trial()
    sentence = trial.sentence(given.env)
    if given.dry_run == "true":
        check_output(evaluation.folder)
        lines = [*plan(evaluation)[0], *([f"trial      {sentence}"] if sentence else [])]
        print("\n".join([*lines, "The settings are valid; nothing was played."]))
        return
    with shown_logs(given.log_level, "stderr"):
        if sentence:
            _log.log(logging.INFO if trial.untried else logging.WARNING, "%s", sentence)
        with locked(evaluation.folder):
            results = evaluate(evaluation)
    print("\n".join(result_lines(results, evaluation.folder)))


@dataclass(frozen=True)
class _World:
    """The environments of an evaluation, and how its chat models are asked.

    Attributes:
        given: The parsed command line.
        simulator: Specification of the simulated human.
        sampling: How chat models are asked.
        sources: Source of the tasks of every split.
        splits: The tasks of every split.
    """

    given: argparse.Namespace
    simulator: Any
    sampling: Sampling
    sources: Mapping[str, str]
    splits: Mapping[str, Sequence[Task]]

    @property
    def env_class(self) -> type[ColBenchEnv]:
        """Class of the environment."""
        return ENVIRONMENTS[self.given.env]

    def environments(self, split: str, num_envs: int) -> ColBenchVectorEnv:
        """Environments over the tasks of a split."""
        given = self.given
        made = ColBenchVectorEnv(
            num_envs, "disabled", sandbox_workers=_SANDBOX_WORKERS, env_class=self.env_class, tasks=self.splits[split], simulator=self.simulator,
            sandbox=spec_of("sandbox", given.sandbox), max_turns=given.max_turns or None, reasoning=given.reasoning,
        )  # fmt: skip
        if given.isolate_generators == "true":
            isolate_human(made.envs)
        return made

    def agent(self, spec: PolicySpec, split: str) -> Any:
        """The agent of a policy on a split."""
        return make_agent(spec, self.given.env, self.sources[split], self.given.max_turns, self.sampling)

    @property
    def human(self) -> str:
        """Name of the simulated human's model; "" if it is not a model."""
        with closing(self.environments(next(iter(self.splits)), 1)) as made:
            return made.envs[0].simulator.model

    def trial(self) -> Trial:
        """Whether episodes repeat in the environments, as far as a trial episode can show.

        Raises:
            ValueError: If they do not, and `require_reproducible` is given.
        """
        given = self.given
        with closing(self.environments(next(iter(self.splits)), 2)) as made:
            trial = trial_of(made.envs, given.env, self.simulator, spec_of("sandbox", given.sandbox))
        if given.require_reproducible == "true":
            trial.require(given.env)
        return trial

    def policies(self) -> list[EvaluatedPolicy]:
        """The policies.

        Raises:
            ValueError: If one of them is wrong.
        """
        specs, inputs = find_policies(self.given.policies), module_of(spec_of("sandbox", self.given.sandbox))
        for spec in specs:
            for split in self.sources if spec.text != "person" else ():
                self.agent(spec, split).close()
        return [
            EvaluatedPolicy(
                spec.name,
                spec.text,
                sampled_with(spec, self.sampling, _SAMPLING),
                (*module_of(self.simulator), *inputs, *module_of(spec.text)),
                partial(self.players, spec),
                spec.model if spec.kind == "chat" else "",
            )
            for spec in specs
        ]

    @contextmanager
    def players(self, spec: PolicySpec, split: str) -> Iterator[Players]:
        """Players of a policy on a split; see `EvaluatedPolicy.open`."""
        agent, given = self.agent(spec, split), self.given
        num_envs = 1 if agent.is_sequential else min(given.concurrency, len(self.splits[split]) * given.episodes)
        with closing(agent), closing(self.environments(split, num_envs)) as made:
            yield partial(AgentPlayer, agent, made.envs, split, self.env_class.metric)


def _world(given: argparse.Namespace) -> _World:
    """Check the settings and load the tasks.

    Raises:
        ValueError: If a setting is wrong.
        ColBenchError: If tasks cannot be loaded.
    """
    for name, least in (("episodes", 1), ("concurrency", 1), ("max_new_tokens", 1), ("max_retries", 0), ("max_turns", 0)):
        if getattr(given, name) < least:
            raise ValueError(f"`{name}` must be at least {least}, got {getattr(given, name)}.")
    if not (given.timeout_s > 0 and 0 <= given.temperature < float("inf") and 0 <= given.max_cost < float("inf")):
        raise ValueError("`timeout_s` must be more than 0, `temperature` and `max_cost` numbers from 0 on.")
    if min(given.seeds) < 0 or len(set(given.seeds)) < len(given.seeds):
        raise ValueError(f"`seeds` must be different numbers from 0 on, got {given.seeds}.")
    if given.env not in ENVIRONMENTS:
        raise ValueError(
            f"`env` must be one of {', '.join(ENVIRONMENTS)}, got {given.env!r}; `python -m sweetrl_agent.evaluate` evaluates on any environment "
            "over texts, such as LMRL-Gym's games."
        )
    if why := system_lacks(spec_of("sandbox", given.sandbox)):
        raise ColBenchError(why)
    sources = named_sources(given.tasks)
    load = ENVIRONMENTS[given.env].load_tasks
    splits = {name: load(source, given.on_error) for name, source in sources.items()}
    prompt = PROMPT_OF.get(given.env, "") if given.system_prompt is None else given.system_prompt
    sampling = Sampling(
        prompt, given.temperature, given.max_new_tokens, given.api_key_env, given.timeout_s, given.max_retries, given.reasoning
    )
    return _World(given, _simulator(given.simulator), sampling, sources, splits)


def _evaluation(given: argparse.Namespace, world: _World) -> Evaluation:
    full_name = with_dial if world.env_class is BackendEnv else str
    fixed = {name: getattr(given, name) for name in ("env", "max_turns", "episodes", "isolate_generators")}
    return Evaluation(
        folder=Path(given.output),
        env=given.env,
        metric=world.env_class.metric,
        success_means=world.env_class.success_means,
        policies=world.policies(),
        splits={
            name: Split(source, full_name(source), world.splits[name], inputs_of_source(source))
            for name, source in world.sources.items()
        },
        seeds=given.seeds,
        episodes=given.episodes,
        fixed={"simulator": without_address(world.simulator), **fixed},
        versions=versions(),
        human=world.human,
        prices=read_prices(given.prices),
        max_cost=given.max_cost,
        redo=given.redo,
        replay_void=given.replay_void == "true",
    )


def _simulator(text: str) -> Any:
    spec = spec_of("simulator", text)
    if isinstance(spec, dict) and {name.lower() for name in spec} & {"key", "api_key", "token", "password", "secret"}:
        raise ValueError(
            "`simulator` must not contain a key or password; name the environment variable with it by `api_key_env`."
        )
    return spec


def _with_dashes(word: str) -> str:
    """An option with dashes, which may be written with underscores, as in `sweetrl_agent`."""
    name, equals, value = word.partition("=")
    return f"{name.replace('_', '-')}{equals}{value}" if word.startswith("--") else word


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program_name("colbench_gym.evaluate"), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )  # fmt: skip
    add: Callable[..., Any] = parser.add_argument
    add("policies", nargs="+", metavar="POLICY", help="random, random_actions, oracle, person, openai:MODEL@URL or module:NAME")
    add("--tasks", nargs="+", default=["embedded:test[:100]"], help="sources of tasks, each a split (default: %(default)s)")
    add("--seeds", "--seed", type=int, nargs="+", default=[0], help="seeds of the episodes (default: %(default)s)")
    add("--redo", nargs="+", default=[], metavar="POLICY", help="policies whose episodes are played again, from the first")
    add(
        "--on-error",
        default="raise",
        choices=("raise", "skip"),
        help="what a malformed row of tasks does (default: %(default)s)",
    )
    add("--system-prompt", help='system prompt of chat models: "benchmark", "pages", or a text (default: the environment\'s)')
    for name, default, text in _VALUES:
        add(name, type=type(default), default=default, help=f"{text} (default: {default})")
    for name, text in _SWITCHES:  # alone a switch means true, as in `sweetrl_agent`
        add(name, nargs="?", const="true", default="false", choices=("true", "false"), help=f"{text} (default: %(default)s)")
    add_log_level(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
