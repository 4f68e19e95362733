"""A verifier of responses that is trained: the probability that a response is right, from its text alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import transformers
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.trainable import Trainable
from sweetrl_agent.critics.heads import TurnHead
from sweetrl_agent.data.chat import EncodedDialogue
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.models.loading import adapted, load_chat, load_model, system_prompt


class ResponseVerifier:
    """A linear head on the mean hidden state of a response, and a copy of the initial policy's body, which is trained with it.

    Attributes:
        trainable: Body and head, with their optimizer.
    """

    def __init__(self, run: Run, learning_rate: float, batch_size: int) -> None:
        """Load the body, with a new adapter if the settings request LoRA.

        Args:
            run: The run.
            learning_rate: AdamW's.
            batch_size: Responses of a pass, and of an optimizer step.
        """
        arguments, start = run.config.model, run.initial_model
        transformers.set_seed(run.seed)  # a new adapter's weights are drawn
        body = adapted(load_model(start, start, arguments), arguments)
        self._scorer = TurnHead(body).eval()  # without dropout, in training too
        trained = [parameter for parameter in self._scorer.parameters() if parameter.requires_grad]
        self.trainable = Trainable("verifier", self._scorer, torch.optim.AdamW(trained, lr=learning_rate, weight_decay=0.0))
        self._chat, self._instructions = load_chat(start, arguments), system_message(system_prompt(arguments))
        self._history, self._batch_size = arguments.history, batch_size
        self._tokens_read = 0

    def taken_tokens(self) -> int:
        """Tokens read since the last call, in training too; padding is not counted."""
        taken, self._tokens_read = self._tokens_read, 0
        return taken

    @torch.no_grad()
    def scores(self, responses: Sequence[Episode]) -> list[float]:
        """Probability that each response is right.

        Args:
            responses: Views of agents; the response is the last turn.
        """
        rows = self._encoded(responses)
        batches = self._batches(range(len(rows)))
        return [score for batch in batches for score in self._logits([rows[i] for i in batch]).sigmoid().tolist()]

    def train(self, responses: Sequence[Episode], targets: Sequence[float], epochs: int, seed: int) -> Mapping[str, float]:
        """Minimize the binary cross-entropy with scores of the responses.

        Args:
            responses: As for `scores`.
            targets: Score of each in [0, 1].
            epochs: Passes over the responses, each in a fresh order.
            seed: Seed of the orders.

        Returns:
            "verifier_loss", in nats, and "verifier_auc", how often a right response (above 1/2) has a higher probability than a wrong one, a tie half; absent if all
            are on one side. Both before this training.
        """
        rows, rng = self._encoded(responses), np.random.default_rng(seed)
        with torch.no_grad():
            logits = torch.cat([self._logits([rows[i] for i in batch]) for batch in self._batches(range(len(rows)))])
        wanted = logits.new_tensor(targets)
        metrics = {"verifier_loss": float(binary_cross_entropy_with_logits(logits, wanted))}
        right, wrong = logits[wanted > 0.5], logits[wanted <= 0.5]
        if len(right) and len(wrong):
            metrics["verifier_auc"] = float(torch.sign(right[:, None] - wrong).mean()) / 2 + 0.5
        for _ in range(epochs):
            for batch in self._batches(rng.permutation(len(rows)).tolist()):
                logits = self._logits([rows[i] for i in batch])
                binary_cross_entropy_with_logits(logits, wanted[batch]).backward()
                self.trainable.step()
        return metrics

    def _encoded(self, responses: Sequence[Episode]) -> list[EncodedDialogue]:
        """Each response behind its prompt."""
        dialogues = [[*self._instructions, *response.messages] for response in responses]
        return [parts[-1] for parts in self._chat.all_sequences(dialogues, history=self._history)]

    def _logits(self, rows: Sequence[EncodedDialogue]) -> Tensor:
        """Log-odds of every row's last turn. Shape (B,)."""
        device = self._scorer.head.weight.device
        token_ids = [row.token_ids for row in rows]
        is_response = [[int(turn == row.num_turns) for turn in row.turn_ids] for row in rows]
        self._tokens_read += sum(map(len, token_ids))
        scores: Tensor = self._scorer(
            right_padded(token_ids, device), is_token(token_ids, device), right_padded(is_response, device)
        )
        return scores[:, 0]

    def _batches(self, indices: Sequence[int]) -> list[list[int]]:
        return [[*indices[start : start + self._batch_size]] for start in range(0, len(indices), self._batch_size)]
