"""The policies of an on-policy algorithm in training: each agent's turns are read, scored and trained by its own policy, in its own view."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.batch import Batch, Credit
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.run import Run
from sweetrl_agent.trainers.learner import Learner, Update
from sweetrl_agent.trainers.measured import by_agent
from sweetrl_agent.trainers.running import TRAINED_TOKENS
from sweetrl_agent.trainers.views import merge, select, views_of


class Learners(dict[str, Learner]):
    """The learners, by the folder of their policy.

    Args:
        learners: The learners.
        policies: Folder of every agent's policy.
        per_token: Whether values and credit belong to action tokens, not to turns.

    Attributes:
        trained_tokens: Tokens of optimizer steps by agent (`measured.by_agent`), since they were last cleared.
    """

    def __init__(self, learners: Mapping[str, Learner], policies: Mapping[str, str], per_token: bool) -> None:
        super().__init__(learners)
        self._policies, self._per_token = policies, per_token
        self.trained_tokens = Counter[str]()

    @classmethod
    def of(cls, algorithm: Any, run: Run) -> Learners:
        """New learners of an algorithm, at the initial policy."""
        learners = {folder: Learner(run, algorithm, Path(folder).name) for folder in algorithm.folders}
        return cls(learners, algorithm.policies, algorithm.values_per_token)

    @property
    def scored_tokens(self) -> int:
        """Tokens read so far without training on them: for values, scores and the reference."""
        return sum(learner.scored_tokens for learner in self.values())

    def state_values(self, episodes: Sequence[Episode]) -> list[list[float]]:
        """Values of all turns, or tokens, of episodes; see `Learner.values`."""
        return self._read("values", episodes, self._per_token)

    def reference(self, episodes: Sequence[Episode]) -> list[list[float]]:
        """Log-probabilities of all tokens of episodes under the initial policy; see `Learner.reference`."""
        return self._read("reference", episodes, True)

    def score(self, dialogues: Sequence[Episode], last_only: bool = False) -> list[list[list[float]]]:
        """See `Batch.score`."""
        log_probs: list[list[list[float]]] = [[[] for _ in dialogue.turns] for dialogue in dialogues]
        for folder, learner in self.items():
            views = views_of(dialogues, self._agents(folder))
            if last_only:
                views = [view for view in views if view.ends(dialogues)]
            scored = learner.score([view.episode for view in views], last_only)
            for view, scores in zip(views, scored, strict=True):
                for place, of_turn in zip(view.places, scores, strict=True):
                    log_probs[view.row][place] = of_turn
        return log_probs

    def update(self, batch: Batch, credit: Credit, reference: Sequence[Sequence[float]]) -> dict[str, Update]:
        """Train every policy on the credit of its agents' turns, by folder.

        Args:
            batch: The batch.
            credit: Its credit, or that of other episodes.
            reference: Result of `reference` for the batch's episodes; () to compute it in every step, if the loss uses it.
        """
        episodes, values = batch.episodes, batch.values
        if credit.episodes is not None:
            episodes, values, reference = credit.episodes, self.state_values(credit.episodes), ()
        for what, numbers in (("advantages", credit.advantages), ("returns", credit.returns)):
            if numbers or what == "advantages":
                self._check(what, numbers, episodes)
        columns = (
            (credit.advantages, self._per_token), (credit.returns, self._per_token), (values, self._per_token), (reference, True),
        )  # fmt: skip
        updates = {}
        for folder, learner in self.items():
            views = views_of(episodes, _both(self._agents(folder), credit.agents))
            if credit.episodes is not None:  # who spoke before a candidate has no part in it
                credited = select(credit.advantages, episodes, views, self._per_token)
                views = [view for view, numbers in zip(views, credited, strict=True) if any(numbers) or view.ends(episodes)]
            advantages, returns, *rest = (select(column, episodes, views, per_token) for column, per_token in columns)
            updates[folder] = learner.update([view.episode for view in views], Credit(advantages, returns), *rest)
            of_views = zip(views, updates[folder].tokens_by_episode, strict=False)  # none without a step
            self.trained_tokens.update(by_agent(TRAINED_TOKENS, ((view.agent, tokens) for view, tokens in of_views)))
        return updates

    def _check(self, what: str, numbers: Sequence[Sequence[float]], episodes: Sequence[Episode]) -> None:
        unit, of_turn = ("action token", lambda turn: len(turn.token_ids)) if self._per_token else ("turn", lambda turn: 1)
        counts = [sum(map(of_turn, episode.turns)) for episode in episodes]
        given = [list(of_episode) if isinstance(of_episode, Sequence) else [of_episode] for of_episode in numbers]
        if [len(of_episode) for of_episode in given] == counts and all(math.isfinite(x) for row in given for x in row):
            return
        wrong = next((i for i, count in enumerate(counts) if i >= len(given) or len(given[i]) != count), -1)
        shape = f"episode {wrong} has {counts[wrong]}, got {len(given[wrong]) if wrong < len(given) else 'none'}"
        problem = (
            shape
            if wrong >= 0
            else f"there are {len(counts)} episodes, got {len(given)}"
            if len(given) != len(counts)
            else "some are not"
        )
        raise ColBenchError(f"`credit` must return a finite number for every {unit} of every episode as {what}; {problem}.")

    def _agents(self, folder: str) -> list[str] | None:
        """The agents of a policy; None for the only policy of an algorithm for one agent, which speaks for all."""
        if [*self._policies] == [AGENT]:
            return None
        return [agent for agent, of_agent in self._policies.items() if of_agent == folder]

    def _read(self, what: str, episodes: Sequence[Episode], per_token: bool) -> list[list[float]]:
        columns = []
        for folder, learner in self.items():
            views = views_of(episodes, self._agents(folder))
            columns.append((views, getattr(learner, what)([view.episode for view in views])))
        return merge(columns, episodes, per_token)


def _both(agents: Collection[str] | None, others: Collection[str] | None) -> Collection[str] | None:
    """The agents that are in two collections, of which None has all."""
    return others if agents is None else agents if others is None else [agent for agent in agents if agent in others]


def metrics_of(folders: Collection[str], updates: Sequence[Mapping[str, Update]]) -> dict[str, float]:
    """Metrics of the updates of an iteration, means over them; of several policies each under the name of its folder."""
    means = {folder: mean_update([update[folder] for update in updates]) for folder in folders}
    logged = {
        folder: {name: value for name, value in asdict(mean).items() if not name.startswith("tokens") and value is not None}
        for folder, mean in means.items()
    }
    if len(logged) == 1:
        return next(iter(logged.values()))
    return {f"{Path(folder).name}/{name}": value for folder, row in logged.items() for name, value in row.items()}


def mean_update(updates: Sequence[Update]) -> Update:
    """The statistics of several updates of an iteration in one; `Update()` for none."""
    if len(updates) < 2:
        return updates[0] if updates else Update()
    divergences = [update.reference_kl for update in updates if update.reference_kl is not None]
    return Update(
        tokens=sum(update.tokens for update in updates),
        loss=sum(update.loss for update in updates) / len(updates),
        grad_norm=sum(update.grad_norm for update in updates) / len(updates),
        policy_kl=sum(update.policy_kl for update in updates) / len(updates),
        reference_kl=sum(divergences) / len(divergences) if divergences else None,
    )
