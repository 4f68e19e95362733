"""SWEET-RL (arXiv:2503.15478): learn a turn-wise advantage from hidden information, then improve the agent turn by turn.

    1. Collect k trajectories per task with the start policy; pair the best of a task with every worse one.
    2. Critic: A(o_t, a_t, c) = mean_l log [pi_theta(a_t^l | o_t, c) / pi_ref(a_t^l | o_t, c)], trained by Bradley-Terry on the sum
       over turns (equations 2 and 3). Only the critic sees c.
    3. For turns of the collected dialogues sample 16 candidates from the start policy, rank them by A, and pair a random one of
       the better half with a random one of the worse.
    4. Actor: DPO on these pairs, with an NLL term (equation 4). No environment is needed here.

The first step is `collection`'s, shared with other algorithms. Each function here is a stage: it reads files of the run folder and
writes its own, whole or in complete batches. The critic may be another than SWEET-RL's own (`critics`): then everything else stays.
"""

from __future__ import annotations

import numpy as np
from datasets import Dataset
from tqdm import tqdm
from transformers import set_seed
from trl import DPOConfig, DPOTrainer

from sweetrl_agent.algorithms.critics import CRITICS, SWEET, open_critic, stage_name
from sweetrl_agent.chat import system_message
from sweetrl_agent.collection import load_trajectories
from sweetrl_agent.files import Row, append_rows, read_rows, whole_batches, write_rows
from sweetrl_agent.models import load_policy, load_tokenizer, start_models, system_prompt
from sweetrl_agent.pairs import turn_pairs
from sweetrl_agent.policies.policy import sample_each
from sweetrl_agent.run import Run
from sweetrl_agent.seeds import derive_seed
from sweetrl_agent.trainers.running import train_stage, trainer_arguments
from sweetrl_agent.trajectory import Trajectory

#: States whose candidates are sampled and saved together.
STATES_PER_BATCH = 16


def train_critic(run: Run, critic: str = SWEET) -> None:
    """outcome_pairs.jsonl (or trajectories.jsonl) -> the critic's folder."""
    train = CRITICS[critic].train
    if train is not None:
        train(run, critic)


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
            seeds = [
                [derive_seed(run.seed, "candidates", t.task_id, t.episode, turn, i) for i in range(config.num_candidates)]
                for t, turn in batch
            ]
            said = sample_each(policy, [t.prefix(turn) for t, turn in batch], seeds)
            append_rows(path, (
                {
                    "task_id": t.task_id,
                    "episode": t.episode,
                    "turn": turn,
                    "texts": [utterance.text for utterance in own],
                    "num_tokens": [len(utterance.token_ids) for utterance in own],
                }
                for (t, turn), own in zip(batch, said, strict=True)
            ))  # fmt: skip
            bar.update(len(batch))


def rank(run: Run, critic: str = SWEET) -> None:
    """candidates.jsonl, scored by a critic -> scores.jsonl and turn_pairs.jsonl."""
    config = run.config.actor
    by_episode = {(t.task_id, t.episode): t for t in load_trajectories(run)}
    scores, pairs = [], []
    with open_critic(run, critic) as judged_by:
        for row in tqdm(read_rows(run.path("candidates.jsonl")), desc="rank", unit="turn"):
            trajectory = by_episode[row["task_id"], row["episode"]]
            prompt = trajectory.prefix(row["turn"])
            told = CRITICS[critic].told(run, trajectory.task_row["ground_truth"])
            advantages = judged_by.rank(prompt, told, row["texts"])
            address = {"task_id": row["task_id"], "episode": row["episode"], "turn": row["turn"]}
            scores.append({**address, "advantages": advantages})
            rng = np.random.default_rng(derive_seed(run.seed, "pairs", *address.values()))
            for better, worse in turn_pairs(advantages, config.pairs_per_turn, rng, config.pair_quantile):
                if row["texts"][better] != row["texts"][worse]:  # equal texts have no preference and no gradient
                    pairs.append({**address, "prompt": prompt, "chosen": row["texts"][better], "rejected": row["texts"][worse]})
    write_rows(run.own(critic, "scores.jsonl"), scores)
    write_rows(run.own(critic, "turn_pairs.jsonl"), pairs)


def train_actor(run: Run, critic: str = SWEET) -> None:
    """turn_pairs.jsonl -> policy/."""
    config, folder = run.config.actor, run.own(critic, "policy")
    stage = stage_name("actor", critic)
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
        train_dataset=Dataset.from_list([_preference(row, run) for row in read_rows(run.own(critic, "turn_pairs.jsonl"))]),
        processing_class=tokenizer,
    )
    run.add_metrics(stage, train_stage(trainer, tokenizer, folder, stage))


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
