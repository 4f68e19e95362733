"""AT-GRPO (Zhao et al., arXiv:2510.11062): GRPO for teams, whose groups are candidates of one agent in one turn of one dialogue.

GRPO compares answers to the same prompt. The agents of a team read different prompts, and after the first turn so do episodes of one task. So every state gets a group of its
own, along one dialogue that grows turn by turn:

1. The current policies play an episode of each task. In its first state, before the first turn, it has K - 1 siblings: continuations from there with new random numbers.
2. The reward of candidate c, the turn that a sibling takes in that state, is R_c = r_team + w r_local: what its episode earns from that turn on, and with `local`
above 0 the verifier's score of the turn's own text.
3. The advantage of a candidate is A_c = (R_c - mean(R)) / std(R) over the K of its group. It counts for that turn alone.
4. The dialogue goes on with the best candidate. In the state after it there are K new candidates, and so on to the last turn.
5. GRPO's optimizer steps on all candidates, averaged over the tokens of a candidate and then over candidates; each policy is trained on those of its own agents. Candidates of groups
with equal rewards have no gradient, but count: a step is the smaller, the fewer groups differ.

Differences from the paper: Its environments pay every turn at once, and a candidate is chosen by that reward. Here the team is paid at the end, so each candidate is played to the
end (a snapshot keeps what is hidden), and the one that goes on is the one whose episode ended best. That episode's later turns were chosen for their luck, so they are no candidates:
all K are drawn anew. A dialogue of T turns takes K T continuations, half as long on average. The paper's text was not available; the equations are those that others quote, and values
are from the released configurations (pettingllms-ai/PettingLLMs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor

from colbench_gym.errors import ColBenchError
from sweetrl_agent.algorithms.grpo import GRPO, GRPOConfig, standardized
from sweetrl_agent.core.batch import ActionTokens, Batch, Credit, clipped_gain
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require, require_names, setting, typed_names
from sweetrl_agent.core.work import Lengths, Work, episodes, training


@dataclass(frozen=True)
class ATGRPOConfig(GRPOConfig):
    """Settings of AT-GRPO."""

    tasks: int = setting(
        4,
        "Tasks per iteration; 32 in the released configuration. The defaults play 10,080 turns where a dialogue has 6 (1,800 such dialogues have 10,800).",
        least=1,
    )
    group: int = setting(1, "Dialogues per task, each with its own groups.", least=1)
    k: int = setting(4, "Candidates K of every state; 8 in the released configuration.", least=2)
    agents: list[str] = setting([AGENT], "Names of the agents, as the environment gives them.")
    policies: str = setting("agent", "One policy for each 'agent', or 'one' for all. The paper has both.")
    local: float = setting(
        0.0,
        "Weight w of the verifier's score of a turn's own text, added to the team's reward; the environment must have a verifier.",
    )

    def __post_init__(self) -> None:
        """Refuse an unknown sharing of policies, no agent, and names that are not different."""
        require("policies", self.policies, ("agent", "one"))
        if not self.agents:
            raise ValueError("`agents` must name at least one agent, got none.")
        require_names("agents", self.agents)


class ATGRPO(GRPO):
    """AT-GRPO; see the module's docstring."""

    name, title, Config, credits_played = "at_grpo", "AT-GRPO", ATGRPOConfig, False
    averages_over = "dialogues"
    counts_skipped = True  # Adam would take a full step along the noise of a single group that differs

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        """Snapshots and, for local rewards, a verifier."""
        return frozenset({"snapshot", "verifier"} if self.config.local else {"snapshot"})

    @property
    def policies(self) -> Mapping[str, str]:
        """See `Algorithm`."""
        return {agent: f"{self.name}/{agent if self.config.policies == 'agent' else 'team'}" for agent in self.config.agents}

    def settings_for(self, agents: Sequence[str]) -> str:
        """See `Algorithm`."""
        return typed_names(f"{self.name}.agents", agents)

    def credit(self, batch: Batch) -> Credit:
        """Steps 1 to 4; logs the share of groups whose rewards differ, and what the dialogues that went on with the best have earned."""
        candidates, advantages, differ, ended = list[Episode](), list[list[float]](), list[float](), list[float]()
        growing, turn = list(batch.episodes), 1
        while growing:
            best = []
            for group, rewards in self.groups(batch, growing, turn):
                candidates += [episode.until(turn, episode.turns[turn - 1]) for episode in group]
                advantages += [[*[0.0] * (turn - 1), value] for value in standardized(rewards)]
                differ.append(float(len({*rewards}) > 1))
                best.append(group[rewards.index(max(rewards))])
            ended += [episode.reward for episode in best if len(episode.turns) == turn]
            growing, turn = [episode for episode in best if len(episode.turns) > turn], turn + 1
        metrics = {"differing_groups": fmean(differ), "best_return": fmean(ended)} if ended else {}
        return Credit(advantages, episodes=candidates, metrics=metrics)

    def groups(self, batch: Batch, growing: Sequence[Episode], turn: int) -> list[tuple[list[Episode], list[float]]]:
        """The candidates for a turn of every dialogue, and their rewards (step 2); void ones are left out."""
        known = [[episode] if turn == 1 else [] for episode in growing]
        drawn = batch.branch([(episode, turn) for episode in growing], self.config.k - len(known[0]))
        groups = [[e for e in (*before, *siblings) if not e.is_void] for before, siblings in zip(known, drawn, strict=True)]
        every = [(episode, turn) for group in groups for episode in group]
        local = iter(batch.verify(every) if self.config.local else [0.0] * len(every))
        return [
            (group, [_earned(episode, turn) + self.config.local * next(local) for episode in group])
            for group in groups
            if group
        ]

    def turn_credit(self, batch: Batch, turns: Sequence[int]) -> list[float]:
        """See `OnPolicyAlgorithm`: the episodes are the group.

        Raises:
            ColBenchError: If there is one episode, which can be compared with no other.
        """
        if len(batch.episodes) < 2:
            raise ColBenchError(
                f"{self.name!r} compares candidates for a turn, and a recorded dialogue has one: it gives no credit."
            )
        states = list(zip(batch.episodes, turns, strict=True))
        local = batch.verify(states) if self.config.local else [0.0] * len(states)
        earned = [_earned(*state) + self.config.local * of_verifier for state, of_verifier in zip(states, local, strict=True)]
        return standardized(earned)

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """GRPO's loss of the candidates; the turns before them are context."""
        gain = clipped_gain(torch.exp(tokens.log_probs - tokens.sampled), tokens.advantages, self.config.clip)
        if self.uses_reference:
            gain = gain - self.config.beta * tokens.reference_divergence()
        return -tokens.mean_over_dialogues(gain, tokens.in_last_turn())

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`: the played episodes, continuations half as long on average, and steps on one candidate turn of each."""
        config = self.config
        dialogues = config.iterations * config.tasks * config.group
        count = dialogues * config.k * lengths.turns
        halves = replace(lengths, turns=(lengths.turns + 1) / 2)
        batch, reads = max(1.0, count / config.iterations), float(config.epochs * self.uses_reference)
        trained = training(
            count, lengths.prefix + lengths.agent, lengths.agent, batch, config.micro_batch, config.epochs, reads=reads
        )
        continued = episodes(count - dialogues, halves, config.tasks * config.group * config.k)
        return {self.name: self.played_work(run, lengths) + continued + trained}


def _earned(episode: Episode, turn: int) -> float:
    """What an episode earns from a turn on."""
    return sum(later.reward for later in episode.turns[turn - 1 :])
