"""SWEET-RL (arXiv:2503.15478): a critic learns turn-wise advantages from hidden information; the actor is then trained on single turns.

    1. Collect k trajectories per task with the initial policy; pair the best of a task with each worse one.
    2. Critic: A(o_t, a_t, c) = mean_l log [pi_theta(a_t^l | o_t, c) / pi_ref(a_t^l | o_t, c)], trained by Bradley-Terry on the sum
       over turns (equations 2 and 3). Only the critic sees c.
    3. For turns of the collected dialogues, sample candidates from the initial policy (16 in the paper), rank them by A, and pair a random one of
       the best with a random one of the worst (halves in the paper; see `pair_quantile`).
    4. Actor: DPO on these pairs, with an NLL term (equation 4). This stage needs no environment.

The first step is in `collection` and shared with other algorithms. Each function here is a stage: it reads files of the run folder and
writes its own, whole or in complete batches. The critic can be replaced (`critics`); everything else stays the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import transformers

from colbench_gym.files import Row, append_rows, count_rows, iter_rows, whole_batches, write_rows
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.critic_settings import (
    SWEET,
    CriticConfig,
    critic_arguments,
    require_whole,
    stage_name,
    without_effect,
)
from sweetrl_agent.algorithms.critics import CRITICS, CriticKind, keep_noise_level, kind_of
from sweetrl_agent.algorithms.ranking import Candidates, State, open_ranker, open_verifier
from sweetrl_agent.algorithms.sweet_turns import (
    Place,
    Sampled,
    address_of,
    candidates_of,
    preferences_of,
    sampled_turns,
    states_of,
    why_no_preference,
)
from sweetrl_agent.algorithms.sweet_work import plan_of_replies, works_of_critic
from sweetrl_agent.config.model import PRETRAINED, TINY
from sweetrl_agent.config.pipeline import first_stage
from sweetrl_agent.core.algorithm import COLLECTED, Algorithm
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.policy import sample_each
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require, setting
from sweetrl_agent.core.work import Lengths, Work
from sweetrl_agent.critics.gain import DIFFERING, NoNoiseError
from sweetrl_agent.data.pairs import ANSWERS, BY_CRITIC, BY_VERIFIER
from sweetrl_agent.models.loading import initial_model, load_chat, load_policy
from sweetrl_agent.rollouts.collection import NothingToLearnError
from sweetrl_agent.rollouts.workers import WorkerFactory, ordered_map
from sweetrl_agent.trainers.running import trainer_arguments

Item = TypeVar("Item")
#: States per batch: their candidates are sampled, scored and saved together.
STATES_PER_BATCH = 32


@dataclass(frozen=True)
class SweetConfig(CriticConfig):
    """Settings of stage 1 and of stage 2 (candidates, ranking, turn-wise DPO).

    Those of `sweet` are the defaults of SWEET-RL with any other critic: `--sweet.critic_epochs 4` is for all, `--no_hidden.critic_epochs 4` for one.
    """

    num_states: int = setting(
        800, "Turns with sampled candidates; 0 for all. The turns of a tenth of the trajectories in the paper."
    )
    final_share: float = setting(
        0.0,
        "Fraction of the sampled turns that are the last that an episode may have, where the answer is due. All turns are drawn alike with 0, or without a limit.",
        least=0,
        most=1,
    )
    num_candidates: int = setting(8, "Candidates per turn; 16 in the paper.", least=2)
    pairs_per_turn: int = setting(
        2,
        "Pairs drawn per turn, with replacement (unless `pair_quantile` is 0); 4 in the released code. With one candidate on each side, all of them are the same pair.",
        least=1,
    )
    pair_quantile: float = setting(
        0.2,
        "Chosen turns are drawn from this fraction of the best candidates, rejected ones from this fraction of the worst; 0.5 in the paper. 0 draws from all pairs with "
        "different scores, each at most once (candidates may have equal texts): for scores that most candidates share, as with `gain_noise`.",
        least=0,
        most=0.5,
    )
    answers: str = setting(
        BY_CRITIC,
        "How answers among the candidates of a turn are paired: with all others by the critic ('critic'), among themselves by the critic ('apart') or the "
        "verifier, which runs them ('verifier'). 'both' draws the pairs of 'critic' and as many of questions alone.",
    )
    last_must_answer: bool = setting(
        False,
        "In the last turn that an episode may have, a candidate without an answer ranks below all with one, whatever the critic says, and so do "
        "the episode's earlier messages.",
    )
    actor_loss: str = setting("sigmoid_norm", "'sigmoid' (DPO, the paper's equation 4) or 'sigmoid_norm' (mean per token).")
    actor_learning_rate: float = setting(2e-4, "Learning rate of the actor; 2e-7 in the paper (8B model).")
    actor_beta: float = setting(1.0, "Beta of DPO; 0.1 in the paper, for the sum over a turn's tokens.")
    actor_nll: float = setting(1.0, "Weight of the NLL of the chosen turn; 0.01 in the paper.")
    actor_batch: int = setting(8, "Pairs per optimizer step; 8 in the paper.", least=1)
    actor_micro_batch: int = setting(8, "Pairs per forward pass.", least=1)
    actor_epochs: float = setting(2.0, "Epochs of the actor; 1 in the paper.")
    actor_by_turn: bool = setting(
        False, "Train pairs of a turn side by side: the dialogue before them is read once. Otherwise pairs are shuffled."
    )
    actor_max_length: int = setting(
        2048, "Maximum tokens of a prompt with its turn; longer pairs are skipped. 16384 in the released code.", least=1
    )

    def __post_init__(self) -> None:
        """Refuse invalid settings of either stage."""
        super().__post_init__()
        require("answers", self.answers, ANSWERS)
        require("actor_loss", self.actor_loss, ("sigmoid", "sigmoid_norm"))
        require_whole("actor", self.actor_batch, self.actor_micro_batch)


class Sweet(Algorithm):
    """SWEET-RL with a critic; stages that do not depend on the critic are shared by all critics.

    Args:
        critic: Name of the critic.
        kind: Its kind; None for that of `critics.CRITICS`.
    """

    Config = SweetConfig

    def __init__(self, critic: str = SWEET, kind: CriticKind | None = None) -> None:
        super().__init__()
        self.kind = kind = CRITICS[critic] if kind is None else kind
        self.name = self.critic = critic
        self.title = kind.title if critic == SWEET else f"SWEET-RL, {kind.title}"

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        """What its critic needs, and what its settings ask for."""
        more = {
            "alternatives": self.kind.scoring == "gain" and self.config.gain_tokens == DIFFERING,
            "answer_prefix": self.config.answers != BY_CRITIC or self.config.last_must_answer,
            "snapshot": self.config.answers == BY_VERIFIER,
        }
        return self.kind.needs | {name for name, is_needed in more.items() if is_needed}

    @property
    def shared(self) -> tuple[str, ...]:  # type: ignore[override]
        """See `Algorithm`; a critic that is not trained needs no pairs of outcomes."""
        return COLLECTED if self.kind.train is not None else COLLECTED[:-1]

    @property
    def policies(self) -> Mapping[str, str]:
        """See `Algorithm`."""
        return {AGENT: "policy" if self.critic == SWEET else f"{self.critic}/policy"}

    @property
    def module(self) -> str:
        """The module of its critic."""
        return self.kind.module

    def refuse_model(self, model: Any) -> None:
        """See `Algorithm`; the tiny model does not exist before SFT."""
        super().refuse_model(model)
        if self.kind.needs_hidden and not self.config.critic_hidden:
            raise ValueError(
                f"The critic {self.name!r} scores nothing but what is hidden: leave `critic_hidden` out, or give `--{self.name}.critic_hidden true`."
            )
        if self.config.gain_model == PRETRAINED and model.model == TINY:
            raise ValueError(
                f"`{self.name}.gain_model` {PRETRAINED!r} is for a pretrained `model`, got {TINY!r}; leave it out."
            )

    @property
    def without_effect(self) -> Sequence[str]:
        """See `Algorithm`."""
        return without_effect(self.config, self.kind.ignores)

    def first_stage(self, setting: str) -> str:
        """See `Algorithm`; candidates are shared by all critics."""
        stage = first_stage(setting)
        return stage if stage == "candidates" else stage_name(stage, self.critic)

    @property
    def stages(self) -> Mapping[str, Callable[[Run], None]]:
        """See `Algorithm`."""
        name = self.critic
        trained: dict[str, Callable[[Run], None]] = (
            {stage_name("critic", name): partial(train_critic, critic=name)} if self.kind.train else {}
        )
        ranked: dict[str, Callable[[Run], None]] = {
            "candidates": partial(sample_candidates, critic=name),
            stage_name("rank", name): partial(rank, critic=name),
        }
        return {**trained, **ranked, stage_name("actor", name): partial(train_actor, critic=name)}

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`."""
        works = works_of_critic(run, self.critic, lengths).items()
        return {name if name == "candidates" else stage_name(name, self.critic): work for name, work in works}

    def plan(self, run: Run) -> list[str]:
        """See `Algorithm`; TRL checks the values of both configurations."""
        from sweetrl_agent.trainers.critic import SweetCriticConfig

        config = self.config
        SweetCriticConfig(**critic_arguments(run, self.critic))
        dpo_arguments(run, self.critic)
        trained = f"{config.form} form, {config.critic_epochs:g} epochs at {config.critic_learning_rate}"
        return [
            f"critic     {trained if self.kind.train else f'{self.kind.title}, not trained'}",
            f"actor      {config.num_states or 'all'} turns x {config.num_candidates} candidates, {config.actor_loss}",
            *plan_of_replies(run, self.critic),
        ]


