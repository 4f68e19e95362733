"""TRL's `GRPOTrainer` (1.16) with credit per turn: its own advantage of the dialogue plus the credit of each turn, on the tokens of the turn.

    rollouts = GRPORollouts("ColBench-Backend-v0", tasks="embedded:train[:500]")
    critic = gain_critic("Qwen/Qwen2.5-Coder-0.5B-Instruct", rollouts.record.answer_prefix)
    trainer = TurnCreditGRPOTrainer(rollouts, critic, model=..., args=GRPOConfig(...))

`_compute_loss` of the trainer takes advantages of shape (B, T), "to support subclasses". This subclass gives them:

    A[i, token] = TRL's A[i] + weight * (c_t - center) / scale,   t the turn of the token (`bridges.turn_credit`).

With weight 0, or with credit that is the same for all turns, the loss is TRL's. All its losses that use one advantage per token work: grpo, bnpo, dr_grpo,
dapo, cispo, sapo, vespo, luspo.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sweetrl_agent.bridges.grpo_rollouts import GRPORollouts  # first: it says so where TRL is missing
from sweetrl_agent.bridges.turn_credit import DEFAULT, Rule, Scale, TurnCredit, credit_of_turns, credit_terms, refuse_critic
from sweetrl_agent.core.critic import Critic

from accelerate.utils import gather_object  # isort: skip
from trl import GRPOTrainer  # isort: skip


class TurnCreditGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """Adds the credit of each turn to the advantages of the tokens of the turn."""

    def __init__(self, rollouts: GRPORollouts, critic: Critic | Rule, scale: Scale = DEFAULT, **arguments: Any) -> None:
        """Set up the trainer on the dialogues of `rollouts`.

        Args:
            rollouts: The dialogues. They are the trainer's dataset, rollout function and reward.
            critic: What gives credit to turns, as in `turn_credit`. A function gets the dialogues of this process.
            scale: Weight, center and scale of the credit. `outcome` has no effect: the outcome's advantage is TRL's, by `GRPOConfig.scale_rewards`.
            **arguments: Arguments of `GRPOTrainer`, such as `model` and `args`; further `reward_funcs` follow the environment's.

        Raises:
            ValueError: If an argument is not the trainer's to choose here.
            TypeError: If `rollouts`, `critic` or `scale` is none.
        """
        for argument, given, kind in (("rollouts", rollouts, GRPORollouts), ("scale", scale, Scale)):
            if not isinstance(given, kind):
                raise TypeError(f"`{argument}` must be of {kind.__name__}, got {given!r}.")
        refuse_critic(critic)
        for name in ("train_dataset", "rollout_func"):
            if name in arguments:
                raise ValueError(f"`{name}` is that of `rollouts`; leave it out.")
        further = arguments.pop("reward_funcs", [])
        rewards = [rollouts.episode_reward, *(further if isinstance(further, list) else [further])]
        if rollouts.episode_reward in rewards[1:]:
            raise ValueError("`reward_funcs` follow the reward of `rollouts`, which would count twice; leave it out.")
        super().__init__(train_dataset=rollouts.dataset(), rollout_func=rollouts, reward_funcs=rewards, **arguments)
        self.rollouts, self.critic, self.credit_scale = rollouts, critic, scale

    def _calculate_rewards(self, *given: Any) -> torch.Tensor:
        """See `GRPOTrainer`, which counts a void dialogue as 0 beside what further functions say of it; here it has no reward of any function."""
        rewards: torch.Tensor = super()._calculate_rewards(*given)
        rewards[rewards[:, 0].isnan()] = torch.nan
        return rewards

    def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
        """See `GRPOTrainer`; "advantages" has the shape (B, T) of "completion_ids"."""
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        advantages = output["advantages"][:, None].repeat(1, output["completion_ids"].shape[1])
        terms = self._terms()
        for row, (of_turns, turn_ids) in enumerate(zip(terms, self.rollouts.turn_ids, strict=True)):
            by_token = [of_turns[turn - 1] if turn else 0.0 for turn in turn_ids]
            advantages[row, : len(by_token)] += torch.tensor(by_token, device=advantages.device)
        return {**output, "advantages": advantages}

    def _terms(self) -> list[list[float]]:
        """The credit of the turns of this process's dialogues, relative to the other dialogues of their tasks, which other processes may hold."""
        episodes = self.rollouts.episodes
        credited = [(e.task_id, of) for e, of in zip(episodes, credit_of_turns(self.critic, episodes), strict=True)]
        everyone: list[tuple[str, TurnCredit]] = gather_object(credited)
        numbers = [value for _, of in everyone for value in of if value is not None]
        mean, std = (float(np.mean(numbers)), float(np.std(numbers))) if numbers else (0.0, 0.0)
        logged: Any = self._metrics["train" if getattr(self.model, "training", True) else "eval"]
        for name, value in (("mean", mean), ("std", std), ("turns", len(numbers))):
            logged[f"credit/{name}"].append(value)
        terms = credit_terms([task_id for task_id, _ in everyone], [of for _, of in everyone], self.credit_scale)
        first = self.accelerator.process_index * len(credited)
        return terms[first : first + len(credited)]
