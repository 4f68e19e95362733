"""What a run says about its work and its times before it starts: sizes by its settings, times by a machine of known speed."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
import torch

from sweetrl_agent.algorithms.registry import ALGORITHMS, find_algorithm
from sweetrl_agent.config.pipeline import STAGES, stages_of
from sweetrl_agent.core.work import Lengths, Passes, Playing, Sampling, Work
from sweetrl_agent.data.files import write_rows
from sweetrl_agent.evaluation.steps import algorithm_steps
from sweetrl_agent.trainers import machine
from sweetrl_agent.trainers.forecast import AS_SURE_S, Forecast, as_lines, in_words, make_forecast, time_left
from sweetrl_agent.trainers.machine import BUSY, READ_TOGETHER, Machine, Pace, environment_pace, machine_of, timed_of
from sweetrl_agent.trainers.stage_work import works_of
from sweetrl_agent.trainers.timing import Timed, TimedModel

SIZES = {
    "num_tasks": 5, "trajectories_per_task": 3, "num_states": 20, "num_candidates": 4, "pairs_per_turn": 2, "actor_epochs": 1.0, "eval_tasks": 2,
    "eval_episodes": 3, "sft_dialogues": 40, "sft_batch": 8, "sft_epochs": 2, "critic_epochs": 1.0,
}  # fmt: skip
LENGTHS = Lengths(turns=6, request=20, agent=10, reply=5, hidden=30, source="assumed")


class Steady:
    """A machine that takes a hundredth of a second for everything that is timed."""

    def get(self, key, default=None):
        return 0.01

    def __contains__(self, key):
        return True

    def __getitem__(self, key):
        return 0.01


MACHINE = Machine(Steady(), Pace(0.1, 0.05, False, ""), None, "estimated")


@pytest.fixture(autouse=True)
def _timed_episodes(monkeypatch):
    """Episodes are timed here, unlike in the other tests."""
    monkeypatch.setattr(machine, "environment_pace", environment_pace)


def _works(run, stages=None):
    return works_of(run, stages or run.stages, [run.algorithm], LENGTHS)


def _forecast(run):
    return Forecast(run, run.stages, [run.algorithm], LENGTHS, MACHINE)


def test_sizes_follow_from_the_settings(make_run):
    assert {name: work.text for name, work in _works(make_run(**SIZES)).items()} == {
        "sft": "10 steps of 8 dialogues",
        "collect": "15 episodes of 5 tasks",
        "pairs": "",
        "critic": "at most 10 pairs, 1 epochs",
        "candidates": "80 utterances at 20 turns",
        "rank": "80 utterances",
        "actor": "at most 40 pairs, 1 epochs",
        "evaluate": "12 episodes",
        "report": "",
    }


def test_the_parts_of_a_stage_are_what_one_would_work_out_by_hand(make_run):
    works = _works(
        make_run(**SIZES, critic_batch=4, critic_micro_batch=2, actor_micro_batch=4, shown_dialogues=0, hint_turns=0)
    )
    dialogue, prefix = 20 + 6 * 10 + 5 * 5, 20 + 2.5 * 15
    assert works["collect"].parts == (Playing(15, 6, 15), Sampling(90, 10, (20 + 5 * 5) / 6, prefix, 15))
    assert works["critic"].parts == (  # half of the ten possible pairs; the reference reads each once
        Passes("read", 5 / 2, 4, dialogue + 30, 60),
        Passes("train", 5 / 2, 4, dialogue + 30, 60, 5 / 4),
    )
    assert works["candidates"].parts == (Sampling(80, 10, prefix / 4, prefix, 80),)
    assert works["rank"].parts == (Passes("read", 40, 1, prefix + 30 + 40, 40),)
    assert works["actor"].parts == (Passes("read", 10, 8, prefix + 10, 10), Passes("train", 10, 8, prefix + 10, 10, 5))


def test_times_follow_from_the_parts_and_the_speed(make_run):
    known = Machine(
        {Timed("sample", 15, 40): 0.3, Timed("read", READ_TOGETHER, 8, 1): 0.08}, Pace(0.1, 0.05, False, ""), None, ""
    )
    assert known.seconds(Playing(10, 4, 5)) == pytest.approx(10 * (0.1 + 4 * 0.05))
    assert Machine({}, Pace(0.1, 0.05, True, ""), None, "").seconds(Playing(10, 4, 5)) == pytest.approx(2 * 0.3), (
        "five wait at once"
    )
    said = Sampling(90, 10, 8, 40, 15)
    assert known.seconds(said) == pytest.approx(900 * 0.3 / (15 * BUSY) + 90 * 0.08 / READ_TOGETHER)
    assert known.seconds(Sampling(90, 10, 16, 40, 15)) == pytest.approx(known.seconds(said) + 90 * 0.08 / READ_TOGETHER)
    assert known.seconds(Passes("train", 1, 1, 10, 10)) is None, "no pass of training was timed"
    assert Machine({}, known.pace, lambda rows: 2.0 * rows, "").seconds(said) == pytest.approx(900 / 30)


@pytest.mark.parametrize(
    "algorithm", [name for name, one in ALGORITHMS.items() if not one.is_discrete and name != "vision_head"]
)
def test_every_stage_of_our_algorithms_has_a_time(algorithm, make_run):
    run = make_run(**SIZES, vision_model="")
    stages = algorithm_steps([algorithm])
    expected = Forecast(run, stages, [ALGORITHMS[algorithm]], LENGTHS, MACHINE).expected({})
    assert [name for name, (_, seconds) in expected.items() if seconds is None] == []
    assert time_left(expected, stages) > 0


def test_the_critic_of_pages_is_named_as_not_timed(make_run):
    run = make_run(**SIZES)
    stages = algorithm_steps(["vision_head"])
    forecast = Forecast(run, stages, [ALGORITHMS["vision_head"]], LENGTHS, MACHINE)
    expected = forecast.expected({})
    named = {name: work.not_timed for name, (work, _) in expected.items() if work.not_timed}
    assert [*named] == ["critic vision_head", "rank vision_head"] and "renders pages" in named["critic vision_head"]
    *table, total, _, _ = lines = as_lines(expected, stages, {})
    assert sum(line.endswith("  not timed") for line in table) == 2
    assert total.startswith("in all ") and total.endswith(", besides critic vision_head, rank vision_head")
    assert "time not known" not in "".join(lines)
    assert lines[-1] == f"not timed  rank vision_head: {named['rank vision_head']}"
    timed = as_lines(expected, [name for name in stages if name not in named], {})
    assert in_words(sum(expected[name][1] for name in stages if name not in named)) in timed[-1]


def test_an_algorithm_that_states_no_work_has_no_time(make_run):
    run = make_run(**SIZES)
    stage = STAGES["actor"].__class__("mine", "own", (), (), "", needs=STAGES["actor"].needs)
    expected = Forecast(run, {"mine": stage}, [], LENGTHS, MACHINE).expected({})
    assert expected["mine"] == (Work(not_timed="its algorithm states no work (`Algorithm.work`)"), None)
    assert in_words(None) == "time not known" and time_left(expected, ["mine"]) is None


def test_finished_stages_of_the_same_kind_correct_later_ones(make_run):
    forecast = _forecast(make_run(**SIZES))
    first = {name: seconds for name, (_, seconds) in forecast.expected({}).items()}
    after = {
        name: seconds for name, (_, seconds) in forecast.expected({"collect": first["collect"] * 3 + 2 * AS_SURE_S}).items()
    }
    assert after["evaluate"] == pytest.approx(3 * first["evaluate"])  # both play episodes
    assert after["candidates"] == pytest.approx(3 * first["candidates"])  # both sample
    critic = {name: seconds for name, (_, seconds) in forecast.expected({"critic": first["critic"]}).items()}
    assert critic["actor"] == pytest.approx(first["actor"])


def test_a_stage_that_took_no_time_says_little(make_run):
    forecast = _forecast(make_run(**SIZES))
    first, after = forecast.expected({})["actor"][1], forecast.expected({"critic": 0.0})["actor"][1]
    assert after > first * AS_SURE_S / (AS_SURE_S + forecast.expected({})["critic"][1] + 0.01)


def test_what_a_stage_has_written_is_counted(make_run):
    run = make_run(**SIZES)
    run.folder.mkdir(exist_ok=True)
    write_rows(run.path("outcome_pairs.jsonl"), [{}] * 3)
    write_rows(run.path("turn_pairs.jsonl"), [{}] * 7)
    works = _works(run)
    assert (works["critic"].text, works["actor"].text) == ("3 pairs, 1 epochs", "7 pairs, 1 epochs")


def test_without_a_limit_all_turns_are_sampled(make_run):
    assert (
        _works(make_run(**SIZES | {"num_states": 0}))["candidates"].text == "360 utterances at 90 turns"
    )  # 15 episodes of 6 turns


def test_an_agent_that_forgets_is_trained_on_turns(make_run):
    work = _works(make_run(**SIZES | {"sft_dialogues": 70, "sft_batch": 14}, history=0), {"sft": STAGES["sft"]})["sft"]
    assert work.text == "70 dialogues, batches of 14 turns"
    assert work.parts == (Passes("train", 70 * 6 * 2 / 14, 14, 30, 10, 70 * 6 * 2 / 14),)


def test_sft_of_another_model_and_its_evaluation_as_it_came_are_counted(make_run, tiny_model_folder):
    works = _works(make_run(**SIZES, model=str(tiny_model_folder), eval_pretrained="example"))
    assert (works["sft"].text, works["evaluate"].text) == ("10 steps of 8 dialogues", "18 episodes")
    works = _works(make_run(**SIZES | {"sft_dialogues": 0}, model=str(tiny_model_folder), eval_pretrained="example"))
    assert works["sft"].text == f"none: {tiny_model_folder} is the initial policy" and works["evaluate"].text == "12 episodes"


def test_a_file_has_no_more_demonstrations_than_its_rows(make_run, tmp_path):
    said = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello."}]
    write_rows(tmp_path / "said.jsonl", [{"messages": said}] * 24)
    assert _works(make_run(**SIZES, demonstrations=str(tmp_path / "said.jsonl")))["sft"].text == "6 steps of 8 dialogues"


def test_an_on_policy_algorithm_says_how_many_episodes_it_plays(make_run):
    run = make_run(
        algorithm="grpo",
        grpo_iterations=3,
        grpo_tasks=5,
        grpo_group=2,
        grpo_micro_batch=5,
        grpo_epochs=1,
        seed=1,
        eval_every=1,
        eval_every_tasks=2,
    )
    work = _works(run, stages_of(find_algorithm("grpo")))["grpo"]
    assert work.text == "30 episodes in 3 iterations"
    assert work.parts[0] == Playing(36, 6, 10), "two test tasks in each iteration besides"
    assert work.parts[2] == Passes("train", 6, 5, 105, 60, 3)


def test_the_packaged_policy_takes_no_steps(make_run):
    run = make_run(tasks="embedded:train", test_tasks="embedded:test[:3]")
    assert _works(run)["sft"] == Work("none: the initial policy comes with the package")


def test_a_table_says_what_is_left_and_how_sure_it_is(make_run):
    expected = _forecast(make_run(**SIZES)).expected({})
    lines = as_lines(expected, ["evaluate", "report"], {"sft": 2.0})
    assert lines[1].split()[-2:] == ["not", "requested"]
    assert lines[0].split() == ["sft", "10", "steps", "of", "8", "dialogues", "done"]
    total = expected["evaluate"][1] + expected["report"][1]
    assert lines[-1].startswith("in all ") and in_words(total) in lines[-1] and ", likely " in lines[-1]
    assert as_lines(expected, ["evaluate"], {}, 4.0)[-1] != as_lines(expected, ["evaluate"], {})[-1]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "time not known"),
        (0.2, "about 1 s"),
        (7.4, "about 7 s"),
        (42.4, "about 40 s"),
        (125.4, "about 2.1 min"),
        (1432, "about 24 min"),
        (7200, "about 2.0 h"),
        (1e6, "about 280 h"),
    ],
)
def test_times_in_words_have_two_digits_that_say_something(seconds, words):
    assert in_words(seconds) == words


class Ticking:
    """A clock that advances by a hundredth of a second whenever it is read."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.01
        return self.now