def settings_in(run: Run, critic: str) -> SweetConfig:
    """Settings of SWEET-RL with a critic, in a run that trains with it."""
    config: SweetConfig = run.config.algorithms[critic].config
    return config


def train_critic(run: Run, critic: str = SWEET) -> None:
    """Train a critic on outcome_pairs.jsonl (or trajectories.jsonl); writes the critic's folder."""
    train = kind_of(run, critic).train
    if train is not None:
        train(run, critic)


def sample_candidates(run: Run, critic: str = SWEET) -> None:
    """Sample candidates for turns of the collected trajectories into candidates.jsonl."""
    is_sampled = sampled_turns(run, critic)
    states, total = states_of(run, is_sampled), int(is_sampled.sum())
    count = settings_in(run, critic).num_candidates
    _work_through(run, states, total, partial(_sampler, run, count), run.path("candidates.jsonl"), desc="candidates")


@contextmanager
def _sampler(run: Run, count: int) -> Iterator[Callable[[list[Place]], list[Row]]]:
    """Opens a function that samples candidates for a batch of turns."""
    policy = load_policy(run.initial_model, run.initial_model, run.config.model)

    def sample(states: list[Place]) -> list[Row]:
        seeds = [[derive_seed(run.seed, "candidates", t.task_id, t.index, turn, i) for i in range(count)] for t, turn in states]
        sampled = sample_each(policy, [t.prefix(turn) for t, turn in states], seeds)
        return [
            {
                **address_of(t, turn),
                "texts": [utterance.text for utterance in candidates],
                **({"thoughts": thoughts} if any(thoughts := [utterance.thought for utterance in candidates]) else {}),
                **({"cut": cut} if any(cut := [utterance.is_cut for utterance in candidates]) else {}),
                "num_tokens": [utterance.num_tokens for utterance in candidates],
            }
            for (t, turn), candidates in zip(states, sampled, strict=True)
        ]

    yield sample


