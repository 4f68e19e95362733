"""Bi-directional feedback between a language model and a reinforcement learner (S. Gu, arXiv:2401.06603), over discrete dialogue actions.

The paper describes the loop in words and has no code; every formula is ours. In every round:

    1. The teacher, a language model, proposes an action in every state: p(u | o) by the likelihood of each action's text (`trainers.menu_prior`).
    2. The student, PPO of Stable-Baselines3, plays and learns. It takes the proposal as a feature, or p(u | o) as a prior whose weight kappa is
       annealed to 0 (`trainers.advised_student`).
    3. The student's advantages go back: A(o, u) is the mean of its advantages by GAE over the times that it took u in o (`trainers.action_feedback`).
    4. The teacher learns from them: by DPO on the best action of a state against the worse one that it would most likely propose, by SFT on actions
       drawn with weights exp(A / tau), or without training, by examples of good and bad proposals in its prompt.

Steps 1 and 2 are the paper's "instruction", step 3 its "feedback". The paper's teacher is a model of 80M parameters behind Lamorel, its task BabyAI's
GoToRedBall.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colbench_gym.files import Row, iter_rows, write_rows
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.discrete import NETWORK, NUM_ENVS, ROLLOUT, RandomActions, make_ppo, refuse_without_sb3, vec_env
from sweetrl_agent.core.actions import DialogueActions
from sweetrl_agent.core.algorithm import START
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require, setting
from sweetrl_agent.core.trainable import Trainable
from sweetrl_agent.core.work import Lengths, Work, episodes, reading, training
from sweetrl_agent.data.files import SECONDS
from sweetrl_agent.policies.discrete import Choice, DiscretePolicy, policy_choice
from sweetrl_agent.trainers.action_feedback import (
    FEATURE,
    PRIOR,
    Played,
    StateFeedback,
    advice_of,
    imitations,
    note,
    pooled,
    preferences,
    rows_of,
)
from sweetrl_agent.trainers.checkpoint import Checkpoint
from sweetrl_agent.trainers.menu_prior import MenuPrior, Proposer, Scorer
from sweetrl_agent.trainers.periodic_evaluation import repeat
from sweetrl_agent.trainers.running import SCORED_TOKENS, TRAINED_TOKENS, StageClock

PAIRS, SFT, CONTEXT, NONE = "pairs", "sft", "context", "none"
STUDENT, TEACHER = "student", "teacher"


@dataclass(frozen=True)
class BidirectionalConfig:
    """Settings of bi-directional feedback. The paper names none of these values."""

    rounds: int = setting(4, "Rounds of student and teacher; the paper shows 40 and 2,100 iterations of its own loop.", least=1)
    steps: int = setting(
        5000,
        "Training steps of the student in a round, one agent turn each, rounded up to whole rollouts of PPO (512).",
        least=1,
    )
    learning_rate: float = setting(1e-3, "Adam's, of the student.")
    advice: str = setting(
        PRIOR,
        "How the student takes proposals: 'prior' adds kappa log p(u | o) to its logits, 'feature' appends the proposal to its observation.",
    )
    prior_weight: float = setting(1.0, "kappa of the prior at the beginning; 0 for none, which is `ppo` in rounds.")
    anneal: float = setting(0.75, "Share of all steps over which kappa falls linearly to 0.", above=0, most=1)
    per_token: bool = setting(
        True,
        "Whether an action's likelihood is the geometric mean over its tokens; otherwise their product, which favours short texts.",
    )
    feedback: str = setting(
        PAIRS, "How the teacher learns: 'pairs' (DPO), 'sft' (weighted SFT), 'context' (examples in its prompt), or 'none'."
    )
    least_visits: int = setting(1, "Actions that the student took less often in a state are no feedback.", least=1)
    least_difference: float = setting(0.0, "Least difference of the advantages of a pair.")
    pairs_per_state: int = setting(
        4, "Pairs of a state: its best action against those worse ones that the teacher would most likely propose.", least=1
    )
    beta: float = setting(0.1, "Beta of DPO.", above=0)
    nll: float = setting(0.1, "Weight of the NLL of the better action in DPO.")
    temperature: float = setting(0.5, "tau of weighted SFT, in standard deviations of the advantages.", above=0)
    examples: int = setting(8, "Examples in the teacher's prompt, with `feedback` 'context'.", least=1)
    teacher_learning_rate: float = setting(
        3e-4,
        "Learning rate of the teacher, which is trained anew from the initial policy in every round, on the feedback of all rounds.",
    )
    teacher_batch: int = setting(8, "Pairs or actions per optimizer step of the teacher.", least=1)
    teacher_epochs: float = setting(2.0, "Epochs of the teacher over its feedback.", above=0)
    plays: str = setting(
        STUDENT,
        "Who plays after training: the 'student', with proposals where it needs them, or the 'teacher', which takes its own.",
    )

    def __post_init__(self) -> None:
        """Refuse unknown names."""
        require("advice", self.advice, (PRIOR, FEATURE))
        require("feedback", self.feedback, (PAIRS, SFT, CONTEXT, NONE))
        require("plays", self.plays, (STUDENT, TEACHER))

    def kappa(self, steps: int) -> float:
        """Weight of the prior after so many steps of all rounds: it falls linearly to 0."""
        return self.prior_weight * max(0.0, 1 - steps / (self.anneal * self.rounds * self.steps))

    @property
    def of_teacher(self) -> dict[str, Any]:
        """Arguments of the teacher's trainers."""
        batch = self.teacher_batch
        return {
            "batch": batch,
            "micro_batch": batch,
            "learning_rate": self.teacher_learning_rate,
            "epochs": self.teacher_epochs,
        }