def _parts(run):
    return lambda lengths: [
        part for work in works_of(run, run.stages, [run.algorithm], lengths).values() for part in work.parts
    ]


@pytest.mark.parametrize("env", ["ours", "own"])
def test_every_environment_and_model_is_timed_without_a_trace(env, make_run, tiny_model_folder, tmp_path, monkeypatch):
    given = {"model": str(tiny_model_folder), "sft_dialogues": 0}
    if env == "own":
        (tmp_path / "own_timed.py").write_text(OWN)
        monkeypatch.syspath_prepend(str(tmp_path))
        given |= {
            "env": "own_timed:Counting-v0",
            "tasks": "seeds:0-9",
            "test_tasks": "seeds:20-22",
            "max_turns": 4,
            "critic": "no_hidden",
            "hint_turns": 0,
        }
    run = make_run(**given)
    monkeypatch.setattr(machine, "TimedModel", TimedModel)
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    lengths, speed = machine_of(run, _parts(run), Ticking())
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
    assert re.fullmatch(r"estimated from \d+ s of timed steps on this machine", speed.basis)
    expected = Forecast(run, run.stages, [run.algorithm], lengths, speed).expected({})
    assert [name for name, (_, seconds) in expected.items() if seconds is None] == []
    assert not run.path("initial").exists() and not run.path("trajectories.jsonl").exists()


