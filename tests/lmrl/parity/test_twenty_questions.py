"""Twenty Questions and its original: the objects, and observation, reward and end of every step, with one oracle and one tagger for both."""

from __future__ import annotations

import random
import re

from colbench_gym.lmrl.guessing.oracles import Oracle
from colbench_gym.lmrl.guessing.secret_table import load_table
from colbench_gym.lmrl.guessing.twenty_questions import TwentyQuestions

#: What the original imports for its oracle, FLAN-T5-XL, and for its tags.
STUBS = {
    "jax": (),
    "transformers.generation": ("GenerationConfig",),
    "JaxSeq": (),
    "JaxSeq.models": (),
    "JaxSeq.models.T5": (),
    "JaxSeq.models.T5.interface": ("T5Inference",),
    "JaxSeq.models.T5.load": ("load_params", "ModelLoadMode"),
    "JaxSeq.utils": ("BlockingStrategy", "Padding", "Truncation", "convert_path", "get_dtype"),
    "nltk": (),
}
NOUNS = {
    "object",
    "something",
    "type",
    "kind",
    "pair",
    "piece",
    "dog",
    "car",
    "animal",
    "answer",
    "game",
    "ball",
    "set",
    "paper",
}
MIN_STEPS = 1000


class Coin(Oracle):
    """An oracle that tosses a coin, for both sides."""

    def __init__(self, seed, yes=0.7):
        self.rng, self.yes = random.Random(seed), yes

    def answer(self, secret, question, seed):
        return self.rng.random() < self.yes

    def generate_answers(self, word, question):
        return "Yes." if self.rng.random() < self.yes else "No."

    generate_answer = generate_answers


def tag(text):
    """A tagger that knows a few nouns; what ends in "s" is a plural, and every third letter of the alphabet begins one as well."""
    return [
        (word, "NNS" if word.endswith("s") else "NN" if word in NOUNS or ord(word[0]) % 3 == 0 else "VB")
        for word in tokenize(text)
    ]


def tokenize(text):
    return re.findall(r"\w+|[^\w\s]", text)


def original_sides(import_original, package):
    """The modules `env` and `data` of a game of the original, with our tagger."""
    env = import_original(f"llm_rl_scripts.{package}.env.env", STUBS)
    data = import_original(f"llm_rl_scripts.{package}.env.data", STUBS)
    data.nltk.word_tokenize, data.nltk.pos_tag = tokenize, lambda words: tag(" ".join(words))
    return env, data


def mismatches(ours, theirs, text, ask, options, seed):
    """Steps of an episode, those that differ, and whether it was won. Both sides are asked the same."""
    observation, _ = ours.reset(seed=seed, options=options)
    history = theirs.reset(seed, options)
    wrong, steps, rng = int(observation != history[-1].text), 0, random.Random(seed)
    while True:
        action = ask(ours.secret, rng)
        observation, reward, terminated, truncated, _ = ours.step(action)
        history, their_reward, their_end = theirs.step((*history, text(action, True)))
        steps += 1
        wrong += (observation, reward, terminated or truncated) != (history[-1].text, their_reward, their_end)
        if their_end or terminated or truncated:
            return steps, wrong, terminated


def _ask(secret, rng):
    name = rng.choice([*secret.names, *secret.names, rng.choice(load_table("objects").secrets).name])
    return rng.choice([
        f"Is it a {name}?", f"is it {name.lower()} \n", f"Is the object a kind of {name}?!", f"Is it a piece of {name}?", f"Is {name} the answer?",
        f"Would an animal like a {name}?", "", "???", "Is it bigger than a car?", f"{name.upper()}", f"Is it a pair of {name}", "Does it float",
    ])  # fmt: skip


def test_the_objects_are_those_of_the_original(import_original):
    _, data = original_sides(import_original, "twenty_questions")
    secrets = load_table("objects").secrets
    assert [tuple(word.words) for word in data.get_default_word_list()] == [secret.names for secret in secrets]
    groups = [group for group, words in data.DEFAULT_OBJECT_DICT.items() for _ in words]
    assert groups == [secret.group for secret in secrets]


def test_every_step_is_that_of_the_original(import_original):
    env, data = original_sides(import_original, "twenty_questions")
    words = data.get_default_word_list()
    steps, wrong, won = 0, 0, 0
    for seed in range(200):
        ours = TwentyQuestions(Coin(seed), faithful=True, tagger=tag)
        theirs = env.TwentyQuestionsPolicyEnvironment(Coin(seed), words)
        options = {"deterministic": seed % 2 == 0}
        theirs.reset(seed, options)
        ours.reset(seed=seed, options=options)
        assert ours.secret.names == tuple(theirs.curr_word.words)
        did, differ, is_won = mismatches(ours, theirs, env.Text, _ask, options, seed)
        steps, wrong, won = steps + did, wrong + differ, won + is_won
    assert wrong == 0 and steps >= MIN_STEPS and 20 < won < 190
