"""Behaviour data with rewards, for offline algorithms: episodes of a file or of the environment's record, and their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from datasets import Dataset

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row
from sweetrl_agent.core.episode import Episode, Messages
from sweetrl_agent.core.run import Run, demonstrated_tasks
from sweetrl_agent.data.chat import Chat, EncodedDialogue
from sweetrl_agent.trainers.demonstration_file import demonstration_rows
from sweetrl_agent.trainers.sft import ENCODED


def offline_episodes(run: Run) -> list[Episode]:
    """The behaviour data of a run: the same dialogues that SFT makes the initial policy of, with a reward for every turn.

    They are the first `sft_dialogues` rows of the file `demonstrations`, or without a file the record's `behaviour_episodes`. Void episodes and
    episodes without a turn are left out.

    Raises:
        ColBenchError: If a row is not an episode, is one of another environment, or none is left.
    """
    count = run.config.sft.sft_dialogues
    if file := run.config.demonstration_file:
        where = repr(file)
        episodes = [_episode(row, where, number) for number, row in demonstration_rows(run)]
    else:
        where = f"The behaviour data of {run.config.task.env}"
        episodes = run.record.behaviour_episodes(demonstrated_tasks(run), count, run.seed)
        for number, episode in enumerate(episodes, 1):
            _check_turns(episode, where, number)
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
    num_messages = sum(message["role"] == "assistant" for message in episode.messages)
    if num_messages != len(episode.turns):
        raise ColBenchError(
            f"{where}, row {number}: expected a turn for each message of the assistant, got {len(episode.turns)} and {num_messages}; "
            "write each turn with its reward."
        )


def action_tokens(episodes: Sequence[Episode], chat: Chat, instructions: Messages = (), history: int = -1) -> Dataset:
    """Tokens of episodes, one row per episode: `input_ids`, `is_action` (1 for tokens of the agent) and `rewards`, and `is_cut` of the episode.

    Each of the first three is a list of sequences, those of `Chat.sequences`: mostly one of length L for the whole dialogue; for an agent that reads only some
    earlier turns, one for each of its turns, in order.

    The messages are tokenized here. The reward of a turn stands at its last action.

    Args:
        episodes: Episodes with at least one turn.
        chat: The run's tokenizer and template.
        instructions: System message of the agent, if it has one.
        history: Earlier turns that the agent reads, as in `core.messages.as_read`.
    """
    rows: list[Row] = []
    for start in range(0, len(episodes), ENCODED):
        part = episodes[start : start + ENCODED]
        encoded = chat.all_sequences([[*instructions, *episode.messages_to_imitate] for episode in part], history=history)
        rows += [_row(parts, episode) for parts, episode in zip(encoded, part, strict=True)]
    return Dataset.from_list(rows)


def _row(parts: Sequence[EncodedDialogue], episode: Episode) -> Row:
    """The row of an episode, as `action_tokens`."""
    rewards = iter([turn.reward for turn in episode.turns])
    return {
        "input_ids": [part.token_ids for part in parts],
        "is_action": [[int(turn > 0) for turn in part.turn_ids] for part in parts],
        "rewards": [_earned(part, rewards) for part in parts],
        "is_cut": not episode.metrics.get("answered", True),
    }


def _earned(part: EncodedDialogue, rewards: Iterator[float]) -> list[float]:
    """The reward of each token."""
    following = [*part.turn_ids[1:], 0]
    return [
        float(next(rewards)) if turn and turn != after else 0.0 for turn, after in zip(part.turn_ids, following, strict=True)
    ]
