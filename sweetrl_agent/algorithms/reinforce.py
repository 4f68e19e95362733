"""REINFORCE with a leave-one-out baseline over turns (RLOO; Ahmadian et al., arXiv:2402.14740), on-policy.

    1. In every iteration the current agent plays G episodes of each of P training tasks.
    2. Every turn's advantage is the episode's return less the mean return of the other G - 1 episodes of the task.
    3. One step along the policy gradient; the human's words are read and never scored.

It needs nothing of the environment beyond episodes, and spends as many of them as the other algorithms collect.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import torch
from tqdm import tqdm

from sweetrl_agent.chat import encode_dialogue, system_message
from sweetrl_agent.models import adapted, load_model, load_tokenizer, policy_on, system_prompt
from sweetrl_agent.rollouts import Episode, episodes_of, play
from sweetrl_agent.run import Run
from sweetrl_agent.trainers.policy_gradient import batches, policy_gradient_loss
from sweetrl_agent.trainers.running import TRAINED_TOKENS, Checkpoint, save_model
from sweetrl_agent.trajectory import Trajectory

POLICY = "reinforce/policy"
SPENT = ("episodes", "environment_turns", "generated_tokens", TRAINED_TOKENS)


def leave_one_out(returns: list[float]) -> list[float]:
    """Each return less the mean of the others."""
    total, others = sum(returns), max(len(returns) - 1, 1)
    return [value - (total - value) / others for value in returns]


def train(run: Run) -> None:
    """Episodes on the training tasks -> reinforce/policy/."""
    config, model_arguments = run.config.baselines, run.config.model
    tokenizer = load_tokenizer(run.start_model, model_arguments)
    model = adapted(load_model(run.start_model, run.start_model, model_arguments), model_arguments)
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad],
        lr=config.reinforce_learning_rate,
        betas=(0.9, 0.95),
        weight_decay=0.0,
    )
    policy = policy_on(model, tokenizer, model_arguments)
    instructions = system_message(system_prompt(model_arguments))
    checkpoint = Checkpoint(run.path("reinforce/checkpoint.pt"), model, optimizer)
    done, metrics = checkpoint.load()
    spent = Counter({name: metrics[-1][name] for name in SPENT} if metrics else {})
    env = run.environment(run.tasks, config.reinforce_tasks * config.reinforce_group)
    with closing(env), tqdm(total=config.reinforce_iterations, initial=done, desc="reinforce", unit="step") as bar:
        for iteration in range(done, config.reinforce_iterations):
            episodes = _episodes(run, iteration)
            trajectories = [t for batch in play(policy, env, episodes, run.seed, f"reinforce {iteration}") for t in batch]
            rows = _credited(trajectories)
            model.train()
            for part in batches(rows, config.reinforce_micro_batch):
                dialogues = [[*instructions, *t.messages] for t, _ in part]
                loss = policy_gradient_loss(model, tokenizer, dialogues, [[advantage] * len(t.turns) for t, advantage in part])
                (loss * len(part) / len(rows)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            success = sum(t.reward for t in trajectories) / len(trajectories)
            spent += _spent(trajectories)
            spent[TRAINED_TOKENS] += sum(
                len(encode_dialogue([*instructions, *t.messages], tokenizer).token_ids) for t, _ in rows
            )
            metrics.append({"stage": "reinforce", "step": iteration + 1, "success": success, **spent})
            checkpoint.save(iteration + 1, metrics)
            bar.update()
    run.add_metrics("reinforce", metrics)
    save_model(model, tokenizer, run.path(POLICY))
    checkpoint.remove()


def _episodes(run: Run, iteration: int) -> list[Episode]:
    """The next tasks in their order, from the first again when all had their turn."""
    count = run.config.baselines.reinforce_tasks
    tasks = [run.tasks[i % len(run.tasks)].id for i in range(iteration * count, (iteration + 1) * count)]
    return episodes_of(tasks, run.config.baselines.reinforce_group)


def _spent(trajectories: list[Trajectory]) -> Counter[str]:
    """What episodes cost, for the ledger."""
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    tokens = sum(len(turn.token_ids) for turn in turns)
    return Counter({"episodes": len(trajectories), "environment_turns": len(turns), "generated_tokens": tokens})


def _credited(trajectories: list[Trajectory]) -> list[tuple[Trajectory, float]]:
    """Trajectories with their advantage; those of tasks where all went alike have none and are left out."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if not trajectory.is_void:
            groups.setdefault(trajectory.task_id, []).append(trajectory)
    rows = [pair for group in groups.values() for pair in zip(group, leave_one_out([t.reward for t in group]), strict=True)]
    return [(trajectory, advantage) for trajectory, advantage in rows if advantage]
