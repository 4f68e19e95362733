"""SWEET-RL in rounds: the critic is trained anew on pairs of dialogues that the current policy has played. Every formula is SWEET-RL's; the rounds are ours.

For rounds k = 1, ..., K, from the initial policy pi_0:

1. The current policy pi_(k-1) plays some training tasks several times; the best dialogue of a task is paired with each worse one.
2. A critic is trained on these pairs (arXiv:2503.15478, equations 2 and 3). It starts at the reference pi_ref and is thrown away after the round.
3. Candidates of pi_(k-1) for turns of these dialogues are ranked by the critic and paired.
4. The actor pi_k is trained on these pairs by DPO (equation 4). It starts at pi_ref.

With `reference current`, pi_ref is pi_(k-1): each round improves the last policy and may drift from pi_0 without bound. With `reference initial`, pi_ref is pi_0: each
round trains from the initial policy on better data, as STaR does (arXiv:2203.14465), and stays near it. All steps are the functions of `algorithms.sweet`. The first round is
SWEET-RL on the tasks of that round, file by file, whichever reference is set.

A round whose dialogues or candidates hold no difference ends the training; the policy before it is the result, and the round's costs count.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from colbench_gym.files import Row, read_rows
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms import sweet
from sweetrl_agent.algorithms.critic_settings import SWEET, CriticConfig, without_effect
from sweetrl_agent.algorithms.critics import CRITICS
from sweetrl_agent.algorithms.sweet import Sweet, SweetConfig
from sweetrl_agent.algorithms.sweet_work import works_of_critic
from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require, setting
from sweetrl_agent.core.work import Lengths, Work, episodes
from sweetrl_agent.models.loading import load_model, load_tokenizer, merged
from sweetrl_agent.rollouts.collection import NothingToLearnError, collect, iter_trajectories, pair_outcomes
from sweetrl_agent.trainers.rounds import Round
from sweetrl_agent.trainers.running import RANKED_TURNS, SCORED_TOKENS, TRAINED_TOKENS, VERIFIED, atomic_folder, save_model

_log = logging.getLogger(__name__)
CURRENT, INITIAL = "current", "initial"
#: Seeds of rounds are below this.
_SEEDS = 2**31
Stages = tuple[tuple[str, Callable[[Any], None], Round], ...]


@dataclass(frozen=True)
class SweetOnlineConfig(SweetConfig):
    """Settings of SWEET-RL in rounds: those of SWEET-RL for every round, and those of the rounds."""

    num_states: int = setting(270, "Turns with sampled candidates in each round; 0 for all.")
    rounds: int = setting(3, "Rounds of play, critic and actor; 1 in the paper (SWEET-RL).", least=1)
    tasks: int = setting(
        0,
        "Training tasks per round, in rotation; 0 for a share of them, so that all rounds play as many episodes as SWEET-RL collects.",
    )
    reference: str = setting(
        CURRENT, "What critic and actor of a round start from and are compared with: the 'current' policy or the 'initial' one."
    )

    def __post_init__(self) -> None:
        """Refuse an unknown reference."""
        super().__post_init__()
        require("reference", self.reference, (CURRENT, INITIAL))


class SweetOnline(Algorithm):
    """SWEET-RL in rounds; see the module's docstring."""

    name, title, Config = "sweet_online", "SWEET-RL, online", SweetOnlineConfig
    shared, engines, collects = START, ("transformers", "vllm"), True

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        """What a round requires."""
        return Sweet().with_config(self.config).requires

    @property
    def without_effect(self) -> list[str]:
        """See `Algorithm`: the rounds have SWEET-RL's own critic, and no gain is measured beside it."""
        of_gain = [item.name for item in fields(CriticConfig) if item.name.startswith("gain_")]
        return without_effect(self.config, [*CRITICS[SWEET].ignores, *of_gain])

    def train(self, run: Run) -> None:
        """Run all rounds, from the stage where they were killed, and write the last policy."""
        current, rows, continues, number = run.initial_model, list[Row](), True, 0
        while continues and number < self.config.rounds:
            number += 1
            _log.info("%s: round %d of %d", self.name, number, self.config.rounds)
            playing, training = self.rounds(run, number, current)
            try:
                self._run_stages(playing, training)
                current = _whole_policy(run, playing, training.initial_model)
            except NothingToLearnError as error:
                if number == 1:
                    raise
                _log.warning("%s: ends with the policy before round %d: %s", self.name, number, error)
                continues = False
            rows.append(self._row(number, training, rows))
            continues &= run.callbacks.tell("on_log", self.name, number, rows[-1])
        run.add_metrics(self.name, rows)
        with atomic_folder(run.path(self.policies[AGENT])) as beside:
            shutil.copytree(current, beside)

    def rounds(self, run: Run, number: int, current: str) -> tuple[Round, Round]:
        """A round as it plays and samples, by the current policy, and as it trains and ranks, by the reference.

        Args:
            run: The run.
            number: Number of the round, from 1.
            current: Folder or hub name of the current policy.
        """
        tasks, count = run.tasks, self.config.tasks or max(1, len(run.tasks) // self.config.rounds)
        first = (number - 1) * count
        chosen = tuple(tasks[i % len(tasks)] for i in range(first, first + min(count, len(tasks))))
        seed = run.seed if number == 1 else derive_seed(run.seed, "round", number) % _SEEDS
        stages = {SWEET: Sweet().with_config(self.config)}
        reference = current if self.config.reference == CURRENT else run.initial_model
        folder = f"{self.name}/round_{number}"
        playing, training = (Round(run, folder, seed, chosen, model, stages) for model in (current, reference))
        return playing, training

    def _run_stages(self, playing: Round, training: Round) -> None:
        """The stages of SWEET-RL that the round has not finished."""
        stages: Stages = (
            ("collect", collect, playing), ("pairs", pair_outcomes, playing), ("critic", sweet.train_critic, training),
            ("candidates", sweet.sample_candidates, playing), ("rank", sweet.rank, training), ("actor", sweet.train_actor, training),
        )  # fmt: skip
        for name, work, view in stages:
            if not view.is_done(name):
                view.folder.mkdir(parents=True, exist_ok=True)
                work(view)
                view.finish(name)

    def _row(self, number: int, of_round: Round, earlier: list[Row]) -> Row:
        """Metrics of a round, with the costs of all rounds so far."""
        done, played = of_round.done, list(iter_trajectories(of_round))
        turns, valid = [turn for episode in played for turn in episode.turns], [e for e in played if not e.is_void]
        rows = {name: _rows(of_round.path(f"{name}.jsonl")) for name in ("candidates", "outcome_pairs", "turn_pairs")}
        sampled = sum(sum(row["num_tokens"]) for row in rows["candidates"])
        costs = {
            "episodes": len(played), "environment_turns": len(turns), "generated_tokens": sum(len(turn.token_ids) for turn in turns) + sampled,
            **{key: sum(int(done.get(stage, {}).get(key, 0)) for stage in ("critic", "rank", "actor"))
               for key in (TRAINED_TOKENS, SCORED_TOKENS, RANKED_TURNS, VERIFIED)},
        }  # fmt: skip
        if earlier:
            costs = {name: value + earlier[-1][name] for name, value in costs.items()}
        return {
            "stage": self.name,
            "step": number,
            "return": sum(episode.reward for episode in valid) / max(len(valid), 1),
            "outcome_pairs": len(rows["outcome_pairs"]),
            "turn_pairs": len(rows["turn_pairs"]),
            **costs,
        }

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`: the stages of all rounds."""
        total = Work()
        for number in range(1, self.config.rounds + 1):
            playing, _ = self.rounds(run, number, run.initial_model)
            count = len(playing.tasks) * run.config.collect.trajectories_per_task
            total += episodes(count, lengths, run.config.model.generation_batch)
            for work in works_of_critic(playing, SWEET, lengths).values():
                total += work
        return {self.name: replace(total, text=f"{self.config.rounds} rounds")}


def _rows(path: Path) -> list[Row]:
    return read_rows(path) if path.exists() else []  # of a round that ended before


def _whole_policy(run: Run, of_round: Round, base: str) -> str:
    """Folder of the round's policy, without an adapter: that of LoRA is merged, so that the next round can have another."""
    folder = of_round.path("policy")
    if not run.config.model.lora:
        return str(folder)
    whole: Path = of_round.path("merged")
    if not of_round.is_done("merged"):
        arguments = run.config.model
        save_model(merged(load_model(str(folder), base, arguments)), load_tokenizer(base, arguments), whole)
        of_round.finish("merged")
    return str(whole)
