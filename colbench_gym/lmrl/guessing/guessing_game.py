"""What Twenty Questions and Guess My City share: a secret, an oracle, 20 yes/no questions."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from importlib import import_module
from typing import Any, ClassVar

from colbench_gym.lmrl.game import Outcome, TextGame
from colbench_gym.lmrl.guessing.asking import Asker, Habits, asker
from colbench_gym.lmrl.guessing.oracles import Oracle, make_oracle
from colbench_gym.lmrl.guessing.secret_table import Secret, SecretTable, load_table
from colbench_gym.lmrl.guessing.yes_no import YesNo, understanding
from sandboxes.arguments import typed

#: The first observation.
FIRST = "Questions:\n"
YES, NO = "Yes.\n", "No.\n"
#: The words of a text with their parts of speech in the Penn Treebank's tags, as NLTK gives them.
Tagger = Callable[[str], list[tuple[str, str]]]


class GuessingGame(TextGame):
    """Base class of the two games. Arguments are documented there."""

    reset_options = ("secret", "deterministic")

    #: The table, and the kind of its secrets.
    table_name: ClassVar[str]
    kind: ClassVar[str]
    #: How the players of the data set play.
    habits: ClassVar[Habits]

    @typed
    def __init__(
        self,
        oracle: str | Mapping[str, Any] | Oracle = "scripted",
        max_turns: int = 20,
        faithful: bool = False,
        tagger: Tagger | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Set up the game. The classes of the games document the arguments."""
        super().__init__(max_turns, faithful, render_mode)
        if tagger is not None and not faithful:
            raise ValueError("`tagger` is only used by the original's rule; pass `faithful=True` with it.")
        self.oracle, self._owns_oracle = make_oracle(oracle, self.kind), not isinstance(oracle, Oracle)
        self._tagger = tagger
        self._secret = 0
        self._seed: int | None = None

    # ---- what a game defines ---------------------------------------------------------------------------------------------

    @abstractmethod
    def _secrets(self) -> tuple[int, ...]:
        """Indices of the secrets in the game, in the order from which they are drawn."""

    @abstractmethod
    def _is_original_win(self, question: str) -> bool:
        """The original's rule for a question that was answered with yes."""

    @abstractmethod
    def _is_win(self, question: str, answer: bool) -> bool:
        """Our rule."""

    # ---- what the game knows ---------------------------------------------------------------------------------------------

    @property
    def secret(self) -> Secret:
        """What the agent must find out."""
        return self._table.secrets[self._secret]

    @property
    def hidden_information(self) -> str:
        """The secret and what is true of it, in plain words (capability *hidden*)."""
        true = [attribute.says for attribute in self._table.attributes if attribute.truths[self._secret]]
        place = f", in {self.secret.group}" if self.kind == "city" else ""
        return f"The {self.kind} is {self.secret.in_words}{place}. It {'; it '.join(true)}."

    @property
    def state_key(self) -> Hashable:
        """The turn, and the questions with their answers in any order."""
        return self.turn, frozenset(self._answered())

    def expert_action(self) -> str:
        """The question that splits what is left of the table most evenly; a guess where at most two are left. It sees the answers alone."""
        return self._asker.best(self._answered())

    def behaviour(self, rng: random.Random) -> Callable[[], str]:
        """A player as in the paper's data set; see the manual."""
        is_attentive = rng.random() < self.habits.attentive
        return lambda: self._asker.typical(self._answered(), self.habits, is_attentive, rng)

    def close(self) -> None:
        """Close the oracle, if it was made here."""
        if self._owns_oracle:
            self.oracle.close()
        super().close()

    # ---- playing ---------------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """See `TextGame.reset`. The manual documents the options."""
        self._seed = seed
        return super().reset(seed=seed, options=options)

    def _begin(self, options: Mapping[str, Any]) -> str:
        secrets = self._secrets()
        if options.get("secret") is not None:
            self._secret = self._table.find(options["secret"])
        elif options.get("deterministic", False):
            if self._seed is None:
                raise ValueError("The option 'deterministic' takes the secret from the seed; call `reset` with a seed.")
            self._secret = secrets[self._seed % len(secrets)]
        else:
            self._secret = self.rng.choice(secrets)
        return FIRST

    def _play(self, action: str) -> Outcome:
        question, seed = action.strip(), self.rng.getrandbits(31)
        guesses = [] if self.faithful else self._understanding.guesses(question)
        if guesses:
            answer = self._secret in guesses
        else:
            answer = self.oracle.answer(self.secret, question, seed)
        is_won = (answer and self._is_original_win(question)) if self.faithful else self._is_win(question, answer)
        return Outcome(YES if answer else NO, 0.0 if is_won else -1.0, is_won, is_won)

    def _answered(self) -> list[tuple[str, bool]]:
        texts = [message.text for message in self.history[1:]]
        return [(question.strip(), answer == YES) for question, answer in zip(texts[::2], texts[1::2], strict=True)]

    def _tagged(self, text: str) -> list[tuple[str, str]]:
        if self._tagger is None:
            self._tagger = nltk_tagger()
        return self._tagger(text)

    @property
    def _table(self) -> SecretTable:
        return load_table(self.table_name)

    @property
    def _understanding(self) -> YesNo:
        return understanding(self.table_name)

    @property
    def _asker(self) -> Asker:
        return asker(self.table_name, self._secrets())

    def _get(self) -> dict[str, Any]:
        return {"secret": self._secret}

    def _set(self, state: Mapping[str, Any]) -> None:
        self._secret = int(state["secret"])


def nltk_tagger() -> Tagger:
    """The original's tokenizer and tagger.

    Raises:
        ImportError: If NLTK is not installed.
    """
    try:
        nltk = import_module("nltk")
    except ImportError as error:
        raise ImportError("`faithful=True` needs NLTK and its tagger's data, or a `tagger`; run `pip install nltk`.") from error
    return lambda text: list(nltk.pos_tag(nltk.word_tokenize(text)))
