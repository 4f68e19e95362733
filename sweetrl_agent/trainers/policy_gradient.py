"""What on-policy algorithms share: play, credit every turn, one step along the policy gradient; again.

An algorithm is a function that credits the turns of a batch of trajectories (see `algorithms.reinforce`). Our own loop, for TRL's
trainers (`RLOOTrainer`, `GRPOTrainer`) credit whole completions, not turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from sweetrl_agent.chat import EncodedDialogue, encode_dialogue, system_message
from sweetrl_agent.models import adapted, load_model, load_tokenizer, policy_on, system_prompt
from sweetrl_agent.padding import is_token, right_padded
from sweetrl_agent.rollouts import Episode, episodes_of, play
from sweetrl_agent.run import Run
from sweetrl_agent.trainers.running import TRAINED_TOKENS, Checkpoint, save_model
from sweetrl_agent.trajectory import Trajectory

Credit = Callable[[Sequence[Trajectory]], list[list[float]]]
#: What an algorithm spends, counted in its metrics from the first iteration on.
SPENT = ("episodes", "environment_turns", "generated_tokens", TRAINED_TOKENS)


@dataclass(frozen=True)
class OnPolicy:
    """How much is played and how far a step goes.

    Attributes:
        learning_rate: AdamW's.
        iterations: Steps, each on new episodes.
        tasks: Tasks of an iteration.
        group: Episodes of each.
        micro_batch: Dialogues in a forward pass.
    """

    learning_rate: float
    iterations: int
    tasks: int
    group: int
    micro_batch: int


def train_on_policy(run: Run, name: str, credit: Credit, settings: OnPolicy) -> None:
    """Train the start on episodes of its own -> name/agent/. Goes on after the last whole iteration.

    Args:
        run: The run; its training tasks take turns.
        name: The algorithm's, for its folder, its metrics and its seeds.
        credit: Advantages of every turn of trajectories that were played together, void ones left out.
        settings: How much.
    """
    learner = _Learner(run, settings)
    checkpoint = Checkpoint(run.path(f"{name}/checkpoint.pt"), learner.model, learner.optimizer)
    done, metrics = checkpoint.load()
    spent = Counter({key: metrics[-1][key] for key in SPENT} if metrics else {})
    env = run.environment(run.tasks, settings.tasks * settings.group)
    with closing(env), tqdm(total=settings.iterations, initial=done, desc=name, unit="step") as bar:
        for iteration in range(done, settings.iterations):
            episodes = _episodes(run, settings, iteration)
            played = [t for batch in play(learner.policy, env, episodes, run.seed, f"{name} {iteration}") for t in batch]
            valid = [trajectory for trajectory in played if not trajectory.is_void]
            spent += _spent(played)
            spent[TRAINED_TOKENS] += learner.step(valid, credit(valid))
            success = sum(t.reward for t in valid) / max(len(valid), 1)
            metrics.append({"stage": name, "step": iteration + 1, "success": success, **{key: spent[key] for key in SPENT}})
            checkpoint.save(iteration + 1, metrics)
            bar.update()
    run.add_metrics(name, metrics)
    save_model(learner.model, learner.tokenizer, run.path(f"{name}/agent"))
    checkpoint.remove()


class _Learner:
    """A model that plays and learns."""

    def __init__(self, run: Run, settings: OnPolicy) -> None:
        arguments = run.config.model
        self.tokenizer = load_tokenizer(run.start_model, arguments)
        self.model = adapted(load_model(run.start_model, run.start_model, arguments), arguments)
        weights = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
        self.policy = policy_on(self.model, self.tokenizer, arguments)
        self.instructions = system_message(system_prompt(arguments))
        self.micro_batch, self.temperature = settings.micro_batch, arguments.temperature

    def step(self, trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]]) -> int:
        """One optimizer step; trajectories without any advantage are left out. Returns the tokens that went through the model."""
        rows = [
            (encode_dialogue([*self.instructions, *trajectory.messages], self.tokenizer), values)
            for trajectory, values in zip(trajectories, advantages, strict=True)
            if any(values)
        ]
        self.model.train()
        for start in range(0, len(rows), self.micro_batch):
            part = rows[start : start + self.micro_batch]
            loss = policy_gradient_loss(
                self.model, [encoded for encoded, _ in part], [values for _, values in part], self.temperature
            )
            (loss * len(part) / len(rows)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return sum(len(encoded.token_ids) for encoded, _ in rows)


def policy_gradient_loss(
    model: Any, dialogues: Sequence[EncodedDialogue], advantages: Sequence[Sequence[float]], temperature: float = 1.0
) -> Tensor:
    """- sum over turns of A(turn) times the turn's summed log-probability, divided by the number of action tokens.

    Args:
        model: The policy, a causal language model.
        dialogues: What was said, a leading system message included where the agent has one.
        advantages: For every dialogue one number per agent turn.
        temperature: At which the turns were sampled; the probabilities are those of the policy that played.

    Source: the policy gradient with actions that are whole utterances; arXiv:2503.15478, Lemma B.2.
    """
    device, rows = model.device, [dialogue.token_ids for dialogue in dialogues]
    ids, turns = right_padded(rows, device), right_padded([dialogue.turn_ids for dialogue in dialogues], device)[:, 1:]
    logits = model(ids, attention_mask=is_token(rows, device), use_cache=False).logits[:, :-1]
    is_action = turns > 0
    log_probs = torch.log_softmax(logits[is_action].float() / temperature, dim=-1).gather(1, ids[:, 1:][is_action][:, None])[
        :, 0
    ]
    by_turn = torch.zeros(len(dialogues), int(turns.max()) + 1, device=device)
    for row, values in enumerate(advantages):
        by_turn[row, 1 : len(values) + 1] = torch.tensor(list(values), device=device)
    return -(by_turn.gather(1, turns)[is_action] * log_probs).mean()


def _episodes(run: Run, settings: OnPolicy, iteration: int) -> list[Episode]:
    """The next tasks in their order, from the first again when all had their turn."""
    first = iteration * settings.tasks
    return episodes_of([run.tasks[i % len(run.tasks)].id for i in range(first, first + settings.tasks)], settings.group)


def _spent(trajectories: Sequence[Trajectory]) -> Counter[str]:
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    tokens = sum(len(turn.token_ids) for turn in turns)
    return Counter({"episodes": len(trajectories), "environment_turns": len(turns), "generated_tokens": tokens})
