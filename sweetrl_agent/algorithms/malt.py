"""MALT (Motwani et al., arXiv:2412.01928): the roles of a team are trained offline on a tree of what they might have said.

A team has a generator, which talks with the person and drafts an answer, a verifier, which criticises the draft, and a refiner, whose answer counts. They speak one after the other.

1. The initial policy plays n episodes of every task: n generations. Each gets n critiques, and each of these n refinements, by continuations from the snapshots before the verifier's
and the refiner's turn: n + n^2 + n^3 calls for a draft, a critique and an answer, and n^3 leaves.
2. Values are backed up: V(leaf) is 1 if the episode is a success, else 0; V(critique) is the mean over its refinements, V(generation) the mean over its critiques.
3. The label of a node is 1 if V > 1/2, else 0.
4. SFT of every role on its nodes with label 1, from the initial policy. Nodes at which it read and said the same count once: of 421 refinements 78 were different.
Of a message that the limit of tokens cut, the end is not learnt, here and in step 5: a role would learn to stop in the middle.
5. DPO of verifier and refiner on siblings, nodes of the same parent, with labels 1 and 0, equal pairs once; the reference is the role's SFT model, from which it starts:

    -log sigmoid(beta [log pi(a+|o) / pi_SFT(a+|o) - log pi(a-|o) / pi_SFT(a-|o)])

   To this, `dpo_nll` adds the negative log-likelihood of a+, which the paper has not: without it a+ became less likely, too.

The generator has no DPO: with it the paper's accuracy on MATH fell from 52.25% to 51.25%. `dpo_generator` turns it on; its siblings are whole dialogues of a task.

Each role has a policy of its own, or all share one that is trained on the data of all. Roles may be others than these three (`roles`): each adds a level to the tree, from its first turn on.
The paper's vote over three passes at inference is not part of the training; a policy or an environment may take it.

No code was released, and the paper was read in secondary sources: that siblings are all pairs of a chosen and a rejected node, and the optimizer's settings, are ours.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import transformers

from colbench_gym.files import Row, append_rows, iter_rows, whole_batches
from sweetrl_agent.algorithms.malt_tree import Tree, grower, sibling_pairs
from sweetrl_agent.algorithms.rft import RFTConfig, fine_tune
from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require, require_names, setting, typed_names
from sweetrl_agent.core.work import EXPECTED_SHARE, Lengths, Work, episodes, training
from sweetrl_agent.critics.credit import SUM
from sweetrl_agent.rollouts.collection import NothingToLearnError
from sweetrl_agent.rollouts.workers import ordered_map
from sweetrl_agent.trainers.measured import costs_of
from sweetrl_agent.trainers.rounds import Round
from sweetrl_agent.trainers.running import TRAINED_TOKENS, atomic_folder, trainer_arguments

_log = logging.getLogger(__name__)
#: Tasks whose trees are grown and saved together.
TASKS_PER_BATCH = 16


@dataclass(frozen=True)
class MALTConfig:
    """Settings of MALT. Epochs of SFT are those of rejection fine-tuning here."""

    n: int = setting(3, "Generations of a task, critiques of each, and refinements of each; 3 in the paper.", least=2)
    roles: list[str] = setting(["generator", "verifier", "refiner"], "Names of the agents, in the order in which they speak.")
    policies: str = setting("role", "One policy for each 'role', as in the paper, or 'one' for all.")
    sft_learning_rate: float = setting(
        1e-4, "Learning rate of SFT; with that of rejection fine-tuning, 1e-3, a refiner unlearns to write."
    )
    sft_batch: int = setting(8, "Nodes per optimizer step of SFT; 8 in the paper.", least=1)
    sft_epochs: float = setting(6.0, "Epochs of SFT.")
    dpo_generator: bool = setting(
        False,
        "Whether the first role is trained by DPO too. In the paper this lowered the accuracy on MATH from 52.25% to 51.25%.",
    )
    dpo_learning_rate: float = setting(
        1e-4, "Learning rate of DPO; with that of multi-turn DPO, 3e-4, and four epochs agents unlearn to write programs."
    )
    dpo_beta: float = setting(0.2, "Beta of DPO; 0.2 in the paper.")
    dpo_nll: float = setting(
        1.0,
        "Weight of the NLL of the chosen node in DPO; none in the paper. Without it, longer DPO made the agent stop answering.",
    )
    dpo_batch: int = setting(8, "Pairs per optimizer step of DPO.", least=1)
    dpo_epochs: float = setting(1.0, "Epochs of DPO.")
    max_length: int = setting(2048, "Maximum length of a side of a pair in tokens; longer pairs are skipped.", least=1)

    def __post_init__(self) -> None:
        """Refuse an unknown sharing of policies, fewer than two roles, and names that are not different."""
        require("policies", self.policies, ("role", "one"))
        if len(self.roles) < 2:
            raise ValueError(f"`roles` must name at least two agents, got {self.roles}.")
        require_names("roles", self.roles)


class MALT(Algorithm):
    """MALT; see the module's docstring."""

    name, title, Config = "malt", "MALT", MALTConfig
    shared, requires, engines = START, frozenset({"snapshot"}), ("transformers", "vllm")
    is_ordered = True

    @property
    def policies(self) -> Mapping[str, str]:
        """See `Algorithm`."""
        return {role: f"{self.name}/{role if self.config.policies == 'role' else 'team'}" for role in self.config.roles}

    def settings_for(self, agents: Sequence[str]) -> str:
        """See `Algorithm`; an agent that speaks again has no level of the tree."""
        return typed_names(f"{self.name}.roles", agents)

    def refuse_model(self, model: Any) -> None:
        """See `Algorithm`; DPO compares whole dialogues, which the agents must read."""
        super().refuse_model(model)
        if model.history >= 0:
            raise ValueError(
                f"{self.name!r} compares whole dialogues, which the agents must read: take `--history -1`, got {model.history}."
            )

    def train(self, run: Run) -> None:
        """Grow the trees, then SFT and DPO of every policy; resumes at the part that was not finished.

        Raises:
            NothingToLearnError: If no node has label 1.
        """
        view = Round(run, self.name, run.seed, run.tasks, run.initial_model, {self.name: self})
        parts: list[tuple[str, Callable[[Round], None]]] = [("tree", self.grow)]
        for folder in self.folders:
            name = folder.rpartition("/")[2]
            parts += [(f"sft {name}", partial(self.clone, name=name)), (f"dpo {name}", partial(self.prefer, name=name))]
        for part, work in parts:
            if not view.is_done(part):
                work(view)
                view.finish(part)
        for folder in self.folders:
            if not run.path(folder).exists():
                run.mark_untrained(folder, "No node of the role has label 1.")
        run.add_metrics(self.name, [self.measures(view)])

    # ---- the tree ------------------------------------------------------------------------------------------------------------------

    def grow(self, view: Round) -> None:
        """Steps 1 and 2: a row for each task in tree.jsonl, in batches; those that are there are kept."""
        path, tasks = view.path("tree.jsonl"), view.tasks
        done = whole_batches(path, TASKS_PER_BATCH, len(tasks))
        batches = [tasks[start : start + TASKS_PER_BATCH] for start in range(done, len(tasks), TASKS_PER_BATCH)]
        with progress_bar(total=len(tasks), initial=done, desc=self.name, unit="task") as bar:
            for rows in ordered_map(partial(grower, view, self.config.n, self.config.roles), batches, view.config.run):
                append_rows(path, rows)
                bar.update(len(rows))

    def trees(self, view: Round) -> Iterator[Tree]:
        """The trees of all tasks."""
        return map(Tree.of, iter_rows(view.path("tree.jsonl")))

    # ---- training ------------------------------------------------------------------------------------------------------------------

    def clone(self, view: Round, name: str) -> None:
        """Step 4: SFT of a policy on the nodes of its roles with label 1, into sft/NAME."""
        config, levels = self.config, self.levels(name)
        positives = {
            str(_generated(view_of_node)): view_of_node
            for tree in self.trees(view)
            for depth, role in levels.items()
            for node, view_of_node in tree.said(role, depth).items()
            if tree.values[node] > 0.5
        }
        if positives:
            settings = RFTConfig(config.sft_learning_rate, config.sft_batch, config.sft_epochs)
            fine_tune(
                view, f"sft {name}", positives.values(), settings, view.path(f"sft/{name}"), is_merged=view.config.model.lora
            )
        elif not any(value > 0.5 for tree in self.trees(view) for value in tree.values.values()):
            raise NothingToLearnError(
                "No episode of the trees succeeds, so there is nothing to train on. Start another run with more tasks, more SFT, or a better model."
            )

    def prefer(self, view: Round, name: str) -> None:
        """Step 5: DPO of a policy from its SFT model, into NAME; where there is no pair, that model."""
        from sweetrl_agent.trainers.critic import pair_trainer
        from sweetrl_agent.trainers.stage_training import train_stage

        start, folder, pairs = view.path(f"sft/{name}"), view.path(name), list(self.pairs(view, name))
        if not start.exists():
            return
        if not pairs:
            with atomic_folder(folder) as beside:
                shutil.copytree(start, beside)
            return
        config, model = self.config, view.config.model
        transformers.set_seed(view.seed)
        arguments = trainer_arguments(
            folder, view.seed, model, config.dpo_batch, config.dpo_batch, config.dpo_learning_rate, config.dpo_epochs
        )
        trainer = pair_trainer(
            str(start), model, pairs, folder, arguments,
            form=SUM, beta=config.dpo_beta, nll_coef=config.dpo_nll, max_length=config.max_length,
        )  # fmt: skip
        rows = train_stage(trainer, trainer.processing_class, folder, f"dpo {name}", view.callbacks, is_merged=model.lora)
        view.add_metrics(f"dpo {name}", rows)

    def pairs(self, view: Round, name: str) -> Iterator[Row]:
        """Rows for `pair_trainer`: siblings of the roles of a policy with labels 1 and 0. Equal texts are no pair, and equal pairs are one."""
        levels = {depth: role for depth, role in self.levels(name).items() if depth > 1 or self.config.dpo_generator}
        known = set[str]()
        for tree in self.trees(view):
            for depth, role in levels.items():
                said = tree.said(role, depth)
                for nodes in sibling_pairs({node: tree.values[node] for node in said}):
                    chosen, rejected = (_generated(said[node]) for node in nodes)
                    if chosen != rejected and (pair := str((chosen, rejected))) not in known:
                        known.add(pair)
                        yield {"hidden": "", "chosen": chosen, "rejected": rejected}

    def levels(self, name: str) -> dict[int, str]:
        """The roles of a policy, by the depth of their nodes."""
        return {depth: role for depth, (role, folder) in enumerate(self.policies.items(), 1) if folder == f"{self.name}/{name}"}

    def measures(self, view: Round) -> Row:
        """Metrics: the success of the played episodes, the share of nodes with label 1 by role, and the costs."""
        leaves = [leaf for row in iter_rows(view.path("tree.jsonl")) for leaf in row["leaves"]]
        trees = list(self.trees(view))
        of_roles = {
            role: [value > 0.5 for tree in trees for node, value in tree.values.items() if len(node) == depth]
            for depth, role in enumerate(self.config.roles, 1)
        }
        trained = {part: int(values.get(TRAINED_TOKENS, 0)) for part, values in view.done.items() if part != "finished"}
        costs = costs_of([Episode.from_row(leaf) for leaf in leaves], [leaf["known"] for leaf in leaves])
        for role, folder in self.policies.items() if self.config.policies == "role" else ():
            name = folder.rpartition("/")[2]
            costs[f"{role}/{TRAINED_TOKENS}"] = trained.get(f"sft {name}", 0) + trained.get(f"dpo {name}", 0)
        return {
            "stage": self.name,
            "step": 1,
            "success": fmean(
                value for tree in trees for node, value in tree.values.items() if len(node) == len(self.config.roles)
            ),
            **{f"{role}/positive": fmean(labels) for role, labels in of_roles.items()},
            **costs,
            TRAINED_TOKENS: sum(trained.values()),
        }

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`: the trees, then rows of SFT and pairs, as many as may be expected."""
        config, depth = self.config, len(self.config.roles)
        nodes = [len(run.tasks) * config.n**level for level in range(1, depth + 1)]
        dialogues, answers = nodes[0], sum(nodes[1:])
        prompt = lengths.dialogue + depth * lengths.agent
        answered = Work(
            f"{len(run.tasks):,} trees of {config.n**depth:,} leaves", turns=answers, utterances=answers, sampled=answers * lengths.agent,
            prompts=answers * prompt, at_once=min(run.config.model.generation_batch, max(1, answers)),
        )  # fmt: skip
        sft = training(
            sum(nodes) * EXPECTED_SHARE,
            prompt + lengths.agent,
            lengths.agent,
            config.sft_batch,
            config.sft_batch,
            config.sft_epochs,
        )
        dpo = training(
            answers * EXPECTED_SHARE, prompt + lengths.agent, lengths.agent, config.dpo_batch, config.dpo_batch, config.dpo_epochs,
            sides=2, reads=1,
        )  # fmt: skip
        return {self.name: answered + episodes(dialogues, lengths, run.config.model.generation_batch) + sft + dpo}


def _generated(view: Episode) -> list[dict[str, Any]]:
    return [{"thought": "", "cut": False, **message} for message in view.messages_to_imitate]
