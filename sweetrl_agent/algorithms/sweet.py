"""SWEET-RL (arXiv:2503.15478): learn a turn-wise advantage from hidden information, then improve the agent turn by turn.

    1. Collect k trajectories per task with the start policy; pair the best of a task with every worse one.
    2. Critic: A(o_t, a_t, c) = mean_l log [pi_theta(a_t^l | o_t, c) / pi_ref(a_t^l | o_t, c)], trained by Bradley-Terry on the sum
       over turns (equations 2 and 3). Only the critic sees c.
    3. For turns of the collected dialogues sample 16 candidates from the start policy, rank them by A, and pair a random one of
       the better half with a random one of the worse.
    4. Actor: DPO on these pairs, with an NLL term (equation 4). No environment is needed here.

Each function is a stage: it reads files of the run folder and writes its own, whole or in complete batches.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from typing import Any

import numpy as np
from datasets import Dataset
from tqdm import tqdm
from transformers import set_seed
from trl import DPOConfig, DPOTrainer

from colbench_gym.errors import TaskError
from sweetrl_agent.chat import system_message
from sweetrl_agent.critics.advantage import AdvantageCritic
from sweetrl_agent.files import Row, append_rows, read_rows, whole_batches, write_json, write_rows
from sweetrl_agent.models import load_model, load_policy, load_tokenizer, start_models, system_prompt
from sweetrl_agent.pairs import outcome_pairs, turn_pairs
from sweetrl_agent.rollouts import episodes_of, play
from sweetrl_agent.run import Run
from sweetrl_agent.seeds import derive_seed
from sweetrl_agent.trainers.critic import pair_trainer
from sweetrl_agent.trainers.running import train_stage, trainer_arguments
from sweetrl_agent.trajectory import Trajectory

#: States whose candidates are sampled and saved together.
STATES_PER_BATCH = 16


def collect(run: Run) -> None:
    """K trajectories of every training task -> trajectories.jsonl."""
    path = run.path("trajectories.jsonl")
    episodes = episodes_of([task.id for task in run.tasks], run.config.collect.trajectories_per_task)
    batch = run.config.model.generation_batch
    done = whole_batches(path, len(read_rows(path)), batch, len(episodes))
    if done == len(episodes):
        return
    policy = load_policy(run.start_model, run.start_model, run.config.model)
    with (
        closing(run.environment(run.tasks, batch)) as env,
        tqdm(total=len(episodes), initial=done, desc="collect", unit="episode") as bar,
    ):
        for trajectories in play(policy, env, episodes[done:], run.seed, "collect", keep_tasks=True):
            append_rows(path, (trajectory.to_row() for trajectory in trajectories))
            bar.update(len(trajectories))


def pair_outcomes(run: Run) -> None:
    """trajectories.jsonl -> outcome_pairs.jsonl."""
    trajectories = load_trajectories(run)
    rows = outcome_pairs(trajectories, run.config.collect.min_best)
    if not rows:
        best = max((float(t.metrics["tests_passed"]) for t in trajectories if not t.is_void), default=0.0)
        raise TaskError(
            f"No task has a trajectory that passes {run.config.collect.min_best:.0%} of its tests and a worse one (the best passes "
            f"{best:.0%}), so there is nothing to learn from. Lower `--min_best` and go on in this folder, or start another run "
            "with more tasks, more imitation, or a better model."
        )
    write_rows(run.path("outcome_pairs.jsonl"), ({**row, "hidden": told_to_critic(run, row["hidden"])} for row in rows))
    write_json(run.path("pairs_summary.json"), _summary(trajectories, rows))


def train_critic(run: Run) -> None:
    """outcome_pairs.jsonl -> critic/."""
    config, folder = run.config.critic, run.path("critic")
    set_seed(run.seed)
    arguments = trainer_arguments(
        folder, run.seed, run.config.model, config.critic_batch, config.critic_micro_batch,
        config.critic_learning_rate, config.critic_epochs,
    )  # fmt: skip
    rows = [
        {name: row[name] for name in ("hidden", "chosen", "rejected")} for row in read_rows(run.path("outcome_pairs.jsonl"))
    ]
    trainer = pair_trainer(
        run.start_model, run.config.model, rows, arguments,
        form=config.form, beta=config.critic_beta, nll_coef=config.critic_nll, max_length=config.critic_max_length,
    )  # fmt: skip
    run.add_metrics("critic", train_stage(trainer, trainer.processing_class, folder, "critic"))


def sample_candidates(run: Run) -> None:
    """Candidates for the turns of some trajectories -> candidates.jsonl."""
    config, path = run.config.actor, run.path("candidates.jsonl")
    states = _states(load_trajectories(run), config.num_states, run.seed)
    done = whole_batches(path, len(read_rows(path)), STATES_PER_BATCH, len(states))
    if done == len(states):
        return
    policy = load_policy(run.start_model, run.start_model, run.config.model)
    with tqdm(total=len(states), initial=done, desc="candidates", unit="turn") as bar:
        for start in range(done, len(states), STATES_PER_BATCH):
            batch = states[start : start + STATES_PER_BATCH]
            dialogues = [t.prefix(turn) for t, turn in batch for _ in range(config.num_candidates)]
            seeds = [
                derive_seed(run.seed, "candidates", t.task_id, t.episode, turn, i)
                for t, turn in batch
                for i in range(config.num_candidates)
            ]
            texts = [utterance.text for utterance in policy.generate(dialogues, seeds)]
            append_rows(path, (
                {
                    "task_id": t.task_id,
                    "episode": t.episode,
                    "turn": turn,
                    "texts": texts[i * config.num_candidates : (i + 1) * config.num_candidates],
                }
                for i, (t, turn) in enumerate(batch)
            ))  # fmt: skip
            bar.update(len(batch))


def rank(run: Run) -> None:
    """candidates.jsonl, scored by the critic -> scores.jsonl and turn_pairs.jsonl."""
    by_episode = {(t.task_id, t.episode): t for t in load_trajectories(run)}
    critic = load_critic(run)
    scores, pairs = [], []
    for row in tqdm(read_rows(run.path("candidates.jsonl")), desc="rank", unit="turn"):
        trajectory = by_episode[row["task_id"], row["episode"]]
        prompt = trajectory.prefix(row["turn"])
        advantages = critic.rank(prompt, told_to_critic(run, trajectory.task_row["ground_truth"]), row["texts"])
        address = {"task_id": row["task_id"], "episode": row["episode"], "turn": row["turn"]}
        scores.append({**address, "advantages": advantages})
        rng = np.random.default_rng(derive_seed(run.seed, "pairs", *address.values()))
        for better, worse in turn_pairs(advantages, run.config.actor.pairs_per_turn, rng):
            if row["texts"][better] != row["texts"][worse]:  # equal texts have no preference and no gradient
                pairs.append({**address, "prompt": prompt, "chosen": row["texts"][better], "rejected": row["texts"][worse]})
    write_rows(run.path("scores.jsonl"), scores)
    write_rows(run.path("turn_pairs.jsonl"), pairs)


def train_actor(run: Run) -> None:
    """turn_pairs.jsonl -> policy/."""
    config, folder = run.config.actor, run.path("policy")
    set_seed(run.seed)
    tokenizer = load_tokenizer(run.start_model, run.config.model)
    arguments = trainer_arguments(
        folder, run.seed, run.config.model, config.actor_batch, config.actor_micro_batch,
        config.actor_learning_rate, config.actor_epochs,
    )  # fmt: skip
    trainer = DPOTrainer(
        **start_models(run.start_model, run.config.model),
        args=DPOConfig(
            **arguments,
            beta=config.actor_beta,
            loss_type=[config.actor_loss, "sft"],
            loss_weights=[1.0, config.actor_nll],
            max_length=config.actor_max_length,
        ),
        train_dataset=Dataset.from_list([_preference(row, run) for row in read_rows(run.path("turn_pairs.jsonl"))]),
        processing_class=tokenizer,
    )
    run.add_metrics("actor", train_stage(trainer, tokenizer, folder, "actor"))


def load_trajectories(run: Run) -> list[Trajectory]:
    """The collected trajectories."""
    return [Trajectory.from_row(row) for row in read_rows(run.path("trajectories.jsonl"))]


def load_critic(run: Run) -> AdvantageCritic:
    """The trained critic of a run."""
    model = run.config.model
    reference = None if model.lora else load_model(run.start_model, run.start_model, model)
    critic = load_model(str(run.path("critic")), run.start_model, model)
    tokenizer = load_tokenizer(run.start_model, model)
    return AdvantageCritic(critic, reference, tokenizer, run.config.critic.form, system_prompt(model))


def told_to_critic(run: Run, reference: str) -> str:
    """What the critic is told before a dialogue: the task's reference solution, or nothing for a critic without."""
    return reference if run.config.critic.critic_hidden else ""


