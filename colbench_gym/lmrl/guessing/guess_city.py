"""LMRL-GuessCity-v0: find out by yes/no questions in which of the world's large cities the oracle lives."""

from __future__ import annotations

from colbench_gym.lmrl.guessing.asking import Habits
from colbench_gym.lmrl.guessing.guessing_game import GuessingGame
from colbench_gym.lmrl.guessing.secret_table import plain


class GuessCity(GuessingGame):
    r"""Find out by yes/no questions in which of the world's 100 large cities the oracle lives.

    ## Description
    The cities are those of LMRL-Gym, a list of the largest by the population within their limits, of about the year 2000. Our table has today's names
    and, to round figures, today's population, position, altitude, and what is true of the cities and their countries. Source: LMRL-Gym,
    arXiv:2311.18232; cities, rules and rewards as in its code, questions and facts written anew.

    ## Observation
    Text: ``Questions:\n`` at first, then ``Yes.\n`` or ``No.\n``.

    ## Action
    Text: a yes/no question, or a guess ("Is it Lima?", "Are you from Kyiv, Ukraine?").

    ## Reward
    -1 for each question, 0 for the one that names the right city.

    ## Episode end
    *Terminated* by a question that names the city, in any of its spellings, and no other city, if the answer is yes. *Truncated* after
    `max_turns` questions.

    ## Info
    Empty; at the end "success" and "metrics": "outcome", "success" (0/1), "return", "turns".

    ## Hidden information
    `hidden_information` names the city and all that our table says of it. `expert_action` sees the answers alone: it asks the question of the table
    that splits the cities left most evenly, and guesses where at most two are left. Its mean return over all cities is -6.4 (the largest one
    in the paper's table is -8.56).

    ## Behaviour policy
    The data set of the paper has a success rate of .53, 18.8 turns and a mean return of -18.8. Three players in ten that `behaviour` draws are attentive
    and ask the best of three random questions of the table, the others ask any. From the 18th question on they guess a city that fits
    the answers: every other time, and whenever at most two are left. Over 1,000 episodes: .55, 19.2 and -18.6.

    ## Faithful
    The released environment keeps "city,country" as a plain text in lower case and compares its characters, one by one, with the words at the end of the
    question. So no sensible question wins; "T?" wins for Tokyo if the oracle says yes, as do the letters of the name, one word
    each, at the end. It also loses the first city of its file, Seoul. `faithful=True` reproduces both, with the file's spelling of names. By default the
    city's name wins. ArCHer replaces answers that name the city; answers here are yes or no, so that nothing has to be replaced.

    ## Arguments
    * `oracle`: "scripted", "package.module:Class", a mapping with a "name" and arguments, such as
      ``{"name": "openai", "model": ..., "base_url": ...}``, or an `Oracle`, which the caller has to close. An oracle that cannot answer raises a
      `SimulatorError`.
    * `max_turns`: questions after which an episode is truncated. Default: 20, as in the original.
    * `faithful`: see above.
    * `tagger`: function from a text to its words and their tags, of which the original's rule needs the words; None for NLTK's. With
      `faithful=True` alone.
    * `render_mode`: "ansi" for the dialogue.

    Options of `reset`: `secret`, the name of a city; `deterministic`, with which the seed is the number of the city, modulo their number.
    """

    table_name, kind = "cities", "city"
    habits = Habits(attentive=0.3, choices=3, first_guess=18, guesses=0.5)

    def _secrets(self) -> tuple[int, ...]:
        return tuple(range(1 if self.faithful else 0, len(self._table.secrets)))

    def _is_win(self, question: str, answer: bool) -> bool:
        named = {index for index, _, _ in self._table.named(plain(question))}
        return answer and named == {self._secret}

    def _is_original_win(self, question: str) -> bool:
        while question and not question[-1].isalpha():
            question = question[:-1]
        if not question:
            return False
        city = self.secret.original or f"{self.secret.name},{self.secret.group}".lower()
        words = [word for word, _ in self._tagged(question.lower())]
        return all(letter == word for letter, word in zip(city, words[-len(city) :], strict=False))
