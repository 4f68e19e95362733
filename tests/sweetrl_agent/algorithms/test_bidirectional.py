"""Bi-directional feedback: its formulas, a teacher's use and harm, what the teacher learns, and its rounds after a kill."""

from __future__ import annotations

import json
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
import yaml

pytest.importorskip("stable_baselines3")

from colbench_gym.files import read_rows
from sweetrl_agent import run_train
from sweetrl_agent.algorithms.bidirectional import Bidirectional, BidirectionalConfig, Teacher
from sweetrl_agent.algorithms.discrete import make_ppo, vec_env
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.models.tiny import build_model, build_tokenizer
from sweetrl_agent.trainers.action_feedback import LARGEST_WEIGHT, StateFeedback, imitations, note, pooled, preferences, rows_of
from sweetrl_agent.trainers.advised_student import AdvisedEnvironments
from sweetrl_agent.trainers.menu_prior import MenuPrior, Scorer
from sweetrl_agent.trainers.run import Run

from ..killed_runs import content
from .signals_game import LEVERS, LIGHTS, RIGHT, STATES, TURNS, FixedTeacher, Levers, Signals, accuracy, light_of

#: Training of the tiny teacher that tells the lights apart.
TAUGHT = {"teacher_learning_rate": 1e-2, "teacher_epochs": 20.0, "beta": 1.0, "nll": 1.0}
UNIFORM = np.full(len(LEVERS), -np.log(len(LEVERS)))


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """A random tiny model that knows the words of the game."""
    folder = tmp_path_factory.mktemp("signals") / "model"
    tokenizer = build_tokenizer(
        [f"The {light} light is on. I pull the {lever} lever." for light in LIGHTS for lever in LEVERS], 600
    )
    build_model(tokenizer, 32, 1, 0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def make_signals(tmp_path, model_folder):
    """Function: folder, settings of the algorithm -> a run."""

    def make(folder="run", env="Signals-v0", **settings):
        named = {f"bidirectional.{name}": value for name, value in settings.items()}
        return Run(make_config({**_given(tmp_path / folder, model_folder), "env": env, **named}))

    return make


def _given(folder, model):
    return {
        "output": str(folder), "tasks": "seeds:0-999", "test_tasks": "seeds:1000-1009", "unseen_tasks": "", "model": str(model), "dtype": "float32",
        "sft_dialogues": 0, "threads": 1, "system_prompt": "", "algorithm": "bidirectional",
    }  # fmt: skip


class Advised(Bidirectional):
    """With a given teacher in every round."""

    fixed = None

    def teacher(self, run, number):
        return self.fixed


def _returns(run, teacher):
    """Mean returns of the rounds with a teacher that is not trained."""
    algorithm = Advised(replace(run.algorithm.config, feedback="none"))
    algorithm.fixed = teacher
    algorithm.train(run)
    return [row["return"] for row in read_rows(run.path("metrics.jsonl"))]


class RandomTeacher(FixedTeacher):
    """Proposes a lever at random, whatever the light."""

    def __init__(self):
        super().__init__(RIGHT)
        self.rng = np.random.default_rng(0)

    def log_probs(self, dialogues):
        return self.table[self.rng.integers(len(LIGHTS), size=len(dialogues))]


# ---- settings and formulas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("advice", "hint", "'feature'"),
        ("feedback", "rlhf", "'context'"),
        ("plays", "both", "'teacher'"),
        ("rounds", 0, "at least 1"),
        ("steps", 0, "at least 1"),
        ("prior_weight", -1.0, "at least 0"),
        ("anneal", 0.0, "above 0"),
        ("anneal", 1.5, "at most 1"),
        ("beta", 0.0, "above 0"),
        ("temperature", 0.0, "above 0"),
        ("least_visits", 0, "at least 1"),
        ("pairs_per_state", 0, "at least 1"),
        ("examples", 0, "at least 1"),
        ("teacher_epochs", 0.0, "above 0"),
    ],
)
def test_settings_out_of_range_are_refused(name, value, expected):
    with pytest.raises(ValueError, match=expected):
        make_config({"algorithm": "bidirectional", f"bidirectional.{name}": value})


