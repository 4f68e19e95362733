"""Wordle: find a secret word of five letters in six guesses."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from colbench_gym.lmrl.game import GameText, Outcome, TextGame
from colbench_gym.lmrl.wordle.rules import ORIGINAL, SOLVED, Knowledge, reply_text, rules_of
from colbench_gym.lmrl.wordle.wordle_values import TRIES, values_of
from sandboxes.arguments import typed

PREFIX = "Wordle:\n"
#: Reply to an invalid guess.
INVALID, INVALID_FAITHFUL = "not a word\n", "\n"
#: Forms of a reply.
REPLIES = ("colors", "letters")
#: Share of the guesses of the paper's behaviour policy that agree with the replies.
SMART = 1 / 3


class Wordle(TextGame):
    r"""Guess a word of a list; each letter of a guess gets a color.

    ## Description

    Wordle of LMRL-Gym (arXiv:2311.18232): the agent has six tries to guess a secret word of five letters. The colors tell it which words are still possible;
    a good guess leaves few of them, whichever is the secret.

    ## Observation

    "Wordle:\n" at first. Then the reply to a guess, a letter for each of its letters: g (green, right place), y (yellow, elsewhere in the secret), b (black,
    not in it), such as "b y g b b\n"; with `reply="letters"`, behind the letters of the guess: "t:b r:y a:g c:b e:b\n". "not a word\n" after an invalid guess.

    ## Action

    A word of the list, with or without spaces between its letters ("s l a t e" or "slate"), in either case. Anything else is an invalid guess; it uses up a try.

    ## Reward

    -1 for a guess, 0 for the secret, `invalid_reward` for an invalid guess. The return of a game that is lost with valid guesses is -6.

    ## Episode end

    Terminates with the secret (a success) and after the last try. Never truncates, for the tries are a rule of the game.

    ## Info

    After the last turn: `success`, and `metrics` with `outcome` ("ended"), `success`, `return` and `turns`.

    ## Hidden information

    The secret. With `redraws`, the secret is drawn anew among these words before each valid guess: the
    hidden one is that of the next guess, at the end that of the last, which agrees with all replies. What an agent sees has the same distribution either way,
    but only with `redraws=False` is the secret of the first turn also that of the last.

    `expert_action` is greedy information gain (`wordle_values`): it sees the replies, not the secret. It is the paper's upper bound, but not optimal.
    `behaviour` is the policy of the paper's data: a third of its guesses are random words that agree with all replies, the others any words.

    ## Arguments
    * `words`: "431" (the default), "236", "826" or "2315", our lists of the original's sizes (`words` says why not its own); the path of a file with a word
      a line, such as the original's; or a list of words.
    * `feedback`: "original": a guessed letter that the secret has is yellow or green each time it occurs in the guess; "standard": as in Wordle, at most as
      often as the secret has it.
    * `reply`: "colors", as in the original, or "letters": each color with its letter. A tiny model then need not find out which letter a color belongs to.
    * `invalid_reward`: Reward of an invalid guess, negative. The RL scripts of the original use -10.
    * `redraws`: Whether the secret is drawn anew before each valid guess, as in the original.
    * `max_turns`: Tries.
    * `faithful`: See below.
    * `render_mode`: None or "ansi".

    `reset(options={"secret": "spare"})` chooses the secret for the whole episode: it is not drawn anew.

    ## Faithful

    Broken in the original, and repaired by default: an invalid guess is answered with an empty line (here: "not a word"); a guess in capital letters is invalid
    (here: case does not matter); repeated letters are colored unlike in Wordle (here: `feedback="standard"` if you want that; the default is the original's
    rule, on which the paper's figures rest); a secret that is twice in the list cannot be found, and an invalid guess with reward 0 ends the episode as if it
    were the secret (here: both are refused). `faithful=True` reproduces texts and case, and the history has each guess as the original's agents see it, with
    spaces and a line feed. It needs the original's rule, replies and draws. The original's class gives an invalid guess -1 by default, its RL scripts -10.
    """

    reset_options = ("secret",)

    @typed
    def __init__(
        self,
        words: str | Sequence[str] = "431",
        feedback: str = ORIGINAL,
        reply: str = "colors",
        invalid_reward: float = -1.0,
        redraws: bool = True,
        max_turns: int = TRIES,
        faithful: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Create the environment; arguments as in the class's manual."""
        super().__init__(max_turns, faithful, render_mode)
        if not invalid_reward < 0:
            raise ValueError(f"`invalid_reward` must be negative, got {invalid_reward!r}; 0 is the reward of the secret.")
        if reply not in REPLIES:
            raise ValueError(f"`reply` must be one of {REPLIES}, got {reply!r}.")
        if faithful and (feedback != ORIGINAL or reply != "colors" or not redraws):
            raise ValueError(
                f"`faithful=True` needs `feedback={ORIGINAL!r}`, `reply='colors'` and `redraws=True`, got {feedback!r}, {reply!r} and {redraws!r}; "
                "the original has no other."
            )
        self.rules = rules_of(words, feedback)
        self.values = values_of(self.rules, invalid_reward, max_turns)
        self.invalid_reward, self.redraws, self.names_letters = invalid_reward, redraws, reply == "letters"
        self._secret, self._is_chosen, self._known = 0, False, self.rules.all

    @property
    def known(self) -> Knowledge:
        """Positions in the list of the words that agree with all replies."""
        return self._known

    @property
    def hidden_information(self) -> str:
        """The secret of the next guess, at the end of an episode that of the last. It agrees with all replies so far."""
        return f"secret: {self.rules.words[self._secret]}"

    @property
    def state_key(self) -> Hashable:
        """The words that agree with all replies, and the turn."""
        return self._known, self.turn

    def expert_action(self) -> str:
        """The guess of greedy information gain; sees the replies only."""
        return self._spoken(self.values.guess(self._known))

    def behaviour(self, rng: random.Random) -> Callable[[], str]:
        """The random mixture of the paper: any word of the list, or with probability 1/3 one that agrees with all replies."""
        return lambda: self._spoken(rng.choice(self._known if rng.random() < SMART else self.rules.all))

    def exact_advantages(self, texts: Sequence[str]) -> list[float]:
        """Exact advantage of messages in the current state, for the policy of `expert_action` (`wordle_values`)."""
        tries, value = self.max_turns - self.turn, self.values.value(self._known, self.max_turns - self.turn)
        return [self.values.q_value(self._known, tries, self._read(text)) - value for text in texts]

    def set_state(self, state: Mapping[str, Any], reseed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Return to a snapshot; with a new seed a secret that is drawn anew is drawn from it, too."""
        restored = super().set_state(state, reseed)
        if reseed is not None and not self._is_over:
            self._redraw()
        return restored

    def redraw_hidden(self, seed: int) -> None:
        """Draw the secret again among the words that agree with all replies (capability *redraw*), also one that was chosen or is kept."""
        if not self._is_over:
            self._secret = random.Random(seed).choice(self._known)

    @property
    def _is_redrawn(self) -> bool:
        return self.redraws and not self._is_chosen

    def _begin(self, options: Mapping[str, Any]) -> str:
        self._known, self._is_chosen = self.rules.all, "secret" in options
        if self._is_chosen:
            secret = self.rules.position(options["secret"])
            if secret is None:
                raise ValueError(f"`options['secret']` must be a word of the list, got {options['secret']!r}.")
            self._secret = secret
        else:
            self._secret = self.rng.choice(self._known)
        return PREFIX

    def _play(self, action: str) -> Outcome:
        guess, is_last = self._read(action), self.turn >= self.max_turns
        if guess is None:
            return Outcome(INVALID_FAITHFUL if self.faithful else INVALID, self.invalid_reward, is_last)
        reply = self.rules.replies(guess)[self._secret]
        self._known = self.rules.agreeing(self._known, guess, reply)
        is_solved = reply == SOLVED
        if not (is_solved or is_last):
            self._redraw()
        text = reply_text(reply, self.rules.words[guess] if self.names_letters else "")
        return Outcome(text + "\n", float(is_solved) - 1, is_solved or is_last, is_solved)

    def _redraw(self) -> None:
        """Draw the secret of the next guess. The original draws when the guess is made; the draws are the same."""
        if self._is_redrawn:
            self._secret = self.rng.choice(self._known)

    def _read(self, action: str) -> int | None:
        return self.rules.read(action, is_exact=self.faithful)

    def _spoken(self, word: int) -> str:
        return " ".join(self.rules.words[word]) + ("\n" if self.faithful else "")

    def _remember(self, message: GameText, outcome: Outcome | None = None) -> None:
        """Append a text; a guess as the original's agents see it, if that is wanted."""
        if self.faithful and message.is_action:
            message = GameText(" ".join(message.text.strip().replace(" ", "")) + "\n", True)
        super()._remember(message, outcome)

    def _get(self) -> dict[str, Any]:
        return {"secret": self._secret, "is_chosen": self._is_chosen, "known": list(self._known)}

    def _set(self, state: Mapping[str, Any]) -> None:
        self._secret, self._is_chosen, self._known = int(state["secret"]), bool(state["is_chosen"]), tuple(state["known"])
