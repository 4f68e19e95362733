"""MAPoRL (Park et al., arXiv:2502.18439): the coders of a debate are trained together, by PPO on every single response.

A debate has A coders and T rounds. In round t every coder a says one response s_ta: in the first it reads the dialogue alone, later also what all coders have said
in the round before.

1. The current policies play dialogues with their debates. The interviewer, who talks with the person, stays at the initial policy or is trained too (`interviewer`).
2. A verifier scores every response, v_ta in [0, 1]: the environment's unit tests, or a model that has learnt to predict them (`verifier_iterations`), in training
alone; at inference there is none.
3. The influence-aware return of a response counts what all coders say later:

    R_ta = [v_ta + sum_(t'>t) gamma^(t'-t) (1/A) sum_j v_t'j] / sum_(t'>=t) gamma^(t'-t)

4. The persuasion bonus is paid for changes of mind, from wrong (v < 1/2) to right (v > 1/2) or back; a sum of two terms:
    own      a changes its answer to the side where the others' mean was (`alpha_with`), or away from it (`alpha_against`): plus into right, minus into wrong;
    others'  the others' mean changes to the side of a's answer (`beta_with`), or away from it (`beta_against`): plus into right, minus into wrong.
5. A response is a PPO episode of its own: R_ta plus the bonus is the reward of its last token, every token costs beta (log pi_old - log pi_ref), values are a head's
on the policy's body, and GAE and losses are those of `token_ppo`. Advantages are normalized over the responses of a coder in a round.

Sign of the bonus: In the released code (chanwoo-park-official/MAPoRL, c204c2c, `bonus_rule`) the others' term has the opposite sign, so it pays for leading the others into
wrong answers, and responses of round 1 have none. `bonus_rule` "paper" has the rule above, "released" that of the code. Its alpha[0..3] are `alpha_with`, `alpha_against`, `beta_against`, `beta_with`; the paper's
alpha_1, alpha_0, beta_1, beta_0 are `alpha_with`, `alpha_against`, `beta_with`, `beta_against`.

Differences from the released code: Its verifier is trained before, on data of its own. A debate does not end early by consensus. An optimizer step is on all
responses of an iteration, not on one of 8 parts of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.token_ppo import TokenPPO, TokenPPOConfig, token_rewards
from sweetrl_agent.algorithms.turn_ppo import gae_credit
from sweetrl_agent.core.batch import Batch, Credit
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import changed, require, setting
from sweetrl_agent.core.trainable import Trainable
from sweetrl_agent.core.work import Lengths, Work, reading, training
from sweetrl_agent.critics.response_verifier import ResponseVerifier
from sweetrl_agent.trainers.views import View, merge, select, views_of

INTERVIEWER = "interviewer"
PAPER, RELEASED = "paper", "released"
#: Scores of a debate: of every round, by coder; of a debate that was cut short, some rounds lack coders.
Scores = Sequence[Mapping[int, float]]


def place_of(agent: str) -> tuple[int, int]:
    """Coder and round of an agent, counted from 1: (2, 3) for "coder2_3"; (0, 0) for any other agent."""
    match = re.fullmatch(r"coder([0-9]+)_([0-9]+)", agent)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def influence_return(scores: Scores, turn: int, coder: int, gamma: float) -> float:
    """R of step 3.

    Args:
        scores: Scores of all rounds.
        turn: The response's round, counted from 1; 0 for the interviewer's turns, whose own score is none.
        coder: Its coder, counted from 1.
        gamma: Discount per round.
    """
    values = [scores[turn - 1][coder] if turn else None, *(_mean(of_round) for of_round in scores[turn:])]
    first = 0 if turn else 1  # the interviewer has no score of its own
    weighted = [(gamma ** (n - first), value) for n, value in enumerate(values) if value is not None]
    total = sum(weight for weight, _ in weighted)
    return sum(weight * value for weight, value in weighted) / total if total else 0.0


def persuasion_bonus(
    scores: Scores, turn: int, coder: int, weights: Sequence[float], rule: str = PAPER, threshold: float = 0.5
) -> float:
    """The bonus of step 4.

    Args:
        scores: Scores of all rounds.
        turn: The response's round, counted from 1.
        coder: Its coder, counted from 1.
        weights: `alpha_with`, `alpha_against`, `beta_with` and `beta_against`.
        rule: `PAPER`, or `RELEASED` for the others' term with the opposite sign, and without it in round 1.
        threshold: Scores above it are right, those below it wrong.
    """

    def side(value: float) -> int:
        return (value > threshold) - (value < threshold)

    def mine(number: int) -> int:
        return side(scores[number - 1].get(coder, threshold))

    def others(number: int) -> int:
        mean = _mean({other: score for other, score in scores[number - 1].items() if other != coder})
        return side(threshold if mean is None else mean)

    alpha_with, alpha_against, beta_with, beta_against = weights
    is_alone, bonus = all({*of_round} <= {coder} for of_round in scores), 0.0
    sign = 1 if rule == PAPER else -1 if turn > 1 else 0
    if turn > 1 and mine(turn) * mine(turn - 1) < 0:
        before = -mine(turn) if is_alone else others(turn - 1)
        bonus += mine(turn) * {1: alpha_with, 0: 0.0, -1: alpha_against}[mine(turn) * before]
    if turn < len(scores) and not is_alone and others(turn + 1) * others(turn) < 0:
        after = others(turn + 1)
        bonus += sign * after * {1: beta_with, 0: 0.0, -1: beta_against}[mine(turn) * after]
    return bonus


@dataclass(frozen=True)
class MAPoRLConfig(TokenPPOConfig):
    """Settings of MAPoRL: those of PPO over tokens, and those of the debate."""

    learning_rate: float = setting(1e-4, "Learning rate of the policies; 1e-5 in the code (QLoRA of 3B models).")
    gamma: float = setting(
        0.3, "Discount per round of later scores; 0.3 in the code. The tokens of a response are not discounted.", most=1
    )
    value_weight: float = setting(0.1, "Weight of the critic's loss; 0.1 in the code.")
    beta: float = setting(0.002, "Weight of the KL penalty of every token's reward; 0.002 in the code.")
    coders: int = setting(2, "Coders A of the debate, as in the environment; 2 in the code.", least=1)
    rounds: int = setting(3, "Rounds T of the debate, as in the environment; 3 in the code.", least=1)
    policies: str = setting(
        "agent_round", "Policies of the coders: 'one' for all, one for each 'agent', or as in the paper for each 'agent_round'."
    )
    trained_coders: int = setting(
        0, "Number of trained coders; the others keep the initial policy. 0 for all: the paper's co-training."
    )
    interviewer: bool = setting(
        False,
        "Whether the interviewer is trained too: all its turns are one PPO episode, with the return of the later scores alone.",
    )
    turn_based: bool = setting(
        False,
        "Whether one round is trained at a time, the last one first, each for an equal block of the iterations. The code has both; the interviewer comes last.",
    )
    verifier_iterations: int = setting(
        0,
        "First iterations, in which the policies are not trained, and a model on the initial policy's body learns the tests' scores of their responses; from "
        "then on its scores count. 0 for those of the tests.",
    )
    verifier_learning_rate: float = setting(1e-3, "AdamW's learning rate of that model.")
    verifier_epochs: int = setting(2, "Its passes over the responses of such an iteration, in steps of `micro_batch`.", least=1)
    bonus_rule: str = setting(
        PAPER, "Sign of the bonus for the others' changes: 'paper' for the intended one, 'released' for the code's."
    )
    threshold: float = setting(0.5, "Scores above it are right, those below it wrong, for the bonus; 0.5 in the code.", most=1)
    alpha_with: float = setting(0.0, "Bonus for a change to the others' side; 0 in the code's scripts, up to 2 in the paper.")
    alpha_against: float = setting(0.0, "Bonus for a change away from the others' side; as `alpha_with`.")
    beta_with: float = setting(0.0, "Bonus for a change of the others to the coder's own side; as `alpha_with`.")
    beta_against: float = setting(0.0, "Bonus for a change of the others away from the coder's own side; as `alpha_with`.")

    def __post_init__(self) -> None:
        """Refuse unknown names, more coders in training than there are, and too few iterations for a verifier or for every round's turn."""
        require("policies", self.policies, ("agent_round", "agent", "one"))
        require("bonus_rule", self.bonus_rule, (PAPER, RELEASED))
        if self.trained_coders > self.coders:
            raise ValueError(f"`trained_coders` must be at most `coders`, {self.coders}, got {self.trained_coders}.")
        blocks = self.rounds + self.interviewer if self.turn_based else 1
        if self.iterations < (least := self.verifier_iterations + blocks):
            why = "with `turn_based`, one for each block" if self.turn_based else "above `verifier_iterations`"
            raise ValueError(f"`iterations` must be at least {least}, {why}, got {self.iterations}.")


