"""Replayed transitions as a critic of whole utterances reads them (`critics.utterance_values`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import Episode, Messages, Turn
from sweetrl_agent.core.messages import as_read, system_message
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.core.replay import Transition
from sweetrl_agent.data.chat import Chat


class UtteranceReader:
    """What a critic of utterances reads: the tokens of states and actions, as the agent has them.

    Args:
        chat: The agent's tokenizer and template.
        instructions: Its system prompt.
        history: Earlier turns that it reads, as in `core.messages.as_read`.
        max_tokens: Longest sequence; the end of a longer one is kept.
    """

    def __init__(self, chat: Chat, instructions: str, history: int, max_tokens: int) -> None:
        self.chat, self.instructions, self.history, self.max_tokens = chat, system_message(instructions), history, max_tokens

    def state(self, observation: Messages) -> list[int]:
        """Tokens of a state: the prompt of the turn."""
        return self.chat.prompt([*self.instructions, *as_read(observation, self.history)])[-self.max_tokens :]

    def action(self, said: Utterance | Turn) -> list[int]:
        """Tokens of an action as sampled, its end token included."""
        return said.token_ids[-self.max_tokens :]

    def transitions(self, drawn: Sequence[Transition]) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
        """Tokens of states, actions and next states; of the state itself after a last turn, where its value has no weight."""
        states = [self.state(t.observation) for t in drawn]
        following = [self.state(t.following) if t.following else state for t, state in zip(drawn, states, strict=True)]
        return states, [self.action(t.action) for t in drawn], following

    def read_episode(self, transition: Transition, said: Utterance) -> Episode:
        """A transition's episode with another action as its last turn, without the messages before that the agent does not read."""
        turn = Turn(
            said.text, said.token_ids, said.log_probs, thought=said.thought, finish_reason=said.finish_reason, agent=AGENT
        )
        episode = transition.episode.until(transition.turn, turn)
        if self.history < 0:
            return episode
        messages = [*as_read(transition.observation, self.history), episode.messages[-1]]
        return replace(episode, messages=messages, turns=episode.turns[-self.history - 1 :], hidden="")