def test_a_deep_model_is_timed_by_its_first_layers(tiny_tokenizer, make_run):
    """A clock that counts layers that read 256 tokens: all twelve count, and the head of 128 scored tokens as one more."""
    from transformers import LlamaConfig

    config = LlamaConfig(
        vocab_size=len(tiny_tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=12, num_attention_heads=1,
        num_key_value_heads=1, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    passed = [0.0]

    def count(states, tokens):
        passed[0] += states.shape[0] * states.shape[1] / tokens

    class Counted(TimedModel):
        def _made(self, is_trained):
            model = super()._made(is_trained)
            for layer in model.model.layers:
                layer.register_forward_hook(lambda _, given, __: count(given[0], 256))
            model.lm_head.register_forward_hook(lambda _, given, __: count(given[0], 128))
            return model

    timed = Counted(config, tiny_tokenizer, make_run().config.model, lambda: passed[0])
    whole = Timed("read", 1, 256, 128)
    found = timed.seconds([whole, Timed("train", 2, 512, 1)])
    assert timed.is_deep and found[whole] == pytest.approx(12 + 1, rel=0.02)
    assert found[Timed("train", 2, 512, 1)] == pytest.approx(2 * 2 * 12, rel=0.1), "rows and tokens are scaled"


def test_a_model_that_cannot_be_read_is_said(make_run, monkeypatch):
    run = make_run(model="someone/on-the-hub", sft_dialogues=0)
    forecast = make_forecast(run, run.stages, [run.algorithm], [*run.stages])
    assert "the model cannot be timed (" in forecast.about()[1]
    expected = forecast.expected({})
    assert expected["actor"][1] is None and expected["report"][1] is not None


def test_servers_and_people_are_assumed(make_run, tiny_model_folder):
    simulator = '{"name": "openai", "model": "x", "base_url": "http://127.0.0.1:1/v1"}'
    run = make_run(
        model=str(tiny_model_folder),
        sft_dialogues=0,
        engine="server",
        server_urls=["http://127.0.0.1:1/v1"],
        simulator=simulator,
    )
    forecast = make_forecast(run, run.stages, [run.algorithm], [*run.stages])
    assert (
        "servers are assumed to sample 30 tokens a second in each utterance; replies are assumed to take 2 s"
        in forecast.about()[1]
    )
    assert forecast.expected({})["collect"][1] > 0


def test_nothing_is_timed_where_nothing_is_left(make_run):
    run = make_run(**SIZES)
    _, idle = machine_of(run, lambda lengths: [], Ticking())
    assert idle.timed == {} and timed_of(Playing(1, 1)) == []


OWN = '''"""An environment of one's own: says how many messages it has heard."""
import string

import gymnasium as gym
from gymnasium.spaces import Text


class Counting(gym.Env):
    observation_space = action_space = Text(200, charset=string.printable)

    def reset(self, *, seed=None, options=None):
        self.heard = 0
        return "Say something.", {}

    def step(self, action):
        self.heard += 1
        return f"That was message {self.heard}.", 1.0, self.heard == 3, False, {}


gym.register("Counting-v0", Counting)
'''
