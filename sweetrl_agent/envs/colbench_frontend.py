"""Record of ColBench-Frontend-v0: web pages, scored by their similarity to a hidden design."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

import sandboxes
from colbench_gym.envs.colbench_env import ColBenchEnv
from colbench_gym.envs.frontend import FrontendEnv
from colbench_gym.simulators import DESIGNERS, Simulator, make_designer
from colbench_gym.tasks import Task
from colbench_gym.wrappers.discrete_actions import DialogueActions
from colbench_gym.wrappers.slot_actions import SlotActions
from sandboxes.browser import Browser, LayoutBrowser
from sandboxes.pages.page import RenderingCache
from sweetrl_agent.core.environment import Demonstrations
from sweetrl_agent.core.explanation import Failure, FailureKind
from sweetrl_agent.envs import frontend_explanation
from sweetrl_agent.envs.colbench import ColBenchRecord


class FrontendRecord(ColBenchRecord):
    """Record of ColBench-Frontend-v0. The tiny model's pages improve for five turns and degrade after seven, hence `max_turns`."""

    env: ClassVar[type[ColBenchEnv]] = FrontendEnv
    metric: ClassVar[str] = FrontendEnv.metric
    hidden_noun: ClassVar[str] = "page"
    human_names: ClassVar[Sequence[str]] = tuple(DESIGNERS)
    failure_kinds: ClassVar[tuple[FailureKind, ...]] = frontend_explanation.KINDS
    success_means: ClassVar[str] = FrontendEnv.success_means
    has_pages: ClassVar[bool] = True
    pieces: ClassVar[str] = r"\n|[^\n<]*<[^\n>]*>|[^\n<]+"  # a tag with its classes is one or two tokens
    defaults: ClassVar[Mapping[str, Any]] = {
        "max_turns": 6, "test_tasks": "embedded:test[:150]", "unseen_tasks": "embedded:unseen[:30]", "max_new_tokens": 120,
        "sft_dialogues": 4000, "sft_batch": 8, "sft_learning_rate": 2e-3, "sft_muon_learning_rate": 2e-2, "tiny_vocab_size": 2048, "num_tasks": 250, "min_best": 0.0, "min_difference": 0.1, "credit_tasks": 0,
        "temperature": 1.0, "sweet.num_states": 400, "sweet.num_candidates": 16, "sweet.actor_learning_rate": 1e-4, "sweet.actor_beta": 0.1, "sweet.actor_nll": 0.3, "sweet.actor_epochs": 1.0, "sweet.pairs_per_turn": 4, "sweet.reference_hidden": True,
        "rft.batch": 32, "rft.epochs": 1.0, "mtdpo.learning_rate": 1e-4, "mtdpo.beta": 0.1, "mtdpo.nll": 0.1,
    }  # fmt: skip

    pretrained_defaults: ClassVar[Mapping[str, Any]] = {"system_prompt": "pages", "max_new_tokens": 1024}

    def demonstrations(self, tasks: Sequence[Task], count: int, seed: int) -> Demonstrations:
        """See `EnvironmentRecord`."""
        from sweetrl_agent.envs.frontend_demonstrations import TINY, demonstrations

        return demonstrations(tasks, count, seed, self.guided(TINY))

    def check_sandbox(self, spec: Any) -> None:
        """See `EnvironmentRecord`; a user-defined class is a `Browser`."""
        sandboxes.check_name(spec, Browser, ("render", "close"))

    def failure(self, row: Mapping[str, Any], task: Task, config: Any) -> Failure:
        """See `Explains`."""
        return frontend_explanation.failure(row, self.turn_limit(task, config.task))

    def explain(self, episodes: Sequence[tuple[Mapping[str, Any], Task]], config: Any) -> list[dict[str, Any]]:
        """See `Explains`; pages are rendered in the sandbox of the settings."""
        has_edits = bool(config.task.keyword_arguments().get("edits", False))
        return frontend_explanation.explain(episodes, config.task.sandbox_spec(), has_edits)

    def make_simulator(self, spec: Any) -> Simulator:
        """See `ColBenchRecord`."""
        return make_designer(spec, Browser(), has_edits=False)

    def actions(self, config: Any) -> DialogueActions:
        """Values of the slots of a page."""
        return SlotActions()

    def action_arguments(self, config: Any, stack: ExitStack) -> dict[str, Any]:
        """See `ColBenchRecord`; pages made of slots are our own, and only their layout is used, not their pictures."""
        return {"sandbox": stack.enter_context(LayoutBrowser(workers=1, cache=RenderingCache(most=50_000)))}