class MAPoRL(TokenPPO):
    """MAPoRL; see the module's docstring."""

    name, title, Config = "maporl", "MAPoRL", MAPoRLConfig
    verifier: ResponseVerifier | None = None

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        """A verifier of responses in earlier states, and what the value head reads."""
        return super().requires | {"snapshot", "verifier"}

    @property
    def without_effect(self) -> list[str]:
        """See `Algorithm`."""
        unread = () if self.config.verifier_iterations else ("verifier_learning_rate", "verifier_epochs")
        return changed(self.config, unread)

    @property
    def policies(self) -> Mapping[str, str]:
        """See `Algorithm`: the interviewer's, and those of "coder{a}_{t}", coder a in round t."""
        config = self.config
        names = {"agent_round": "coder{}_{}", "agent": "coder{}", "one": "coder"}
        folders = {INTERVIEWER: f"{self.name}/{INTERVIEWER}" if config.interviewer else ""}
        for turn in range(1, config.rounds + 1):
            for coder in range(1, config.coders + 1):
                is_trained = coder <= (config.trained_coders or config.coders)
                folders[f"coder{coder}_{turn}"] = (
                    f"{self.name}/{names[config.policies].format(coder, turn)}" if is_trained else ""
                )
        return folders

    def settings_for(self, agents: Sequence[str]) -> str:
        """See `Algorithm`; for a debate alone."""
        first, *coders = agents or ("",)
        of_coders, of_rounds = (set(numbers) for numbers in zip(*map(place_of, coders), strict=True)) if coders else ({0}, {0})
        is_debate = first == INTERVIEWER and 0 not in of_coders and len(coders) == len(of_coders) * len(of_rounds)
        return f"--{self.name}.coders {len(of_coders)} --{self.name}.rounds {len(of_rounds)}" if is_debate else ""

    def in_training(self, iteration: int) -> list[str]:
        """The agents that are trained in an iteration."""
        trained = [agent for agent, folder in self.policies.items() if folder]
        if not self.config.turn_based:
            return trained
        rounds, first = sorted({place_of(agent)[1] for agent in trained}, reverse=True), self.config.verifier_iterations
        now = rounds[(iteration - first) * len(rounds) // (self.config.iterations - first)]
        return [agent for agent in trained if place_of(agent)[1] == now]

    def trainables(self, run: Run) -> Sequence[Trainable]:
        """The verifier, if it is trained."""
        config = self.config
        if not config.verifier_iterations:
            return ()
        self.verifier = ResponseVerifier(run, config.verifier_learning_rate, config.micro_batch)
        return (self.verifier.trainable,)

    def update_critic(self, batch: Batch) -> Mapping[str, float]:
        """Train the verifier in its iterations."""
        responses = _responses(batch.episodes)
        if self.verifier is None or not self.learns_verifier(batch.iteration) or not responses:
            return {}
        tests, seed = _tested(batch, responses), derive_seed(batch.seed, self.name, "verifier", batch.iteration)
        metrics = self.verifier.train([view.episode for view in responses], tests, self.config.verifier_epochs, seed)
        self.count_scored(self.verifier.taken_tokens())
        return {**metrics, **_means("round", _by_round(responses, tests, len(batch.episodes)))}

    def learns_verifier(self, iteration: int) -> bool:
        """Whether the verifier is trained in an iteration, and the policies are not."""
        return iteration < self.config.verifier_iterations

    def credits(self, batch: Batch) -> Iterable[Credit]:
        """None while the verifier learns."""
        if not self.learns_verifier(batch.iteration):
            yield self.credit(batch)

    def scores(self, batch: Batch) -> list[Scores]:
        """Step 2: the scores of all debates."""
        responses = _responses(batch.episodes)
        if self.verifier is None:
            scores = _tested(batch, responses)
        else:
            scores = self.verifier.scores([view.episode for view in responses])
            self.count_scored(self.verifier.taken_tokens())
        return _by_round(responses, scores, len(batch.episodes))

    def reward(self, scores: Scores, agent: str) -> float:
        """Steps 3 and 4: the return of an agent's response, or of the interviewer's turns, with the bonus."""
        config, (coder, turn) = self.config, place_of(agent)
        value = influence_return(scores, turn, coder, config.gamma)
        weights = config.alpha_with, config.alpha_against, config.beta_with, config.beta_against
        bonus = persuasion_bonus(scores, turn, coder, weights, config.bonus_rule, config.threshold) if turn else 0.0
        return value + bonus

    def credit(self, batch: Batch) -> Credit:
        """Step 5: advantages of tokens, normalized for each agent, and targets of their values; logs the mean score of every round."""
        episodes, scores = batch.episodes, self.scores(batch)
        reference = batch.reference() if self.uses_reference else []
        columns = []
        for agent in self.in_training(batch.iteration):
            views = views_of(episodes, [agent])
            paid = [_paid(view.episode, self.reward(scores[view.row], agent)) for view in views]
            under_reference = select(reference, episodes, views, per_token=True) or [[] for _ in views]
            rewards = [token_rewards(*row, self.config.beta) for row in zip(paid, under_reference, strict=True)]
            values = select(batch.values, episodes, views, per_token=True)
            columns.append((views, gae_credit(rewards, values, 1.0, self.config.lam)))
        advantages, returns = (
            merge([(views, getattr(credit, what)) for views, credit in columns], episodes, per_token=True)
            for what in ("advantages", "returns")
        )
        return Credit(
            advantages,
            returns,
            metrics=_means("round" if self.verifier is None else "verifier_round", scores),
            agents=self.in_training(batch.iteration),
        )

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`: the dialogues, and the responses, each behind the dialogue and what the coders said before."""
        config = self.config
        count = config.iterations * config.tasks * config.group * config.coders * config.rounds
        prompt, batch = lengths.dialogue + config.coders * lengths.agent, count / config.iterations
        at_once = max(1, min(count, config.tasks * config.group))
        debated = Work(turns=count, utterances=count, sampled=count * lengths.agent, prompts=count * prompt, at_once=at_once)
        reads = 2.0 if self.uses_reference else 1.0
        tokens, learnt = prompt + lengths.agent, config.verifier_iterations / config.iterations
        trained = (1 - learnt) * count
        debated += training(trained, tokens, lengths.agent, batch, config.micro_batch, config.epochs, reads=reads)
        if learnt:
            debated += reading(trained, config.micro_batch, tokens, 1)
            debated += training(
                learnt * count, tokens, 1, config.micro_batch, config.micro_batch, config.verifier_epochs, reads=1
            )
        played = super().work(run, lengths)[self.name] if config.interviewer else self.played_work(run, lengths)
        return {self.name: played + debated}


def _paid(episode: Episode, reward: float) -> Episode:
    """An episode whose last turn alone has a reward."""
    *before, last = episode.turns
    return replace(episode, turns=[*(replace(turn, reward=0.0) for turn in before), replace(last, reward=reward)])


def _responses(episodes: Sequence[Episode]) -> list[View]:
    """The coders' views of all debates, each with its response."""
    return [view for view in views_of(episodes, None) if any(place_of(view.agent))]


def _tested(batch: Batch, responses: Sequence[View]) -> list[float]:
    """The tests' scores of responses; of a coder with several turns, that of its last one, which is paid."""
    return batch.verify([(batch.episodes[view.row], view.places[-1] + 1) for view in responses])


def _by_round(responses: Sequence[View], scores: Sequence[float], debates: int) -> list[Scores]:
    """Scores of responses as those of debates."""
    by_round: list[dict[int, dict[int, float]]] = [{} for _ in range(debates)]
    for view, score in zip(responses, scores, strict=True):
        coder, turn = place_of(view.agent)
        by_round[view.row].setdefault(turn, {})[coder] = score
    return [[of_debate.get(turn, {}) for turn in range(1, max(of_debate, default=0) + 1)] for of_debate in by_round]


def _mean(of_round: Mapping[int, float]) -> float | None:
    """The mean score of a round; None if nobody responded."""
    return fmean(of_round.values()) if of_round else None


def _means(name: str, scores: Sequence[Scores]) -> dict[str, float]:
    """Mean score of the responses of every round, "NAME_1" and so on."""
    rounds = range(max(map(len, scores), default=0))
    of_rounds = [[value for debate in scores if turn < len(debate) for value in debate[turn].values()] for turn in rounds]
    return {f"{name}_{turn}": fmean(values) for turn, values in enumerate(of_rounds, 1) if values}
