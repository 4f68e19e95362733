"""The work of SWEET-RL's stages with any critic, for the forecast."""

from __future__ import annotations

from colbench_gym.files import count_rows
from sweetrl_agent.algorithms.critics import kind_of
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.work import Lengths, Work, reading, training
from sweetrl_agent.data.pairs import BY_CRITIC, BY_VERIFIER
from sweetrl_agent.trainers.stage_work import num_collected, pair_work

#: Candidates that a head, and questions that a judge reads in one pass.
HEAD_BATCH, JUDGE_BATCH = 32, 16


def plan_of_replies(run: Run, critic: str) -> list[str]:
    """A line of the plan where candidates need replies, so that recorded dialogues are taken again, of a simulated human that may reply otherwise.

    Raises:
        ValueError: If a noise level is to be measured on replies of other tasks, and there is one task.
    """
    config, kind, task = run.config.algorithms[critic].config, kind_of(run, critic), run.config.task
    if kind.scoring == "gain" and config.gain_noise and len(run.tasks) < 2:
        raise ValueError(
            "`gain_noise` is measured on replies of other tasks, and there is one: give `gain_threshold` in its place."
        )
    repeats = not task.human_model or "cache" in task.simulator_spec()
    if repeats or not (kind.has_replies or config.answers == BY_VERIFIER):
        return []
    return [
        "replies    dialogues are taken again for the replies to candidates: give the simulated human a `cache`, or it must repeat itself"
    ]


def works_of_critic(run: Run, critic: str, lengths: Lengths) -> dict[str, Work]:
    """The work of the stages with a critic: "critic", "candidates", "rank" and "actor"."""
    config, prefix = run.config.algorithms[critic].config, lengths.prefix
    every = round(num_collected(run) * lengths.turns)
    states = min(config.num_states, every) if config.num_states else every
    utterances = states * config.num_candidates
    candidates = Work(  # the prompt of a turn is read once for all of them
        f"{utterances:,} utterances at {states:,} turns", utterances=utterances, sampled=utterances * lengths.agent,
        prompts=states * prefix, at_once=min(run.config.model.generation_batch, max(1, utterances)),
    )  # fmt: skip
    known = count_rows(run.artifact(critic, "turn_pairs.jsonl"))
    most = config.pairs_per_turn * max(1 if config.answers == BY_CRITIC else 2, 1 + config.last_must_answer)
    pairs = known or states * most
    sizes = config.actor_batch, config.actor_micro_batch, config.actor_epochs
    tokens, scored = prefix + lengths.agent, lengths.agent
    if config.actor_by_turn:  # a pass reads the prompt of a turn once, and each of its candidates
        sides = 2 * max(1.0, min(pairs / max(1, states), config.actor_micro_batch))
        scored = min(sides, config.num_candidates) * lengths.agent / sides
        tokens = prefix / sides + scored
    actor = training(pairs, tokens, scored, *sizes, sides=2, reads=1)
    text = f"{'' if known else 'at most '}{pairs:,} pairs, {config.actor_epochs:g} epochs"
    return {
        "critic": _critic(run, critic, lengths),
        "candidates": candidates,
        "rank": _rank(run, critic, states, lengths),
        "actor": Work(text) + actor,
    }


def _critic(run: Run, critic: str, lengths: Lengths) -> Work:
    config, kind = run.config.algorithms[critic].config, kind_of(run, critic)
    hidden = lengths.hidden if kind.uses_hidden and config.critic_hidden else 0.0
    sizes = config.critic_batch, config.critic_micro_batch, config.critic_epochs
    if critic == "value_head":
        count = num_collected(run)
        work = training(count, lengths.dialogue + hidden, lengths.spoken, *sizes)
        return Work(f"{count:,} episodes, {config.critic_epochs:g} epochs") + work
    if kind.scoring in ("ratios", "head"):
        return pair_work(run, lengths, *sizes, reads=int(kind.scoring == "ratios"), hidden=hidden)
    return Work(not_timed=_not_timed(critic))


def _rank(run: Run, critic: str, states: int, lengths: Lengths) -> Work:
    kind, each = kind_of(run, critic), run.config.algorithms[critic].config.num_candidates
    prompt, said = lengths.prefix + (lengths.hidden if kind.uses_hidden else 0.0), each * lengths.agent
    text = f"{states * each:,} utterances"
    if kind.scoring == "ratios":  # by the critic and by the reference; the candidates are read behind one prompt
        return Work(text) + reading(2 * states, 1, prompt + said, said)
    if kind.scoring == "head":
        return Work(text) + reading(states * each, min(each, HEAD_BATCH), prompt + lengths.agent, 1)
    if kind.scoring == "judge":  # every candidate with both neighbours, in both orders
        return Work(text) + reading(2 * states * each, JUDGE_BATCH, prompt + 2 * lengths.agent, 1)
    if kind.scoring == "gain":  # the reference, behind every candidate with its reply and behind none
        scored = (each + 1) * lengths.hidden
        return Work(text) + reading(states, 1, lengths.prefix + scored + said + each * lengths.reply, scored)
    return Work(text, not_timed="" if kind.scoring == "oracle" else _not_timed(critic))


def _not_timed(critic: str) -> str:
    """Why the work of a critic is not known."""
    if critic == "vision_head":
        return f"the critic {critic!r} renders pages and reads them by `vision_model`"
    return f"the critic {critic!r} is a class of your own"