class Teacher:
    """A language model that proposes actions, with examples of its earlier proposals in its prompt."""

    def __init__(self, prior: MenuPrior, feedback: Sequence[StateFeedback] = (), examples: int = 0) -> None:
        """Wrap the distribution of its model.

        Args:
            prior: The distribution.
            feedback: Feedback that the examples are drawn from.
            examples: Largest number of examples in a prompt.
        """
        self.prior, self.feedback, self.examples = prior, feedback, examples

    @property
    def scored_tokens(self) -> int:
        """See `Proposer`."""
        return self.prior.scored_tokens

    def log_probs(self, dialogues: Sequence[Messages]) -> NDArray[np.float64]:
        """See `Proposer`."""
        notes = [note(self.feedback, dialogue, self.prior.actions, self.examples) for dialogue in dialogues]
        return self.prior.log_probs(dialogues, notes)


class AdvisedPolicy(DiscretePolicy):
    """A student that takes the proposals of a teacher; None for a student whose prior has the weight 0."""

    def __init__(self, actions: DialogueActions, choice: Choice, teacher: Proposer | None, form: str) -> None:
        super().__init__(actions, choice)
        self.teacher, self.form = teacher, form

    def observations(self, dialogues: Sequence[Messages]) -> NDArray[np.float32]:
        """See `DiscretePolicy`."""
        log_probs = (
            np.zeros((len(dialogues), self.actions.count)) if self.teacher is None else self.teacher.log_probs(dialogues)
        )
        return np.concatenate([super().observations(dialogues), advice_of(log_probs, self.form)], axis=1)


