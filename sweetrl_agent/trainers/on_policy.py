"""On-policy algorithms and their training loop: play episodes, credit their turns, update on the sampled tokens, checkpoint, repeat.

A subclass of `OnPolicyAlgorithm` defines `credit`. An algorithm with a critic has a value head on the policy's body, trained in the same optimizer steps
(`algorithms.turn_ppo`), or trainables of its own, trained in `update_critic`.

TRL's trainers (`RLOOTrainer`, `GRPOTrainer`) are not used: a dialogue is one sequence there, which many chat templates do not allow, and their loops have no place for
value heads, branches or several policies. `bridges.trl_turn_credit` gives `GRPOTrainer` credit per turn.
"""

from __future__ import annotations

import itertools
import logging
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row, read_rows, write_rows
from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.batch import ActionTokens, Batch, Credit
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import BranchKey, Episode, EpisodeKey, Messages
from sweetrl_agent.core.policy import Policy, Utterance
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.core.replay import Replay
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.trainable import Trainable
from sweetrl_agent.core.work import Lengths, Work, episodes, training
from sweetrl_agent.data.files import SECONDS
from sweetrl_agent.rollouts.replies_measured import refuse_leak, reply_means
from sweetrl_agent.trainers.checkpoint import Checkpoint
from sweetrl_agent.trainers.learners import Learners, metrics_of
from sweetrl_agent.trainers.measured import by_agent, costs_of, means_of, plain, refuse_void
from sweetrl_agent.trainers.periodic_evaluation import evaluate_in_training, is_due, repeat
from sweetrl_agent.trainers.running import SCORED_TOKENS, TRAINED_TOKENS, VERIFIED, StageClock
from sweetrl_agent.trainers.sampler import SAMPLING, Sampler, keys_of
from sweetrl_agent.trainers.views import at_turns

_log = logging.getLogger(__name__)
#: Costs of an algorithm, accumulated in its metrics from the first iteration on. Those of branches are counted too.
COST_KEYS = ("episodes", "environment_turns", "generated_tokens", TRAINED_TOKENS)
#: Costs that are absent where there are none.
FURTHER_COSTS = (SCORED_TOKENS, VERIFIED)


@dataclass(frozen=True)
class OnPolicyConfig:
    """Settings of rollouts and optimizer steps; a subclass adds those of its algorithm."""

    learning_rate: float = setting(3e-4, "AdamW's.")
    iterations: int = setting(30, "Iterations of rollouts and optimizer steps.", least=1)
    tasks: int = setting(15, "Tasks per iteration; the defaults play 1,800 episodes in all.", least=1)
    group: int = setting(4, "Episodes per task.", least=1)
    epochs: int = setting(1, "Optimizer steps per iteration, each on all of its episodes.", least=1)
    micro_batch: int = setting(16, "Dialogues per forward pass.", least=1)
    anneal: bool = setting(
        False,
        "Whether learning rates fall linearly to 0 over the iterations, as in PPO's paper on Atari. A policy at its optimum then stays there.",
    )


