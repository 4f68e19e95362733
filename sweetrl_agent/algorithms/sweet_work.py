"""The work of SWEET-RL's stages with any critic, for the forecast."""

from __future__ import annotations

from sweetrl_agent.algorithms.critics import CRITICS
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.work import Lengths, Passes, Sampling, Work, reading, training
from sweetrl_agent.data.files import count_rows
from sweetrl_agent.trainers.pair_work import pair_work

#: Candidates that a head, and questions that a judge reads in one pass.
HEAD_BATCH, JUDGE_BATCH = 32, 16


def num_states(run: Run, lengths: Lengths) -> int:
    """Number of turns with candidates: as set, at most all turns of the collected episodes."""
    every = round(len(run.tasks) * run.config.collect.trajectories_per_task * lengths.turns)
    wanted = int(run.config.algorithms.num_states)
    return min(wanted, every) if wanted else every


def candidates(run: Run, lengths: Lengths) -> Work:
    """The work of sampling candidates: the prompt of a turn is read once for all of them."""
    states, each = num_states(run, lengths), run.config.algorithms.num_candidates
    rows = min(run.config.model.generation_batch, max(1, states * each))
    part = Sampling(states * each, lengths.agent, lengths.prefix / each, lengths.prefix, rows)
    return Work(f"{states * each:,} utterances at {states:,} turns", (part,))


def of_stages(run: Run, critic: str, lengths: Lengths) -> dict[str, Work]:
    """The work of the stages that depend on the critic: "critic", "rank" and "actor"."""
    return {"critic": _critic(run, critic, lengths), "rank": _rank(run, critic, lengths), "actor": _actor(run, critic, lengths)}


def _critic(run: Run, critic: str, lengths: Lengths) -> Work:
    config, kind = run.config.algorithms, CRITICS[critic]
    hidden = lengths.hidden if kind.uses_hidden and config.critic_hidden else 0.0
    sizes = config.critic_batch, config.critic_micro_batch, config.critic_epochs
    if critic == "value_head":
        count = len(run.tasks) * run.config.collect.trajectories_per_task
        part = training(count, *sizes, lengths.dialogue + hidden, lengths.spoken)
        return Work(f"{count:,} episodes, {config.critic_epochs:g} epochs", (part,))
    if kind.scoring in ("ratios", "head"):
        return pair_work(run, lengths, *sizes, has_reference=kind.scoring == "ratios", hidden=hidden)
    return Work(not_timed=_not_timed(critic))


def _rank(run: Run, critic: str, lengths: Lengths) -> Work:
    kind, states, each = CRITICS[critic], num_states(run, lengths), run.config.algorithms.num_candidates
    prompt, said = lengths.prefix + (lengths.hidden if kind.uses_hidden else 0.0), each * lengths.agent
    text = f"{states * each:,} utterances"
    if kind.scoring == "ratios":  # by the critic and by the reference; the candidates are read behind one prompt
        return Work(text, (Passes("read", 2 * states, 1, prompt + said, said),))
    if kind.scoring == "head":
        return Work(text, (reading(states * each, min(each, HEAD_BATCH), prompt + lengths.agent, 1),))
    if kind.scoring == "judge":  # every candidate with both neighbours, in both orders
        return Work(text, (reading(2 * states * each, JUDGE_BATCH, prompt + 2 * lengths.agent, 1),))
    return Work(text, not_timed="" if kind.scoring == "oracle" else _not_timed(critic))


def _not_timed(critic: str) -> str:
    """Why the work of a critic is not known."""
    if critic == "vision_head":
        return f"the critic {critic!r} renders pages and reads them by `vision_model`"
    return f"the critic {critic!r} is a class of your own"


def _actor(run: Run, critic: str, lengths: Lengths) -> Work:
    config = run.config.algorithms
    known = count_rows(run.artifact(critic, "turn_pairs.jsonl"))
    count = known or num_states(run, lengths) * config.pairs_per_turn
    sizes = lengths.prefix + lengths.agent, lengths.agent
    parts = (
        reading(count, config.actor_micro_batch, *sizes, sides=2),
        training(count, config.actor_batch, config.actor_micro_batch, config.actor_epochs, *sizes, sides=2),
    )
    return Work(f"{'' if known else 'at most '}{count:,} pairs, {config.actor_epochs:g} epochs", parts)
