"""Wordle: replies against slow loops, draws, ends, what counts as a guess, the lists."""

from __future__ import annotations

import random
import re

import gymnasium as gym
import pytest

from colbench_gym.lmrl.wordle.rules import reply_number, reply_text, rules_of
from colbench_gym.lmrl.wordle.wordle import INVALID, PREFIX, Wordle
from colbench_gym.lmrl.wordle.wordle_values import dialogue_advantages
from colbench_gym.lmrl.wordle.words import SIZES, load_words


def _reply(guess, secret, feedback):
    """The reply by its definition."""
    if feedback == "original":
        return " ".join("g" if g == s else "y" if g in secret else "b" for g, s in zip(guess, secret, strict=True))
    left = [s for g, s in zip(guess, secret, strict=True) if g != s]
    colors = []
    for g, s in zip(guess, secret, strict=True):
        if g != s and g in left:
            left.remove(g)
            colors.append("y")
        else:
            colors.append("g" if g == s else "b")
    return " ".join(colors)


@pytest.mark.parametrize(
    ("guess", "secret", "original", "standard"),
    [
        ("eerie", "there", "y y y b g", "y b y b g"),
        ("geese", "these", "b y g g g", "b b g g g"),
        ("llama", "hello", "y y b b b", "y y b b b"),
        ("allow", "label", "y y y b b", "y y y b b"),
        ("alloy", "elect", "b g y b b", "b g b b b"),
        ("crane", "crane", "g g g g g", "g g g g g"),
    ],
)
def test_repeated_letters_by_hand(guess, secret, original, standard):
    for feedback, reply in (("original", original), ("standard", standard)):
        rules = rules_of([guess, secret] if guess != secret else [guess], feedback)
        assert reply_text(rules.replies(0)[-1]) == reply == _reply(guess, secret, feedback)
        assert reply_number(reply + "\n") == rules.replies(0)[-1]
        named = reply_text(rules.replies(0)[-1], guess)
        assert named == " ".join(f"{letter}:{color}" for letter, color in zip(guess, reply.split(), strict=True))
        assert reply_number(named + "\n") == rules.replies(0)[-1]


@pytest.mark.parametrize("feedback", ["original", "standard"])
def test_replies_and_the_words_that_agree_are_those_of_slow_loops(feedback):
    rules, rng = rules_of("826", feedback), random.Random(0)
    for _ in range(40):
        secret, guesses = rng.choice(rules.words), rng.sample(rules.words, 2)
        known = rules.all
        for guess in guesses:
            place = rules.position(guess)
            replies = [reply_text(reply) for reply in rules.replies(place)]
            assert replies == [_reply(guess, word, feedback) for word in rules.words]
            parts = rules.split(known, place)
            assert sorted(sum(parts.values(), ())) == list(known)
            reply = reply_number(_reply(guess, secret, feedback))
            known = rules.agreeing(known, place, reply)
            assert parts[reply] == known
        assert [rules.words[word] for word in known] == [
            word
            for word in rules.words
            if all(_reply(guess, word, feedback) == _reply(guess, secret, feedback) for guess in guesses)
        ]


def test_secrets_are_drawn_among_the_words_that_agree_in_the_order_of_the_file_and_not_for_invalid_guesses():
    env, actions = Wordle(), random.Random(1)
    for seed in range(30):
        env.reset(seed=seed)
        rng, agreeing = random.Random(seed), list(env.rules.words)
        for turn in range(1, 7):
            guess = "xxxxx" if actions.random() < 0.3 else actions.choice(agreeing)
            expected = INVALID
            if guess != "xxxxx":  # the original draws here
                secret = rng.choice(agreeing)
                expected = _reply(guess, secret, "original") + "\n"
                agreeing = [word for word in agreeing if _reply(guess, word, "original") + "\n" == expected]
            observation, reward, terminated, truncated, info = env.step(guess)
            is_solved = expected == "g g g g g\n"
            assert (observation, reward, truncated) == (expected, -float(not is_solved), False)
            assert terminated == (is_solved or turn == 6)
            if terminated:
                assert info["success"] == is_solved and info["metrics"]["outcome"] == "ended"
                break