def rank(run: Run, critic: str = SWEET) -> None:
    """Score candidates.jsonl with a critic; writes scores.jsonl, turn_pairs.jsonl and, of the information gain, noise_level.json.

    Raises:
        NothingToLearnError: If the noise level of gains cannot be measured, since hardly any dialogue has a reply.
    """
    total, scores = count_rows(run.path("candidates.jsonl")), run.artifact(critic, "scores.jsonl")
    try:
        keep_noise_level(run, critic)
        _work_through(run, candidates_of(run, critic), total, partial(_ranker, run, critic), scores, desc="rank")
    except NoNoiseError as error:
        raise NothingToLearnError(str(error)) from error
    write_rows(run.artifact(critic, "turn_pairs.jsonl"), preferences_of(run, critic))
    stage = stage_name("rank", critic)
    costs = sum((Counter(row.get("costs", {})) for row in iter_rows(scores)), Counter[str]())
    run.add_metrics(stage, [{"stage": stage, "step": total, **costs}])


@contextmanager
def _ranker(run: Run, critic: str) -> Iterator[Callable[[list[Sampled]], list[Row]]]:
    """Opens a function that scores the candidates of a batch of turns."""
    verifies = settings_in(run, critic).answers == BY_VERIFIER
    with open_ranker(run, critic) as scores, open_verifier(run) if verifies else nullcontext() as verify:

        def row(t: Episode, turn: int, candidates: Candidates) -> Row:
            state = State.collected(run, t, turn)
            advantages = {"advantages": scores(state, t.hidden_at(turn), candidates)}
            verified = {"verified": verify(state, candidates)} if verify else {}
            costs = scores.taken_costs() + (verify.taken_costs() if verify else Counter())
            return {**address_of(t, turn), **advantages, **verified, "costs": dict(costs)}

        yield lambda batch: [row(*state) for state in batch]