class OnPolicyAlgorithm(Algorithm):
    """Trains the initial policy on its own episodes: `play`, `update_critic`, `credit`, `update`, checkpoint, in iterations.

    A subclass defines `credit` and, where it must, `loss`, `trainables` and `update_critic`. Agents whose folder in `policies` is the same share weights.
    Fields of its `Config` ask for more: `beta` for the initial policy (see `uses_reference`), `critic_learning_rate` for a value head, which values every state
    by `first_value` before training, `replay` for that number of transitions in a batch's `replay`.

    Attributes:
        run: The run that it trains in, once `learn` has begun.
        learners: The policies in training, by the folders of `policies`.
        metrics: A row for each iteration done.
        replay: The latest transitions.
    """

    Config: ClassVar[type] = OnPolicyConfig
    shared = START
    run: Run
    learners: Learners
    metrics: list[Row]
    replay: Replay
    _is_sampler_stale: bool = False

    @property
    def values_per_token(self) -> bool:
        """Whether values and credit belong to action tokens, not to turns."""
        return False

    @property
    def uses_reference(self) -> bool:
        """Whether the loss or the credit uses log-probabilities under the initial policy: whether `beta` of the settings is above 0."""
        return bool(getattr(self.config, "beta", 0.0) > 0)

    @property
    def critic_learning_rate(self) -> float | None:
        """Learning rate of AdamW for a value head on the policy's body, by the setting of this name; None without one: there is no head."""
        return getattr(self.config, "critic_learning_rate", None)

    @property
    def is_asymmetric(self) -> bool:
        """Whether the value head reads the hidden information, which the policy never does: the setting `asymmetric`, if there is one."""
        return bool(getattr(self.config, "asymmetric", False))

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        """See `Algorithm`: hidden information, if the value head reads it."""
        return frozenset({"hidden"} if self.is_asymmetric else ())

    # ---- what a subclass defines ---------------------------------------------------------------------------------------------

    #: Whether `credit` credits the episodes that were played. False where it trains on others: `turn_credit` then says what a turn is worth.
    credits_played: bool = True
    #: Whether episodes without any advantage, which are skipped, count in the mean of the loss.
    counts_skipped: bool = False
    #: What `loss` is a mean over: "tokens" (actions), "turns" or "dialogues". So is then the loss of a step on several micro-batches.
    averages_over: str = "tokens"

    def credit(self, batch: Batch) -> Credit:
        """Advantages of every turn of every episode, and targets of the value head."""
        raise NotImplementedError

    def turn_credit(self, batch: Batch, turns: Sequence[int]) -> list[float]:
        """The number that the rule gives to one turn of each episode, for credit accuracy: by default its advantage, the mean of those of its tokens.

        An algorithm overrides it where the advantage is normalized over the batch, where the numbers of other turns need not be computed, or where `credit`
        trains on other episodes.

        Args:
            batch: Episodes that differ in this turn and in what follows it.
            turns: The turn of each episode, counted from 1.
        """
        parts = at_turns(self.credit(batch).advantages, batch.episodes, turns, self.values_per_token)
        return [sum(of_turn) / len(of_turn) for of_turn in parts]

    def credits(self, batch: Batch) -> Iterable[Credit]:
        """The credit of every update of the policies in an iteration, one after another; by default `credit` alone.

        An algorithm with several updates yields them: what it samples for the next credit is then by the policy after the update before.
        """
        return (self.credit(batch),)

    def trainables(self, run: Run) -> Sequence[Trainable]:
        """Further modules in training, such as a critic and its target network; made once, before the first iteration, and checkpointed."""
        return ()

    def update_critic(self, batch: Batch) -> Mapping[str, float]:
        """Train them, after the episodes of an iteration are played and before their `credit`; returns metrics."""
        return {}

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """Policy-gradient loss: the mean of - A log pi over action tokens. Source: arXiv:2503.15478, Lemma B.2."""
        return -(tokens.advantages * tokens.log_probs).mean()

    def loss(self, tokens: ActionTokens) -> Tensor:
        """The loss of an optimizer step. An algorithm with a critic adds the error of `tokens.values`."""
        return self.policy_loss(tokens)

    # ---- the loop --------------------------------------------------------------------------------------------------------------

    def train(self, run: Run) -> None:
        """Plays episodes on the training tasks in rotation and writes the trained policies. Resumes after the last complete iteration."""
        self.with_config(self.config).learn(run)  # a copy: the algorithm of the settings keeps no models

    def learn(self, run: Run) -> None:
        """`train` with the settings in `config`."""
        config, name = self.config, self.name
        self.begin(run)
        done = len(self.metrics)
        if done:
            _log.info("%s: resumes from iteration %d", name, done)
            refuse_leak(f"{name}, iteration {done}", self.metrics[-1], run.config.run.max_leak)
        continues = repeat(run, name, self.metrics)
        self.sampler = self.make_sampler(run)
        with closing(self.sampler), progress_bar(total=config.iterations, initial=done, desc=name, unit="step") as bar:
            continues = self.evaluate() and continues
            for iteration in range(done, config.iterations):
                if not continues:
                    break
                continues = self.iterate(iteration)
                bar.set_postfix({"return": f"{self.metrics[-1]['return']:.3f}"})
                bar.update()
                continues &= self.evaluate()
        run.add_metrics(name, self.metrics)
        self.save(run)
        for rest in (SAMPLING, "replay"):
            shutil.rmtree(run.path(f"{name}/{rest}"), ignore_errors=True)
        self.checkpoint.remove()

    def save(self, run: Run) -> None:
        """Write the trained policies."""
        for folder, learner in self.learners.items():
            learner.save(run.path(folder))

    def begin(self, run: Run) -> None:
        """Make the learners and the other trainables, and restore the last checkpoint."""
        self.run = run
        self.learners = Learners.of(self, run)
        trainables = [*(learner.trainable for learner in self.learners.values()), *self.trainables(run)]
        self.checkpoint = Checkpoint(run.path(f"{self.name}/checkpoint.pt"), trainables)
        self.metrics = self.checkpoint.load()
        self.replay = Replay(getattr(self.config, "replay", 0))
        for step in range(1, len(self.metrics) + 1 if self.replay.capacity else 1):
            self.replay.add(map(Episode.from_row, read_rows(self._replay_file(step))))
        self._clock, self._voids = StageClock(self.metrics), Counter[bool]()
        self._costs = Counter({key: value for key, value in [{}, *self.metrics][-1].items() if _is_cost(key)})

    def make_sampler(self, run: Run) -> Sampler:
        """What plays the training tasks of a run by the policies in training."""
        keeps = {"keeps_states": "snapshot" in self.requires, "keeps_keys": "anchor" in self.requires}
        return Sampler(run, self.learners, self.policies, self.name, self.config.tasks * self.config.group, **keeps)

    @property
    def spent(self) -> Counter[str]:
        """The costs so far, by `COST_KEYS` and `FURTHER_COSTS`; what the learners have read is added to those of `_costs`."""
        return self._costs + Counter({SCORED_TOKENS: self.learners.scored_tokens})

    def iterate(self, iteration: int) -> bool:
        """Play, update, and save; returns whether training continues."""
        played = self.play(iteration)
        valid = refuse_void(played, self._voids, self.run.config.run.max_void)
        updated = self.update(valid, iteration)
        step, spent = iteration + 1, self.spent
        costs = {key: spent[key] for key in (*COST_KEYS, *FURTHER_COSTS) if key in COST_KEYS or spent[key]}
        costs |= {key: cost for key, cost in spent.items() if "/" in key}
        given_away = reply_means(self.run.record, valid, {task.id: task for task in self.run.tasks})
        row = {"stage": self.name, "step": step, **means_of(valid), **given_away, **updated, **costs}
        row |= {"void": void} if (void := len(played) - len(valid)) else {}
        self.metrics.append({**row, SECONDS: self._clock.seconds()})
        if self.replay.capacity:
            write_rows(self._replay_file(step), (episode.to_row() for episode in valid))
        self.checkpoint.save(self.metrics)
        continues = self.run.callbacks.tell("on_log", self.name, step, row)
        continues = self.run.callbacks.tell("on_iteration", self.name, step, valid) and continues
        refuse_leak(f"{self.name}, iteration {step}", given_away, self.run.config.run.max_leak)
        return continues

    def play(self, iteration: int) -> list[Episode]:
        """Play the episodes of an iteration, void ones included."""
        played = self.sampler.play(self.run.tasks, keys_of(self.run.tasks, self.config, iteration), f"{self.name} {iteration}")
        spoken = dict.fromkeys(agent for episode in played for agent in episode.agents)
        if [*self.policies] != [AGENT] and (unknown := [agent for agent in spoken if agent not in self.policies]):
            raise ColBenchError(f"{self.name!r} has policies of {', '.join(self.policies)}, and {', '.join(unknown)} spoke.")
        self._costs += costs_of(played)
        self._is_sampler_stale = False
        return played

    def update(self, episodes: Sequence[Episode], iteration: int) -> dict[str, float]:
        """Train the critic, credit the episodes, and train the policies; returns metrics."""
        for trainable in self.checkpoint.trainables:
            trainable.set_progress(iteration / self.config.iterations)
        self.replay.add(episodes)
        batch = self.batch(episodes, iteration)
        metrics = dict(self.update_critic(batch))
        updates = []
        for credit in self.credits(batch):
            metrics |= credit.metrics
            updates.append(self.learners.update(batch, credit, self._reference))
            self._is_sampler_stale = True
        self._costs[TRAINED_TOKENS] += sum(of_policy.tokens for update in updates for of_policy in update.values())
        self._costs += self.learners.trained_tokens
        self.learners.trained_tokens.clear()
        return {**plain(metrics), **metrics_of(self.learners, updates)}

    def evaluate(self) -> bool:
        """Evaluate the policy where that is due and not done; returns whether training continues."""
        if not is_due(self.run, self.metrics):
            return True
        results = evaluate_in_training(self.run, self.name, self.sampler.play)
        self.metrics[-1] |= results
        self.checkpoint.save(self.metrics)
        return self.run.callbacks.tell("on_evaluate", self.name, len(self.metrics), results)

    # ---- the batch ---------------------------------------------------------------------------------------------------------------

    def batch(self, episodes: Sequence[Episode], iteration: int) -> Batch:
        """What `credit` sees of the episodes of an iteration."""
        # If `credit` asks for them, the optimizer steps use the same numbers; otherwise each step computes its own.
        self._reference: list[list[float]] = []
        self._numbers: defaultdict[tuple[EpisodeKey, int], Iterator[int]] = defaultdict(itertools.count)

        def reference() -> list[list[float]]:
            self._reference = self._reference or self.learners.reference(episodes)
            return self._reference

        return Batch(
            episodes,
            self.learners.state_values(episodes),
            self.replay,
            self.score,
            lambda states, count, redraws=False: self.branch(states, count, iteration, redraws),
            self.sample,
            reference,
            self.verify,
            iteration,
            self.run.seed,
        )

    def score(self, dialogues: Sequence[Episode], last_only: bool = False) -> list[list[list[float]]]:
        """See `Batch.score`; each agent's turns are scored by its own policy, in its own view."""
        return self.learners.score(dialogues, last_only)

    def branch(
        self, states: Sequence[tuple[Episode, int]], count: int, iteration: int, redraws: bool = False
    ) -> list[list[Episode]]:
        """See `Batch.branch`; the costs are counted."""
        keys = [
            BranchKey(episode.task_id, episode.index, turn=turn, number=next(numbers), redraws=redraws, episode=episode)
            for episode, turn in states
            for numbers in [self._numbers[episode.key, turn]]  # a further call goes on, and draws others
            for _ in range(count)
        ]
        played = self.play_branches(keys, f"{iteration} branch")
        return [played[start : start + count] for start in range(0, len(played), count)]

    def play_branches(self, keys: Sequence[BranchKey], stage: str) -> list[Episode]:
        """Play continuations of episodes on the training tasks, void ones included; the costs are counted.

        Args:
            keys: The continuations.
            stage: Name that their seeds are derived from, together with the algorithm's.
        """
        played = self.sampler.play(self.run.tasks, keys, f"{self.name} {stage}") if keys else []
        self._costs += costs_of(played, [key.turn - 1 for key in keys])
        return played

    def sample(self, dialogues: Sequence[Messages], seeds: Sequence[int], agent: str = AGENT) -> list[Utterance]:
        """See `Batch.sample`; the tokens are counted."""
        if self._is_sampler_stale:  # an engine with weights of its own has those from before the last update
            self.sampler.renew()
            self._is_sampler_stale = False
        policies = self.sampler.policies()
        policy: Policy = policies[agent] if isinstance(policies, Mapping) else policies
        utterances = policy.generate(dialogues, seeds)
        tokens = sum(len(utterance.token_ids) for utterance in utterances)
        self._costs["generated_tokens"] += tokens
        self._costs += by_agent("generated_tokens", [(agent, tokens)])
        return utterances

    def verify(self, states: Sequence[tuple[Episode, int]]) -> list[float]:
        """See `Batch.verify`; the scores are counted."""
        self._costs[VERIFIED] += len(states)
        return self.sampler.verify(states)

    def count_scored(self, tokens: int) -> None:
        """Count tokens that a critic of the algorithm has read, or that were scored, among the costs."""
        self._costs[SCORED_TOKENS] += tokens

    # ---- before training ---------------------------------------------------------------------------------------------------------

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`: episodes of all iterations, and passes over each of them."""
        config = self.config
        count = config.iterations * config.tasks * config.group
        rows = lengths.rows(count, run.config.model.history)
        batch = max(1, round(rows[0] / config.iterations))
        reads = float(self.critic_learning_rate is not None)
        if self.uses_reference:
            reads += 1 if self.values_per_token else config.epochs
        trained = training(*rows, batch, config.micro_batch, config.epochs, reads=reads - self.is_asymmetric)
        if self.is_asymmetric:  # passes without logits over hinted dialogues take the head's part
            trained += training(rows[0], rows[1] + lengths.hidden, 1, batch, config.micro_batch, config.epochs, reads=1)
        return {self.name: self.played_work(run, lengths) + trained}

    def played_work(self, run: Run, lengths: Lengths) -> Work:
        """The episodes of all iterations and of evaluations in training, without the optimizer steps."""
        given, config, of_test = run.config.evaluation, self.config, 0
        count = config.iterations * config.tasks * config.group
        if given.eval_every:
            of_test = config.iterations // given.eval_every * min(given.eval_every_tasks, len(run.held_out["test"]))
        played = episodes(count + of_test, lengths, config.tasks * config.group)
        return Work(f"{count:,} episodes in {config.iterations} iterations", models=len(self.folders)) + played

    def refuse_model(self, model: Any) -> None:
        """See `Algorithm`. A server can load new weights only as a LoRA adapter.

        Raises:
            ValueError: If the engine is a server and LoRA is off; says what to set.
        """
        super().refuse_model(model)
        if model.engine == "server" and not model.lora:
            raise ValueError(
                f"{self.name!r} sends its new weights to servers as LoRA adapters: add `--lora true`, or sample in this process with "
                "`--engine transformers` or `vllm`."
            )

    def _replay_file(self, step: int) -> Path:
        return self.run.path(f"{self.name}/replay/{step}.jsonl")


def _is_cost(key: str) -> bool:
    """Whether a metric is a cost, of all agents or of one."""
    return key in FURTHER_COSTS or key.rpartition("/")[2] in COST_KEYS