def test_engines_that_return_no_likelihoods_of_given_texts_are_refused():
    with pytest.raises(ValueError, match=r"'bidirectional' takes `--engine transformers`, got 'vllm'"):
        make_config({"algorithm": "bidirectional", "model": "hub/name", "engine": "vllm"})


def test_the_prior_falls_linearly_to_zero_and_stays_there():
    config = BidirectionalConfig(rounds=4, steps=100, prior_weight=2.0, anneal=0.5)
    assert [config.kappa(steps) for steps in (0, 50, 100, 200, 399)] == [2.0, 1.5, 1.0, 0.0, 0.0]


@torch.no_grad()
@pytest.mark.parametrize("per_token", [False, True])
def test_scores_equal_a_plain_loop_over_the_texts(per_token, tiny_tokenizer, make_tiny_model):
    from sweetrl_agent.data.chat import Chat

    model, chat = make_tiny_model(), Chat(tiny_tokenizer)
    scores = MenuPrior(Levers(), Scorer(model, chat, per_token=per_token))
    expected = []
    for messages in STATES:
        row = []
        for action in range(Levers.count):
            prompt = chat.prompt(messages)
            turn = chat.turn(messages, Levers().say(action, messages))
            logits = model(torch.tensor([prompt + turn])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
            each = logits[range(len(turn)), turn]
            row.append(float(each.mean() if per_token else each.sum()))
        expected.append(row)
    expected = torch.tensor(expected, dtype=torch.float64).log_softmax(1).numpy()
    np.testing.assert_allclose(scores.log_probs(STATES), expected, atol=1e-4)
    read = scores.scored_tokens
    assert read > 0 and scores.log_probs(STATES[:2]).shape == (2, 6) and scores.scored_tokens == read, (
        "known states are not read again"
    )
    assert not np.allclose(scores.log_probs(STATES[:1], ["Pull the oak lever."]), expected[:1]), "a note is read"


def test_advantages_are_means_over_all_visits_of_a_state_in_all_rounds():
    rng = np.random.default_rng(0)
    rounds = [
        [(STATES[int(rng.integers(6))], UNIFORM, int(rng.integers(6)), float(rng.normal())) for _ in range(80)]
        for _ in range(2)
    ]
    feedback = pooled([row for steps in rounds for row in json.loads(json.dumps(rows_of(steps, Levers())))], Levers())
    assert len(feedback) == 6
    for state in feedback:
        for action in range(6):
            known = [a for steps in rounds for messages, _, u, a in steps if messages == state.messages and u == action]
            assert len(known) == state.visits.get(action, 0)
            assert not known or state.advantages[action] == pytest.approx(np.mean(known))
    often = pooled([row for steps in rounds for row in rows_of(steps, Levers())], Levers(), least_visits=6)
    assert all(state.visits[action] >= 6 for state in often for action in state.advantages)
    assert sum(len(state.advantages) for state in often) < sum(len(state.advantages) for state in feedback)


def test_a_preference_is_the_best_action_over_the_worse_ones_that_the_teacher_proposes():
    def texts(rows):
        return [tuple(next(lever for lever in LEVERS if lever in row[side]) for side in ("chosen", "rejected")) for row in rows]

    state = StateFeedback(STATES[0], {0: -0.5, 1: 0.4, 2: 0.39, 3: -0.2}, {}, [-3.0, -2.0, -1.5, -1.0, -0.1, -9.0])
    assert texts(preferences([state], Levers())) == [("copper", "glass"), ("copper", "oak"), ("copper", "stone")]
    assert texts(preferences([state], Levers(), per_state=1)) == [("copper", "glass")]
    assert texts(preferences([state], Levers(), 0.1)) == [("copper", "glass"), ("copper", "stone")]
    equal = [replace(state, advantages=advantages) for advantages in ({}, {2: 0.3}, {2: 0.3, 4: 0.3})]
    assert preferences(equal, Levers()) == []


def test_imitations_are_drawn_by_the_exponential_of_the_advantage():
    advantages = {0: 0.3, 1: 0.0, 2: -0.3}
    states = [StateFeedback(STATES[0], advantages, {}, UNIFORM)] * 4000
    drawn = imitations(states, Levers(), 2.0, 0)
    assert len(drawn) == 12_000 and drawn == imitations(states, Levers(), 2.0, 0)
    weights = np.exp(np.array([*advantages.values()]) / (2.0 * np.std([*advantages.values()])))
    counts = [sum(LEVERS[action] in messages[-1]["content"] for messages in drawn) for action in advantages]
    np.testing.assert_allclose(np.array(counts) / 12_000, weights / weights.sum(), atol=0.02)
    sharp = imitations(states, Levers(), 1e-6, 0)
    assert sum(LEVERS[0] in messages[-1]["content"] for messages in sharp) / 12_000 == pytest.approx(
        LARGEST_WEIGHT / (LARGEST_WEIGHT + 1), abs=0.02
    )
    assert imitations([], Levers(), 1.0, 0) == []


def test_the_prompt_shows_good_and_bad_proposals_of_the_states_most_like_this_one():
    feedback = [
        StateFeedback(messages, {RIGHT[i]: 0.5, (RIGHT[i] + 1) % 6: -0.25}, {}, UNIFORM) for i, messages in enumerate(STATES)
    ]
    text = note(feedback, STATES[2], Levers(), 2)
    assert text == (
        'Earlier proposals and what they were worth:\nTo "The green light is on.", your proposal "I pull the stone lever." was good (+0.50).\n'
        'To "The green light is on.", your proposal "I pull the copper lever." was bad (-0.25).'
    )
    assert note(feedback, STATES[2], Levers(), 12).count("\n") == 12
    assert note([], STATES[2], Levers(), 2) == "" == note([replace(feedback[0], advantages={1: 0.0})], STATES[0], Levers(), 2)

    class Obedient:
        """Proposes what the prompt calls good."""

        actions = Levers()

        def log_probs(self, dialogues, notes):
            return np.array([[f'{lever} lever." was good' in text for lever in LEVERS] for text in notes], float)

    assert accuracy(Teacher(Obedient(), feedback, 2)) == 1.0 > accuracy(Teacher(Obedient(), (), 2))


# ---- the student -------------------------------------------------------------------------------------------------------------


def test_with_kappa_zero_the_student_is_ppo_bit_for_bit(make_signals):
    run = make_signals(rounds=1, steps=1024, prior_weight=0.0)
    _returns(run, RandomTeacher())
    student = torch.load(run.path("bidirectional/student.pt"), weights_only=True)
    with run.record.action_environments(run.config, run.tasks, 8) as environments:
        plain = make_ppo(run, vec_env(environments), run.algorithm.config.learning_rate)
        plain.learn(1024)
    expected = plain.policy.state_dict()
    assert float(student.pop("action_net.kappa")) == 0
    found = {name.replace(".networks", "").replace("net.linear", "net"): value for name, value in student.items()}
    assert {*found} == {*expected}
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_prior_shifts_the_logits_by_kappa_times_the_teachers(make_signals):
    run = make_signals()
    with run.record.action_environments(run.config, run.tasks, 2) as environments:
        from sweetrl_agent.trainers.advised_student import PriorPolicy

        env = AdvisedEnvironments(vec_env(environments), FixedTeacher(RIGHT), "prior")
        policy = make_ppo(run, env, 1e-3, PriorPolicy).policy
        observation = torch.as_tensor(env.reset())
        assert torch.equal(observation[:, 6:], torch.as_tensor(FixedTeacher(RIGHT).log_probs(env.messages)).float())
        logits, values = {}, {}
        for weight in (0.0, 0.5):
            policy.set_prior_weight(weight)
            logits[weight] = policy.get_distribution(observation).distribution.logits
            values[weight] = policy.predict_values(observation)
    shifted = torch.log_softmax(logits[0.0] + 0.5 * observation[:, 6:], 1)
    torch.testing.assert_close(logits[0.5], shifted)
    assert torch.equal(values[0.0], values[0.5]), "the value does not see the proposal"


def test_a_random_teacher_does_no_harm_and_an_oracle_needs_fewer_steps(make_signals):
    sizes = {"rounds": 6, "steps": 512}  # a rollout a round
    alone = _returns(make_signals("alone", prior_weight=0.0, **sizes), FixedTeacher(RIGHT))
    lost = _returns(make_signals("random", **sizes), RandomTeacher())
    wrong = _returns(make_signals("wrong", **sizes), FixedTeacher([(lever + 1) % 6 for lever in RIGHT]))
    oracle = _returns(make_signals("oracle", **sizes), FixedTeacher(RIGHT))
    assert alone[0] < 0.3 and alone[-1] > 0.9
    assert lost[-1] > alone[-1] - 0.05 and wrong[-1] > alone[-1] - 0.05, (lost, wrong)
    assert min(oracle) > 0.75 and oracle[-1] > 0.9

    def rounds_to(returns, level):
        return next(i for i, value in enumerate(returns, 1) if value > level)

    assert rounds_to(oracle, 0.75) == 1 and rounds_to(alone, 0.75) >= 3


class Blind(Levers):
    """The student sees nothing of the light; it can only listen."""

    observation_size = 1

    def observe(self, messages):
        return np.ones(1, np.float32)


class BlindSignals(Signals):
    discrete_actions = Blind()


gym.register("BlindSignals-v0", entry_point=BlindSignals, disable_env_checker=True)


@pytest.mark.parametrize("advice", ["feature", "prior"])
def test_a_blind_student_learns_by_its_teacher_alone(advice, make_signals, tmp_path):
    run = make_signals(advice, "BlindSignals-v0", rounds=3, steps=1536, advice=advice, anneal=1.0)
    algorithm = Advised(replace(run.algorithm.config, feedback="none"))
    algorithm.fixed = FixedTeacher(RIGHT)
    algorithm.train(run)
    rows = read_rows(run.path("metrics.jsonl"))
    assert rows[-1 if advice == "feature" else 0]["return"] > 0.8, "as a feature it is learnt, as a prior it is given"
    policy = algorithm.load(run)
    if advice == "feature":
        said = policy.generate(STATES * 5, range(30))
        right = [f"{LEVERS[RIGHT[light_of(state)]]} lever" in u.text for state, u in zip(STATES * 5, said, strict=True)]
        assert np.mean(right) > 0.8


# ---- the teacher, rounds and commands ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("feedback", ["pairs", "sft"])
def test_the_teacher_learns_what_the_student_found_out(feedback, make_signals):
    run = make_signals(feedback=feedback, rounds=2, steps=1024, **TAUGHT, temperature=0.3)
    algorithm, measured = run.algorithm, []

    class Watched(Bidirectional):
        def teacher(self, run, number):
            teacher = super().teacher(run, number)
            measured.append(accuracy(teacher))
            return teacher

    Watched(algorithm.config).train(run)
    measured.append(accuracy(algorithm.trained_teacher(run)))
    assert measured[0] <= 2 / 6 < measured[1] and measured[2] >= 5 / 6, measured
    first, last = read_rows(run.path("metrics.jsonl"))
    assert last["agreement"] > first["agreement"] + 0.2 and last["return"] > 0.6
    feedback = algorithm.feedback(run, 2)
    assert last["states"] == len(feedback) >= first["states"]
    assert (
        last["compared"] == pytest.approx(sum(len(state.visits) > 1 for state in feedback) / len(feedback))
        and last["compared"] > 0.5
    )
    assert (
        last["num_input_tokens_seen"] > first["num_input_tokens_seen"] > 0
        and last["scored_tokens"] > first["scored_tokens"] > 0
    )
    assert first["environment_turns"] == 1024 and first["episodes"] == pytest.approx(1024 / TURNS, abs=8)
    assert sorted(path.name for path in run.path("bidirectional").iterdir()) == [
        "feedback_1.jsonl",
        "feedback_2.jsonl",
        "student.pt",
        "teacher",
    ]


def test_rounds_after_a_kill_are_the_same_byte_for_byte(make_signals, monkeypatch):
    settings = {"rounds": 3, "steps": 512, **TAUGHT, "teacher_epochs": 2.0}
    whole, killed = make_signals("whole", **settings), make_signals("killed", **settings)
    whole.algorithm.train(whole)
    original = Bidirectional.teach

    def teach(self, run, number, feedback):
        if number == 2:
            raise KeyboardInterrupt
        return original(self, run, number, feedback)

    with monkeypatch.context() as patch:
        patch.setattr(Bidirectional, "teach", teach)
        with pytest.raises(KeyboardInterrupt):
            killed.algorithm.train(killed)
    assert killed.path("bidirectional/teacher_1").is_dir() and killed.path("bidirectional/checkpoint.pt").exists()
    killed.algorithm.train(killed)
    one, two = content(whole.path("bidirectional")), content(killed.path("bidirectional"))
    assert [*one] == [*two] and [name for name in one if one[name] != two[name]] == []
    timeless = [[{**row, "seconds": 0} for row in read_rows(run.path("metrics.jsonl"))] for run in (whole, killed)]
    assert timeless[0] == timeless[1]


@pytest.mark.parametrize("last", [0, 600])
def test_a_callback_ends_it_within_a_round(last, make_signals, monkeypatch):
    """Before the first step there is nothing to measure; later, the round ends and no other begins."""
    run = make_signals("stopped", rounds=3, steps=512)
    monkeypatch.setattr(run.callbacks, "tell", lambda event, stage, step, *rest: event != "on_step" or step < last)
    run.algorithm.train(run)
    rows = [row for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "bidirectional"]
    assert len(rows) == (2 if last else 1) and run.path("bidirectional/student.pt").exists()
    assert rows[-1]["environment_turns"] - (rows[0]["environment_turns"] if last else 0) < 512


def test_a_command_trains_and_evaluates_it_in_context(model_folder, tmp_path):
    given = _given(tmp_path / "run", model_folder)
    sizes = {"rounds": 2, "steps": 512, "feedback": "context", "examples": 2}
    results = run_train(**{**given, "env": "Signals-v0", "eval_tasks": 6, "bidirectional": sizes})
    assert {"initial", "trained"} <= {*results}
    agents = [row["agent"] for row in read_rows(tmp_path / "run" / "evaluation.jsonl")]
    assert agents == ["initial"] * 6 + ["trained"] * 6
    assert not (tmp_path / "run" / "bidirectional" / "teacher").exists(), "in context, nothing is trained"
    settings = {**yaml.safe_load((tmp_path / "run" / "config.yaml").read_text()), "output": given["output"]}
    run = Run(make_config(settings), is_dry=True)
    teacher = run.algorithm.with_config(replace(run.algorithm.config, plays="teacher"))
    proposed = teacher.trained_teacher(run).log_probs(STATES).argmax(axis=1)
    said = teacher.load(run).generate(STATES, range(6))
    assert [utterance.text for utterance in said] == [Levers().say(action, STATES[0]) for action in proposed]
    assert (teacher.first_stage("plays"), teacher.first_stage("steps")) == ("evaluate", "bidirectional")