def test_guesses_may_have_spaces_and_capitals_and_others_are_invalid():
    env = Wordle(invalid_reward=-10)
    for action in ("spare", "s p a r e", " S p A r E \n", "SPARE"):
        assert env.reset(seed=0, options={"secret": "spare"})[0] == PREFIX
        assert env.step(action)[:3] == ("g g g g g\n", 0.0, True)
    for action in ("", "spar", "spares", "spare known", "zzzzz", "sp-re", "ſpare"):
        env.reset(seed=0)
        assert env.step(action)[:4] == ("not a word\n", -10.0, False, False)


def test_faithful_answers_invalid_guesses_with_an_empty_line_and_minds_case():
    env = Wordle(faithful=True)
    env.reset(seed=0)
    assert env.step("SPARE")[:2] == ("\n", -1.0)
    env.step(" sp are")
    assert [said.text for said in env.history[:-1]] == ["Wordle:\n", "S P A R E\n", "\n", "s p a r e\n"]
    assert re.fullmatch("([a-z] ){4}[a-z]\n", env.expert_action())


def test_a_chosen_secret_stays_and_the_hidden_information_says_which_secret_it_is():
    env = Wordle()
    for seed in range(5):
        env.reset(seed=seed, options={"secret": "spare"})
        assert env.hidden_information == "secret: spare"
        for guess in ("known", "world", "thing"):
            assert env.step(guess)[0] == _reply(guess, "spare", "original") + "\n"
    env.reset(seed=0)
    assert re.fullmatch(r"secret: [a-z]{5}", env.hidden_information)
    one = Wordle(redraws=False)
    one.reset(seed=0)
    hidden = one.hidden_information
    one.step("known")
    assert hidden == one.hidden_information
    with pytest.raises(ValueError, match=re.escape("`options['secret']` must be a word of the list, got 'zzzzz'.")):
        env.reset(options={"secret": "zzzzz"})


def test_the_hidden_secret_is_that_of_the_next_guess_and_at_the_end_agrees_with_all_replies():
    env, rng = Wordle(), random.Random(0)
    for seed in range(30):
        env.reset(seed=seed)
        is_over, said = False, []
        while not is_over:
            guess = rng.choice(env.rules.words)
            secret = env.hidden_information.split()[1]
            observation, _, is_over, _, _ = env.step(guess)
            assert observation == _reply(guess, secret, "original") + "\n"
            said.append((guess, observation))
        last = env.hidden_information.split()[1]
        assert all(_reply(guess, last, "original") + "\n" == observation for guess, observation in said)


def test_a_snapshot_with_a_new_seed_draws_the_secret_again_among_the_words_that_agree():
    env = Wordle()
    env.reset(seed=3)
    env.step("known")
    state, known = env.get_state(), {env.rules.words[word] for word in env.known}
    drawn = set()
    for seed in range(200):
        env.set_state(state, reseed=seed)
        drawn.add(env.hidden_information.split()[1])
    assert drawn <= known and len(drawn) > 40
    one = Wordle(redraws=False)
    one.reset(seed=3)
    hidden, state = one.hidden_information, one.get_state()
    one.set_state(state, reseed=1)
    assert one.hidden_information == hidden