def train_actor(run: Run, critic: str = SWEET) -> None:
    """Train the actor on turn_pairs.jsonl; writes policy/.

    Raises:
        NothingToLearnError: If there is no pair, because the critic gives different candidates of every turn the same score.
    """
    from sweetrl_agent.trainers.stage_training import train_stage
    from sweetrl_agent.trainers.trl.by_turn import TurnwiseDPOTrainer
    from sweetrl_agent.trainers.trl.on_disk import on_disk
    from sweetrl_agent.trainers.trl.precomputed import PrecomputingDPOTrainer, preference

    folder = run.artifact(critic, "policy")
    if not count_rows(run.artifact(critic, "turn_pairs.jsonl")):
        raise NothingToLearnError(why_no_preference(run, critic))
    stage = stage_name("actor", critic)
    transformers.set_seed(run.seed)
    chat = load_chat(run.initial_model, run.config.model)
    trainer = (TurnwiseDPOTrainer if settings_in(run, critic).actor_by_turn else PrecomputingDPOTrainer)(
        **initial_model(run.initial_model, run.config.model),
        args=dpo_arguments(run, critic),
        train_dataset=on_disk(
            (preference(row, chat, run.config.model) for row in iter_rows(run.artifact(critic, "turn_pairs.jsonl"))), folder
        ),
        processing_class=chat.tokenizer,
    )
    run.add_metrics(stage, train_stage(trainer, chat.tokenizer, folder, stage, run.callbacks))


def dpo_arguments(run: Run, critic: str) -> Any:
    """TRL's configuration for equation 4; TRL checks the values."""
    from trl import DPOConfig

    config = settings_in(run, critic)
    arguments = trainer_arguments(
        run.artifact(critic, "policy"), run.seed, run.config.model, config.actor_batch, config.actor_micro_batch,
        config.actor_learning_rate, config.actor_epochs,
    )  # fmt: skip
    return DPOConfig(
        **arguments,
        beta=config.actor_beta,
        loss_type=[config.actor_loss, "sft"],
        loss_weights=[1.0, config.actor_nll],
        max_length=config.actor_max_length,
        precompute_ref_log_probs=True,
    )


def _work_through(
    run: Run, turns: Iterator[Item], total: int, make_worker: WorkerFactory[list[Item], list[Row]], path: Path, *, desc: str
) -> None:
    """Append a row for each turn, in batches; batches that are already in the file are skipped."""
    done = whole_batches(path, STATES_PER_BATCH, total)
    left = islice(turns, done, None)
    batches = iter(lambda: list(islice(left, STATES_PER_BATCH)), [])
    with progress_bar(total=total, initial=done, desc=desc, unit="turn") as bar:
        for rows in ordered_map(make_worker, batches, run.config.run):
            append_rows(path, rows)
            bar.update(len(rows))