class Bidirectional(RandomActions):
    """Bi-directional feedback; see the module's docstring."""

    name, title, Config = "bidirectional", "Bi-directional feedback", BidirectionalConfig
    shared, engines, packages = START, ("transformers",), (("stable_baselines3", "[sb3]"),)
    _continues: bool = True

    @property
    def stages(self) -> Mapping[str, Callable[[Run], None]]:
        """One stage: all rounds."""
        return {self.name: self.train}

    def first_stage(self, setting: str) -> str:
        """See `Algorithm`; who plays matters to the evaluation alone."""
        return "evaluate" if setting == "plays" else self.name

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`; at most one state in a step is new to the teacher, and half of the states give a pair."""
        config, rollout = self.config, ROLLOUT * NUM_ENVS
        of_round = -(-config.steps // rollout) * rollout
        total = config.rounds * of_round
        work = Work(f"{total:,} steps in {config.rounds:,} rounds") + episodes(
            total / lengths.turns, lengths, NUM_ENVS, has_model=False
        )
        scored = lengths.prefix + lengths.agent
        work += reading(total * run.record.actions(run.config).count, NUM_ENVS, scored, lengths.agent)
        if config.feedback in (PAIRS, SFT):
            rows = of_round * config.rounds * (config.rounds + 1) / 4
            work += training(
                rows, scored, lengths.agent, config.teacher_batch, config.teacher_batch, config.teacher_epochs, sides=2, reads=1
            )
        return {self.name: work}

    def teacher(self, run: Run, number: int) -> Proposer:
        """The teacher with the feedback of some rounds; a subclass may propose otherwise.

        Args:
            run: The run.
            number: Number of these rounds; 0 for the initial policy.
        """
        config = self.config
        folders = [folder for folder in (_teacher_folder(run, number), _teacher_folder(run)) if folder.is_dir()]
        place = str(folders[0]) if number and folders else run.initial_model
        scorer = Scorer.load(place, run.initial_model, run.config.model, config.per_token)
        return Teacher(
            MenuPrior(run.record.actions(run.config), scorer),
            self.feedback(run, number) if config.feedback == CONTEXT else (),
            config.examples,
        )

    def feedback(self, run: Run, number: int) -> list[StateFeedback]:
        """The student's feedback of the first `number` rounds."""
        rows = (row for i in range(number) for row in iter_rows(_feedback_file(run, i + 1)))
        return pooled(rows, run.record.actions(run.config), self.config.least_visits)

    def train(self, run: Run) -> None:
        """All rounds, resumed after the last complete one. Writes student.pt, teacher/ where it was trained, and the feedback of every round."""
        refuse_without_sb3()
        import torch

        path = run.path(f"{self.name}/checkpoint.pt")
        metrics: list[Row] = list(torch.load(path, weights_only=True)["metrics"]) if path.exists() else []
        _remove_leftovers(run, len(metrics))
        self._continues, rounds = repeat(run, self.name, metrics), self.config.rounds
        with progress_bar(total=rounds, initial=len(metrics), desc=self.name, unit="round") as bar:
            while self._continues and len(metrics) < rounds:
                metrics = self.play_round(run, path, metrics)
                self._continues &= run.callbacks.tell("on_log", self.name, len(metrics), metrics[-1])
                bar.update()
        run.add_metrics(self.name, metrics)
        if (trained := _teacher_folder(run, len(metrics))).is_dir():
            trained.rename(_teacher_folder(run))
        if path.exists():
            torch.save(torch.load(path, weights_only=True)["trainables"][STUDENT]["module"], _student_file(run))
            path.unlink()

    def play_round(self, run: Run, path: Path, metrics: list[Row]) -> list[Row]:
        """A round: the student plays and learns with the teacher, then the teacher learns; a checkpoint is saved.

        Models and environments are made anew and everything is seeded, so that a round depends on files alone.

        Args:
            run: The run.
            path: The checkpoint.
            metrics: Metrics of the rounds before, a row for each.

        Returns:
            Metrics of all rounds so far.
        """
        clock, done = StageClock(metrics), len(metrics)
        teacher = self.teacher(run, done)
        student, played = self.learn(run, path, done, teacher)
        write_rows(_feedback_file(run, done + 1), rows_of(played.steps, run.record.actions(run.config)))
        feedback = self.feedback(run, done + 1)
        learnt = self.teach(run, done + 1, feedback)
        costs = {
            "episodes": len(played.returns), "environment_turns": len(played.steps), "generated_tokens": 0,
            TRAINED_TOKENS: learnt.pop(TRAINED_TOKENS, 0), SCORED_TOKENS: teacher.scored_tokens,
        }  # fmt: skip
        costs = {key: count + (metrics[-1][key] if metrics else 0) for key, count in costs.items()}
        row = {"stage": self.name, "step": done + 1, **_measured(played, feedback), **learnt, **costs, SECONDS: clock.seconds()}
        Checkpoint(path, [student]).save([*metrics, row])
        shutil.rmtree(_teacher_folder(run, done), ignore_errors=True)
        return [*metrics, row]

    def learn(self, run: Run, path: Path, done: int, teacher: Proposer) -> tuple[Trainable, Played]:
        """The student's part of a round.

        Args:
            run: The run.
            path: The checkpoint, which need not exist.
            done: Number of the rounds before.
            teacher: The teacher.

        Returns:
            The student, and what it has played.
        """
        from sweetrl_agent.trainers.advised_student import POLICIES, AdvisedEnvironments, Observer

        config, before = self.config, done * self.config.steps

        def continues(steps: int) -> bool:
            self._continues &= run.callbacks.tell("on_step", self.name, before + steps, config.rounds * config.steps)
            return self._continues

        seed = derive_seed(run.seed, self.name, done) % 2**31 if done else run.seed
        with run.record.action_environments(run.config, run.tasks, NUM_ENVS) as environments:
            env = AdvisedEnvironments(vec_env(environments), teacher, config.advice)
            model = make_ppo(run, env, config.learning_rate, POLICIES[config.advice], seed)
            student = Trainable(STUDENT, model.policy, model.policy.optimizer)
            Checkpoint(path, [student]).load()
            has_prior = config.advice == PRIOR
            observer = Observer(env, (lambda steps: config.kappa(before + steps)) if has_prior else None, continues)
            model.learn(config.steps, callback=observer)
        return student, observer.played

    def teach(self, run: Run, number: int, feedback: Sequence[StateFeedback]) -> dict[str, float]:
        """Train the teacher on the feedback of the first `number` rounds, if the settings say so; returns metrics."""
        from sweetrl_agent.trainers.teacher_training import train_on_preferences, train_on_turns

        config, actions, folder = self.config, run.record.actions(run.config), _teacher_folder(run, number)
        if config.feedback not in (PAIRS, SFT):
            return {}
        stage, rows = f"{self.name} {TEACHER}", list[Row]()
        if config.feedback == PAIRS:
            taught: Sequence[Any] = preferences(feedback, actions, config.least_difference, config.pairs_per_state)
            if taught:
                rows = train_on_preferences(run, stage, taught, folder, config.of_teacher, config.beta, config.nll)
        else:
            taught = imitations(feedback, actions, config.temperature, derive_seed(run.seed, stage, number))
            if taught:
                rows = train_on_turns(run, stage, taught, folder, config.of_teacher)
        learnt = {"teacher_loss": rows[-1]["loss"], TRAINED_TOKENS: rows[-1][TRAINED_TOKENS]} if rows else {}
        return {"taught": len(taught), **learnt}

    def load(self, run: Run) -> DiscretePolicy:
        """The trained student, with the trained teacher where it takes proposals; or that teacher alone."""
        import torch

        from sweetrl_agent.trainers.advised_student import new_policy

        actions, form = run.record.actions(run.config), self.config.advice
        if self.config.plays == TEACHER:
            return AdvisedPolicy(actions, partial(_proposed, count=actions.count), self.trained_teacher(run), FEATURE)
        student: Any = new_policy(actions, form, NETWORK)
        student.load_state_dict(torch.load(_student_file(run), weights_only=True))
        student.set_training_mode(False)
        is_alone = form == PRIOR and student.prior_weight == 0
        return AdvisedPolicy(actions, policy_choice(student), None if is_alone else self.trained_teacher(run), form)

    def trained_teacher(self, run: Run) -> Proposer:
        """The teacher with the feedback of all rounds."""
        return self.teacher(run, len([*run.path(self.name).glob("feedback_*.jsonl")]))


def _proposed(observations: NDArray[np.float32], count: int) -> NDArray[np.float64]:
    """Probability 1 for the proposal, which ends an observation as a one-hot vector."""
    return observations[:, -count:].astype(np.float64)


def _measured(played: Played, feedback: Sequence[StateFeedback]) -> dict[str, float]:
    """Mean return and length of a round's episodes; how often the student did what was proposed, and what that was worth; states with feedback so far, and the share of them with several actions to compare."""
    proposed = np.array([int(log_probs.argmax()) == action for _, log_probs, action, _ in played.steps], dtype=bool)
    advantages = np.array([advantage for *_, advantage in played.steps])
    means = {"return": played.returns, "turns": played.turns, "agreement": proposed, "proposal_advantage": advantages[proposed]}
    means["compared"] = np.array([len(state.advantages) > 1 for state in feedback])
    return {"states": len(feedback), **{name: float(np.mean(values)) for name, values in means.items() if len(values)}}


def _teacher_folder(run: Run, number: int | None = None) -> Path:
    """Folder of the teacher that was trained after a round; of the trained one without a number."""
    return run.path(f"{Bidirectional.name}/{TEACHER}" + ("" if number is None else f"_{number}"))


def _remove_leftovers(run: Run, done: int) -> None:
    """Remove what a killed run left beside the checkpoint of its last round: the teachers of other rounds and, before the first, all that a finished one has written."""
    for folder in run.path(Bidirectional.name).glob(f"{TEACHER}_*"):
        if folder != _teacher_folder(run, done):
            shutil.rmtree(folder)
    if not done:
        shutil.rmtree(_teacher_folder(run), ignore_errors=True)
        for file in (_student_file(run), *run.path(Bidirectional.name).glob("feedback_*.jsonl")):
            file.unlink(missing_ok=True)


def _feedback_file(run: Run, number: int) -> Path:
    return run.path(f"{Bidirectional.name}/feedback_{number}.jsonl")


def _student_file(run: Run) -> Path:
    return run.path(f"{Bidirectional.name}/student.pt")