def test_what_is_hidden_is_drawn_anew_among_the_words_that_agree_also_where_it_is_kept():
    for env, options in ((Wordle(), {}), (Wordle(redraws=False), {}), (Wordle(), {"secret": "spare"})):
        env.reset(seed=3, options=options)
        env.step("known")
        state, drawn = env.get_state(), set()
        for seed in range(200):
            env.set_state(state)
            env.redraw_hidden(seed)
            drawn.add(env.hidden_information.split()[1])
            assert env.get_state()["rng"] == state["rng"] and env.state_key == (tuple(state["game"]["known"]), 1)
        assert drawn <= {env.rules.words[word] for word in env.known} and len(drawn) > 40
        secret = env.hidden_information.split()[1]
        assert env.step(secret)[2] and env.hidden_information == f"secret: {secret}"
        env.redraw_hidden(0)
        assert env.hidden_information == f"secret: {secret}"


def test_the_behaviour_policy_guesses_words_that_agree_a_third_of_the_time():
    env, rng, count, agreeing = Wordle(), random.Random(0), 0, 0
    env.reset(seed=0, options={"secret": "spare"})
    env.step("trace")
    act = env.behaviour(rng)
    chance = len(env.known) / 431
    for _ in range(4000):
        count += 1
        agreeing += env.rules.read(act()) in env.known
    assert agreeing / count == pytest.approx(1 / 3 + 2 / 3 * chance, abs=0.03)


def test_shipped_lists_begin_each_other_and_have_distinct_words_of_five_letters():
    lists = [load_words(size) for size in SIZES]
    assert [len(words) for words in lists] == [236, 431, 826, 2315]
    assert all(longer[: len(shorter)] == shorter for shorter, longer in zip(lists, lists[1:], strict=False))
    assert len(set(lists[-1])) == 2315 and all(re.fullmatch("[a-z]{5}", word) for word in lists[-1])


def test_lists_of_ones_own(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("spare\nfour\n trace \nlonger\nknown", "utf-8")
    assert load_words(str(path)) == ("spare", "trace", "known")
    env = gym.make("LMRL-Wordle-v0", words=["spare", "trace"]).unwrapped
    env.reset(seed=0)
    assert env.step("known")[0] == INVALID


def test_a_reply_that_names_letters_says_the_same():
    """The same game, and the same advantages from its dialogue."""
    for form, reply in (("colors", "g b g b g\n"), ("letters", "s:g t:b a:g t:b e:g\n")):
        env = gym.make("LMRL-Wordle-v0", reply=form).unwrapped
        env.reset(seed=3, options={"secret": "spare"})
        assert env.step("s t a t e")[0] == reply
        said = (("user", PREFIX), ("assistant", "state"), ("user", reply))
        messages = [{"role": role, "content": content} for role, content in said]
        expected = env.exact_advantages(["spare", "known"])
        assert dialogue_advantages(messages, "", ["spare", "known"], {}) == pytest.approx(expected)
        assert env.rules.words.index("spare") in env.known and env.step("zzzzz")[0] == INVALID


def test_wrong_arguments_are_refused():
    for arguments, error in (
        (
            {"words": "432"},
            "`words` must be one of 236, 431, 826, 2315, the path of a file with a word a line, or a list, got '432'.",
        ),
        ({"words": ["Spare"]}, "`words` must have 5 lower-case letters each, got 'Spare'."),
        ({"words": []}, "`words` must be at least one word and no word twice, got 0 words, 0 of them distinct."),
        ({"words": ["spare"] * 2}, "`words` must be at least one word and no word twice, got 2 words, 1 of them distinct."),
        ({"feedback": "nyt"}, "`feedback` must be 'original' or 'standard', got 'nyt'."),
        ({"invalid_reward": 0}, "`invalid_reward` must be negative, got 0; 0 is the reward of the secret."),
        (
            {"faithful": True, "redraws": False},
            "`faithful=True` needs `feedback='original'`, `reply='colors'` and `redraws=True`, got 'original', 'colors' and False; the original has no other.",
        ),
        ({"faithful": True, "reply": "letters"}, "got 'original', 'letters' and True; the original has no other."),
        ({"reply": "words"}, "`reply` must be one of ('colors', 'letters'), got 'words'."),
    ):
        with pytest.raises(ValueError, match=re.escape(error)):
            Wordle(**arguments)