def _states(trajectories: list[Trajectory], count: int, seed: int) -> list[tuple[Trajectory, int]]:
    """A random sample of (trajectory, turn) over all collected turns, void episodes left out; count 0 takes all."""
    states = [(t, turn) for t in trajectories if not t.is_void for turn in range(1, len(t.turns) + 1)]
    order = np.random.default_rng(derive_seed(seed, "states")).permutation(len(states))
    return [states[i] for i in order[: count or None]]


def _preference(row: Row, run: Run) -> Row:
    return {
        "prompt": [*system_message(system_prompt(run.config.model)), *row["prompt"]],
        "chosen": [{"role": "assistant", "content": row["chosen"]}],
        "rejected": [{"role": "assistant", "content": row["rejected"]}],
    }


def _summary(trajectories: list[Trajectory], rows: list[Row]) -> dict[str, Any]:
    valid = [t for t in trajectories if not t.is_void]
    successes: dict[str, int] = defaultdict(int)
    for trajectory in valid:
        successes[trajectory.task_id] += int(trajectory.metrics["success"])
    return {
        "trajectories": len(trajectories),
        "void": len(trajectories) - len(valid),
        "success": round(sum(successes.values()) / max(len(valid), 1), 4),
        "turns": round(sum(len(t.turns) for t in valid) / max(len(valid), 1), 2),
        "tasks_with_a_success": sum(count > 0 for count in successes.values()),
        "outcome_pairs": len(rows),
    }
