"""Behaviour data with rewards, for offline algorithms: episodes of a file or of the environment's record, and their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasets import Dataset

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.episode import Episode, Messages
from sweetrl_agent.core.messages import turns_as_read
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.chat import EncodedDialogue, encode_dialogues
from sweetrl_agent.data.files import Row
from sweetrl_agent.trainers.demonstration_file import demonstration_rows
from sweetrl_agent.trainers.sft import ENCODED


def offline_episodes(run: Run) -> list[Episode]:
    """The behaviour data of a run: the same dialogues that SFT makes the initial policy of, with a reward for every turn.

    They are the first `sft_dialogues` rows of the file `demonstrations`, or without a file the record's `behaviour_episodes`. Void episodes and
    episodes without a turn are left out.

    Raises:
        ColBenchError: If a row is not an episode, is one of another environment, or none is left.
    """
    count, file = run.config.sft.sft_dialogues, run.config.task.demonstrations
    if not file or run.config.demonstrates_source:
        where = f"The behaviour data of {run.config.task.env}"
        tasks = run.record.load_tasks(file, run.config.task) if file else run.train
        episodes = run.record.behaviour_episodes(tasks, count, run.seed)
        for number, episode in enumerate(episodes, 1):
            _check_turns(episode, where, number)
    else:
        where = repr(file)
        episodes = [_episode(row, where, number) for number, row in demonstration_rows(run)]
    played = [episode for episode in episodes if episode.turns and not episode.is_void]
    if not played:
        raise ColBenchError(f"{where} has no episode with a turn among its first {count} (`sft_dialogues`); give more.")
    return played


def _episode(row: Row, where: str, number: int) -> Episode:
    if "turns" not in row:
        raise ColBenchError(
            f"{where}, row {number}: expected an episode with a reward for every turn, as rows of trajectories.jsonl have, got {str(row)[:80]}; "
            "bare messages are enough for `bc` only."
        )
    try:
        episode = Episode.from_row({"hidden_information": "", **row})
    except ColBenchError as error:
        raise ColBenchError(f"{where}, row {number}: {error}") from None
    _check_turns(episode, where, number)
    return episode


def _check_turns(episode: Episode, where: str, number: int) -> None:
    said = sum(message["role"] == "assistant" for message in episode.messages)
    if said != len(episode.turns):
        raise ColBenchError(
            f"{where}, row {number}: expected a turn for each message of the assistant, got {len(episode.turns)} and {said}; "
            "write each turn with its reward."
        )


def action_tokens(episodes: Sequence[Episode], tokenizer: Any, instructions: Messages = (), history: int = -1) -> Dataset:
    """Tokens of episodes, one row per episode: `input_ids`, `is_action` (1 for tokens of the agent) and `rewards`, and `is_cut` of the episode.

    Each of the first three is a list of sequences: one of length L for the whole dialogue or, for an agent that reads only some earlier turns, one
    for each of its turns, in order.

    The messages are tokenized here. The actions of a turn end with its end token: what the template adds behind it is not sampled. The reward of a
    turn stands at its last action.

    Args:
        episodes: Episodes with at least one turn.
        tokenizer: The run's tokenizer.
        instructions: System message of the agent, if it has one.
        history: Earlier turns that the agent reads, as in `core.messages.as_read`.
    """
    rows: list[Row] = []
    for start in range(0, len(episodes), ENCODED):
        part = episodes[start : start + ENCODED]
        read = [turns_as_read([*instructions, *episode.messages], history) for episode in part]
        encoded = iter(encode_dialogues([dialogue for dialogues in read for dialogue in dialogues], tokenizer))
        rows += [
            _row([next(encoded) for _ in dialogues], episode, tokenizer.eos_token_id)
            for dialogues, episode in zip(read, part, strict=True)
        ]
    return Dataset.from_list(rows)


def _row(dialogues: Sequence[EncodedDialogue], episode: Episode, end_id: int) -> Row:
    """The row of an episode, as `action_tokens`."""
    rewards = [turn.reward for turn in episode.turns]
    each = [rewards] if len(dialogues) == 1 else [[reward] for reward in rewards]
    marked = [_marked(dialogue, own, end_id) for dialogue, own in zip(dialogues, each, strict=True)]
    return {
        "input_ids": [dialogue.token_ids for dialogue in dialogues],
        "is_action": [is_action for is_action, _ in marked],
        "rewards": [earned for _, earned in marked],
        "is_cut": not episode.metrics.get("answered", True),
    }


def _marked(dialogue: EncodedDialogue, rewards: Sequence[float], end_id: int) -> tuple[list[int], list[float]]:
    """Whether each token is an action, and its reward. The rewards are those of the dialogue's last turns; earlier ones are context."""
    ids = dialogue.token_ids
    is_action, earned = [0] * len(ids), [0.0] * len(ids)
    start = 0
    for turn, reward in enumerate(rewards, max(dialogue.turn_ids) - len(rewards) + 1):
        start = dialogue.turn_ids.index(turn, start)
        stop = start + dialogue.turn_ids.count(turn)
        last = max((i for i in range(start, stop) if ids[i] == end_id), default=stop - 1)
        is_action[start : last + 1] = [1] * (last + 1 - start)
        earned[last] = float(reward)
        start = stop
    return is_action, earned
