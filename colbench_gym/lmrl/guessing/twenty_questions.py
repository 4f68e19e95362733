"""LMRL-TwentyQuestions-v0: find out by yes/no questions which of 158 objects the oracle has in mind."""

from __future__ import annotations

from colbench_gym.lmrl.guessing.asking import Habits
from colbench_gym.lmrl.guessing.guessing_game import GuessingGame

#: Nouns that the original allows in a guess besides the object's name.
ALLOWED_NOUNS = ("object", "something", "type", "kind")


class TwentyQuestions(GuessingGame):
    r"""Find out by yes/no questions which of 158 objects the oracle has in mind.

    ## Description
    The objects are those of LMRL-Gym, in 17 categories (animals, tools, clothes, ...). The oracle answers whatever is asked with yes or no. Source:
    LMRL-Gym, arXiv:2311.18232; objects, rules and rewards as in its code, questions and attributes written anew.

    ## Observation
    Text: ``Questions:\n`` at first, then ``Yes.\n`` or ``No.\n``.

    ## Action
    Text: a yes/no question, or a guess ("Is it a dog?", "a pair of scissors", "My guess is the piano."). A guess names an object by one of its
    names, singular or plural, and says nothing else: "Is it bigger than a car?" is no guess, and "Is it a dog or a cat?", which names
    two, cannot win.

    ## Reward
    -1 for each question, 0 for the guess of the right object.

    ## Episode end
    *Terminated* by the right guess. *Truncated* after `max_turns` questions.

    ## Info
    Empty; at the end "success" and "metrics": "outcome", "success" (0/1), "return", "turns".

    ## Hidden information
    `hidden_information` names the object and all that our table says of it. `expert_action` sees the answers alone: it asks the question of the table
    that splits the objects left most evenly, and guesses where at most two are left. Its mean return over all objects is -7.0 (the largest one
    in the paper's table is -12.6).

    ## Behaviour policy
    The data set of the paper has a success rate of .31 and a mean return of -17.3. One player in ten that `behaviour` draws is attentive and asks the
    best of eight random questions of the table, the others ask any. From the seventh question on they guess an object that fits the
    answers: one time in twenty, and whenever at most two are left. Over 1,000 episodes: .29 and -17.6.

    ## Faithful
    The original accepts a guess by NLTK's tags: the question must end in a name and have no other noun; "Is it a small dog?" wins, "Is the answer a dog?"
    does not, and the verdict depends on the tagger's version. By default a guess is what *Action* says, and is answered from the names,
    without the oracle. `faithful=True` has the original's rule (with NLTK, or your `tagger`) and asks the oracle about every question.
    The original's oracle, FLAN-T5-XL, is not reproduced by either; its answers are yes and no alone, and so are ours.

    ## Arguments
    * `oracle`: "scripted", "package.module:Class", a mapping with a "name" and arguments, such as
      ``{"name": "openai", "model": ..., "base_url": ...}``, or an `Oracle`, which the caller has to close. An oracle that cannot answer raises a
      `SimulatorError`.
    * `max_turns`: questions after which an episode is truncated. Default: 20, as in the original.
    * `faithful`: see above.
    * `tagger`: function from a text to its words and their tags; None for NLTK's. With `faithful=True` alone.
    * `render_mode`: "ansi" for the dialogue.

    Options of `reset`: `secret`, the name of an object; `deterministic`, with which the seed is the number of the object, modulo 158.
    """

    table_name, kind = "objects", "object"
    habits = Habits(attentive=0.1, choices=8, first_guess=7, guesses=0.05)

    def _secrets(self) -> tuple[int, ...]:
        return tuple(range(len(self._table.secrets)))

    def _is_win(self, question: str, answer: bool) -> bool:
        return self._understanding.guesses(question) == [self._secret]

    def _is_original_win(self, question: str) -> bool:
        while question and not question[-1].isalpha():
            question = question[:-1]
        if not question:
            return False
        tagged = self._tagged(question.lower())
        words = [word for word, _ in tagged]
        names = [[word for word, _ in self._tagged(name.lower())] for name in self.secret.names]
        allowed = {*ALLOWED_NOUNS, *(word for name in names for word in name)}
        for i, (word, tag) in enumerate(tagged):
            counts = words[i + 1 : i + 2] == ["of"]  # "a pair of ..."
            if tag[:2] == "NN" and word not in allowed and not counts:
                return False
        return any(words[-len(name) :] == name for name in names if len(name) <= len(words))
