"""What training must know of an environment beyond its contract: how it is made, what it measures, and a start to learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colbench_gym.envs.backend import BackendEnv
from colbench_gym.envs.colbench_env import ColBenchEnv
from colbench_gym.envs.frontend import FrontendEnv
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.simulators import Simulator, make, make_designer
from colbench_gym.tasks import Task
from colbench_gym.tasks.embedded import dial_of_source, with_dial
from colbench_gym.wrappers.acts import Acts, DiscreteActs
from colbench_gym.wrappers.question_acts import QuestionActs
from colbench_gym.wrappers.slot_acts import SlotActs
from sandboxes.browser import Browser, LayoutBrowser
from sandboxes.pages.cache import RenderingCache
from sweetrl_agent.tiny import PIECES

if TYPE_CHECKING:
    from sweetrl_agent.config import Config

Dialogues = list[list[dict[str, str]]]
#: Processes that grade answers, or browsers, beside the agent.
SANDBOX_WORKERS = 2


@dataclass(frozen=True)
class World:
    """An environment as the trainer sees it.

    Attributes:
        env: Its class.
        grade: Name of the metric that tells better answers from worse, in [0, 1].
        arguments: Arguments of the environment beyond tasks, simulator and turns, from the configuration.
        demonstrate: Dialogues on tasks that teach a tiny model to converse: from tasks, their number and a seed.
        pieces: Regular expression of what a token of the tiny model's tokenizer may span.
        max_token_length: Longest token of it, in bytes.
        acts: What an agent that is no language model may choose.
        acts_arguments: Arguments of the environment as such an agent trains in it, from the configuration, with what is to be closed.
        make_simulator: Builds the human from what was asked for, as the environment would.
        has_pages: Answers are pages, which can be looked at.
        full_name: The name of a source of tasks with all that it stands for.
    """

    env: type[ColBenchEnv]
    grade: str
    arguments: Callable[[Config], dict[str, Any]]
    demonstrate: Callable[[Sequence[Task], int, int], Dialogues]
    pieces: str
    max_token_length: int
    acts: Callable[[Config], Acts]
    acts_arguments: Callable[[Config, ExitStack], dict[str, Any]]
    make_simulator: Callable[[Any], Simulator]
    has_pages: bool = False
    full_name: Callable[[str], str] = str

    def vector_env(self, config: Config, tasks: Sequence[Task], num_envs: int, simulator: Any) -> ColBenchVectorEnv:
        """The vector environment over some tasks, made for `rollouts.play`."""
        return ColBenchVectorEnv(
            num_envs=num_envs,
            autoreset_mode="disabled",
            env_class=self.env,
            tasks=tasks,
            simulator=simulator,
            max_turns=config.task.max_turns or None,
            sandbox_workers=SANDBOX_WORKERS,
            **self.arguments(config),
        )

    @contextmanager
    def acts_environments(self, config: Config, tasks: Sequence[Task], num_envs: int) -> Iterator[list[DiscreteActs]]:
        """Environments of acts over some tasks, which share what grades; closed at the end."""
        with ExitStack() as stack:
            arguments = self.acts_arguments(config, stack)
            made: Any = self.env
            own = [
                made(tasks=tasks, simulator=config.task.simulator_spec(), max_turns=config.task.max_turns or None, **arguments)
                for _ in range(num_envs)
            ]
            for env in own:
                env.share(own[0], workers=2)
                stack.callback(env.close)
            acts = self.acts(config)
            yield [DiscreteActs(env, acts) for env in own]


def _layouts(config: Config, stack: ExitStack) -> dict[str, Any]:
    """Pages of slots are our own, and nobody looks at their pictures."""
    return {"sandbox": stack.enter_context(LayoutBrowser(workers=1, cache=RenderingCache(most=50_000)))}


def _designer(spec: Any) -> Simulator:
    return make_designer(spec, Browser(), has_edits=False)


def _functions(tasks: Sequence[Task], count: int, seed: int) -> Dialogues:
    from sweetrl_agent.imitation import demonstrations

    return demonstrations(tasks, make("scripted"), count, seed)


def _pages(tasks: Sequence[Task], count: int, seed: int) -> Dialogues:
    from sweetrl_agent.imitation_pages import demonstrations

    return demonstrations(tasks, count, seed)


WORLDS: dict[str, World] = {
    "ColBench-Backend-v0": World(
        BackendEnv, "tests_passed", lambda config: {"sandbox": config.task.sandbox}, _functions,
        PIECES, max_token_length=96, acts=lambda config: QuestionActs(dial_of_source(config.task.tasks)), acts_arguments=lambda config, _: {"sandbox": config.task.sandbox},
        make_simulator=make, full_name=with_dial,
    ),
    "ColBench-Frontend-v0": World(
        FrontendEnv, "similarity", lambda config: {"sandbox": config.task.sandbox}, _pages,
        pieces=r"\n|[^\n<]*<[^\n>]*>|[^\n<]+", max_token_length=96,  # a tag with its classes becomes one or two tokens
        acts=lambda _: SlotActs(), acts_arguments=_layouts, make_simulator=_designer, has_pages=True,
    ),
}  # fmt: skip
