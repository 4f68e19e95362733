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

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
from datasets import Dataset
from tqdm import tqdm
from transformers import set_seed
from trl import DPOConfig, DPOTrainer

from sweetrl_agent.algorithms.critics import CRITICS, SWEET, open_critic, stage_name
from sweetrl_agent.chat import system_message
from sweetrl_agent.collection import iter_trajectories
from sweetrl_agent.files import Row, append_rows, count_rows, read_rows, whole_batches, write_rows
from sweetrl_agent.models import load_policy, load_tokenizer, start_models, system_prompt
from sweetrl_agent.pairs import turn_pairs
from sweetrl_agent.policies.policy import sample_each
from sweetrl_agent.run import Run
from sweetrl_agent.seeds import derive_seed
from sweetrl_agent.trainers.running import train_stage, trainer_arguments
from sweetrl_agent.trajectory import Trajectory
from sweetrl_agent.workers import in_order

State = tuple[Trajectory, int]
#: States whose candidates are sampled and saved together.
STATES_PER_BATCH = 32


def train_critic(run: Run, critic: str = SWEET) -> None:
    """outcome_pairs.jsonl (or trajectories.jsonl) -> the critic's folder."""
    train = CRITICS[critic].train
    if train is not None:
        train(run, critic)


def sample_candidates(run: Run) -> None:
    """Candidates for the turns of some trajectories -> candidates.jsonl."""
    config, path = run.config.actor, run.path("candidates.jsonl")
    states = _states(run, config.num_states)
    done = whole_batches(path, count_rows(path), STATES_PER_BATCH, len(states))
    if done == len(states):
        return
    batches = [states[start : start + STATES_PER_BATCH] for start in range(done, len(states), STATES_PER_BATCH)]
    with tqdm(total=len(states), initial=done, desc="candidates", unit="turn") as bar:
        for rows in in_order(partial(_sampler, run), batches, run.config.run):
            append_rows(path, rows)
            bar.update(len(rows))


@contextmanager
def _sampler(run: Run) -> Iterator[Callable[[list[State]], list[Row]]]:
    """What samples candidates for some turns."""
    policy = load_policy(run.start_model, run.start_model, run.config.model)

    def sample(states: list[State]) -> list[Row]:
        count = run.config.actor.num_candidates
        seeds = [
            [derive_seed(run.seed, "candidates", t.task_id, t.episode, turn, i) for i in range(count)] for t, turn in states
        ]
        said = sample_each(policy, [t.prefix(turn) for t, turn in states], seeds)
        return [
            {
                "task_id": t.task_id,
                "episode": t.episode,
                "turn": turn,
                "texts": [utterance.text for utterance in own],
                "num_tokens": [len(utterance.token_ids) for utterance in own],
            }
            for (t, turn), own in zip(states, said, strict=True)
        ]

    yield sample


def rank(run: Run, critic: str = SWEET) -> None:
    """candidates.jsonl, scored by a critic -> scores.jsonl and turn_pairs.jsonl."""
    config = run.config.actor
    scores, pairs = [], []
    rows = read_rows(run.path("candidates.jsonl"))
    wanted = {(row["task_id"], row["episode"]) for row in rows}
    by_episode = {key: t for t in iter_trajectories(run) if (key := (t.task_id, t.episode)) in wanted}
    batches = [
        [(row, by_episode[row["task_id"], row["episode"]]) for row in rows[start : start + STATES_PER_BATCH]]
        for start in range(0, len(rows), STATES_PER_BATCH)
    ]
    with tqdm(total=len(rows), desc="rank", unit="turn") as bar:
        for batch, credits in zip(batches, in_order(partial(_ranker, run, critic), batches, run.config.run), strict=True):
            for (row, trajectory), advantages in zip(batch, credits, strict=True):
                address = {"task_id": row["task_id"], "episode": row["episode"], "turn": row["turn"]}
                scores.append({**address, "advantages": advantages})
                prompt, texts = trajectory.prefix(row["turn"]), row["texts"]
                rng = np.random.default_rng(derive_seed(run.seed, "pairs", *address.values()))
                for better, worse in turn_pairs(advantages, config.pairs_per_turn, rng, config.pair_quantile):
                    if texts[better] != texts[worse]:  # equal texts have no preference and no gradient
                        pairs.append({**address, "prompt": prompt, "chosen": texts[better], "rejected": texts[worse]})
            bar.update(len(batch))
    write_rows(run.own(critic, "scores.jsonl"), scores)
    write_rows(run.own(critic, "turn_pairs.jsonl"), pairs)


@contextmanager
def _ranker(run: Run, critic: str) -> Iterator[Callable[[list[tuple[Row, Trajectory]]], list[list[float]]]]:
    """What credits the candidates of some turns."""
    with open_critic(run, critic) as judged_by:

        def credit(batch: list[tuple[Row, Trajectory]]) -> list[list[float]]:
            return [
                judged_by.rank(t.prefix(row["turn"]), CRITICS[critic].told(run, t.task_row["ground_truth"]), row["texts"])
                for row, t in batch
            ]

        yield credit


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


def _states(run: Run, count: int) -> list[State]:
    """A random sample of (trajectory, turn) over all collected turns, void episodes left out; count 0 takes all."""
    turns = [(i, turn) for i, t in enumerate(iter_trajectories(run)) if not t.is_void for turn in range(1, len(t.turns) + 1)]
    order = np.random.default_rng(derive_seed(run.seed, "states")).permutation(len(turns))
    chosen = [turns[k] for k in order[: count or None]]
    wanted = {i for i, _ in chosen}
    held = {i: t for i, t in enumerate(iter_trajectories(run)) if i in wanted}
    return [(held[i], turn) for i, turn in chosen]


def _preference(row: Row, run: Run) -> Row:
    return {
        "prompt": [*system_message(system_prompt(run.config.model)), *row["prompt"]],
        "chosen": [{"role": "assistant", "content": row["chosen"]}],
        "rejected": [{"role": "assistant", "content": row["rejected"]}],
    }
