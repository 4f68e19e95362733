"""Toys of the contracts' tests: a tabular policy in training, and environments of texts without a record."""

from __future__ import annotations

import numpy as np
import torch

from sweetrl_agent.core.dialogues import TextDialogue, TextDialogues
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.core.trainable import Trainable
from sweetrl_agent.rollouts.play import play


class TabularPolicy(torch.nn.Module):
    """Says one of a few texts, by logits for each last message; a text's index is its only token."""

    def __init__(self, texts, heard, rate=0.0):
        super().__init__()
        self.texts, self.heard = tuple(texts), tuple(heard)
        self.logits = torch.nn.Parameter(torch.zeros(len(self.heard), len(self.texts)))
        self.trainable = Trainable("policy", self, torch.optim.SGD([self.logits], lr=rate))

    def log_probs(self, messages):
        """Log-probability of each text after a dialogue."""
        return torch.log_softmax(self.logits[self.heard.index(messages[-1]["content"])], dim=0)

    def generate(self, dialogues, seeds):
        """See `Policy`."""
        said = []
        for dialogue, seed in zip(dialogues, seeds, strict=True):
            log_probs = self.log_probs(dialogue).detach()
            token = int(
                np.random.default_rng(seed).choice(
                    len(self.texts), p=log_probs.exp().double().numpy() / log_probs.exp().double().sum().item()
                )
            )
            said.append(Utterance(self.texts[token], [token], [float(log_probs[token])], (0, 0)))
        return said

    def reinforce(self, episodes, advantages):
        """A step of the policy gradient, as `OnPolicyAlgorithm.policy_loss`."""
        terms = [
            advantage * self.log_probs(episode.prefix(number))[turn.token_ids[0]]
            for episode, of_turns in zip(episodes, advantages, strict=True)
            for number, (turn, advantage) in enumerate(zip(episode.turns, of_turns, strict=True), 1)
        ]
        (-torch.stack(terms).sum() / len(episodes)).backward()
        self.trainable.step(max_norm=100.0)


def dialogues(make_env, num_tasks, num_envs=4):
    """Dialogues of an environment, whose task i is `reset(seed=i)`."""
    return TextDialogues(
        [TextDialogue(make_env(), {str(i): i for i in range(num_tasks)}, "return", 0) for _ in range(num_envs)]
    )


def played(policies, envs, keys, stage, **settings):
    """Episodes of `play`, in one list."""
    return [episode for shard in play(policies, envs, keys, 0, stage, **settings) for episode in shard]


def chain_episode(index, end, right, rng):
    """An episode of a walker that goes right with a probability, or stays, from 0 to an end, which pays 1."""
    place, messages, turns = 0, [{"role": "user", "content": "0"}], []
    while place < end and len(turns) < 50:
        text = "right" if rng.random() < right else "stay"
        place += text == "right"
        turns.append(Turn(text, [0], [0.0], float(place == end)))
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": str(place)}]
    return Episode("chain", index, messages[:-1], turns, {"outcome": "ended"}, 1.0)
