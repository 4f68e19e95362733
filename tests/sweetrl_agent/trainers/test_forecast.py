"""What a run says about its work and its times before it starts: sizes by its settings, times by known speeds, and by those measured here."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from colbench_gym.files import write_rows
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.work import Lengths, Line, Speeds, Work, episodes
from sweetrl_agent.evaluation.steps import algorithm_steps
from sweetrl_agent.train import main
from sweetrl_agent.trainers import speeds
from sweetrl_agent.trainers.forecast import AS_SURE_S, Forecast, as_lines, in_words, make_forecast, time_left
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.speeds import TimedModel, line, measure, time_environment, time_model
from sweetrl_agent.trainers.stage_work import works_of

SIZES = {
    "num_tasks": 5, "trajectories_per_task": 3, "sweet.num_states": 20, "sweet.num_candidates": 4, "sweet.pairs_per_turn": 2, "sweet.actor_epochs": 1.0, "eval_tasks": 2,
    "eval_episodes": 3, "sft_dialogues": 40, "sft_batch": 8, "sft_epochs": 2, "sweet.critic_epochs": 1.0,
}  # fmt: skip
LENGTHS = Lengths(turns=6, request=20, agent=10, reply=5, hidden=30, source="assumed")
SPEEDS = Speeds(*[Line(call=0.01)] * 4, step_s=0.01, reset_s=0.1, turn_s=0.05, basis="estimated")


@pytest.fixture(autouse=True)
def _timed(monkeypatch):
    """Models and episodes are timed here, unlike in the other tests."""
    monkeypatch.setattr(speeds, "time_environment", time_environment)
    monkeypatch.setattr(speeds, "time_model", time_model)


def _works(run, stages=None):
    return works_of(run, stages or run.stages, [run.algorithm], LENGTHS)


def _forecast(run, stages=None):
    return Forecast(partial(works_of, run, stages or run.stages, [run.algorithm]), LENGTHS, SPEEDS)


def _of(algorithm, make_run):
    run = Run(replace(make_run(**SIZES).config, algorithms={algorithm: ALGORITHMS[algorithm]}))
    stages = algorithm_steps([run.algorithm])
    return stages, _forecast(run, stages).expected({})


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


def test_the_amounts_of_a_stage_are_what_one_would_work_out_by_hand(make_run):
    micro = {"sweet.critic_batch": 4, "sweet.critic_micro_batch": 2, "sweet.actor_micro_batch": 4, "sweet.actor_batch": 8}
    works = _works(make_run(**SIZES, **micro, shown_dialogues=0, hint_turns=0))
    dialogue, prefix = 20 + 6 * 10 + 5 * 5, 20 + 2.5 * 15

    def is_work(stage, **amounts):
        assert works[stage] == Work(works[stage].text, **{name: pytest.approx(value) for name, value in amounts.items()})

    is_work("collect", episodes=15, turns=90, utterances=90, sampled=900, prompts=15 * (20 + 5 * 5), at_once=15)
    is_work(  # half of the ten possible pairs; the reference reads each once
        "critic", reads=5 / 2, read=10 * (dialogue + 30), trainings=5 / 2, trained=10 * (dialogue + 30), steps=5 / 4,
        pass_tokens=4 * (dialogue + 30), pass_scored=4 * 60,
    )  # fmt: skip
    is_work("candidates", utterances=80, sampled=800, prompts=20 * prefix, at_once=80)
    is_work("rank", reads=40, read=40 * (prefix + 30 + 40), pass_tokens=prefix + 30 + 40, pass_scored=40)
    is_work(
        "actor", reads=10, read=80 * (prefix + 10), trainings=10, trained=80 * (prefix + 10), steps=5,
        pass_tokens=8 * (prefix + 10), pass_scored=80,
    )  # fmt: skip
    by_turn = {"sweet.pairs_per_turn": 4, "sweet.actor_by_turn": True}
    works = _works(make_run(**{**SIZES, **micro, **by_turn}))
    is_work(  # the four pairs of a turn have four different candidates
        "actor", reads=20, read=20 * (prefix + 40), trainings=20, trained=20 * (prefix + 40), steps=10,
        pass_tokens=prefix + 40, pass_scored=40,
    )  # fmt: skip


def test_times_follow_from_the_amounts_and_the_speeds():
    played = Work(episodes=10, turns=40, at_once=5)
    assert SPEEDS.seconds(played) == pytest.approx(10 * 0.1 + 40 * 0.05)
    assert replace(SPEEDS, waits=True).seconds(played) == pytest.approx(3.0 / 5), "five wait at once"
    sampled = Work(utterances=80, sampled=800, prompts=400, at_once=4)
    assert Speeds(sample=Line(0.1, 0.01)).seconds(sampled) == pytest.approx(200 * 0.1 + 800 * 0.01)
    assert Speeds(sample=Line(), prompt=Line(0.8, 0.1)).seconds(sampled) == pytest.approx(10 * 0.8 + 400 * 0.1)
    passes = Work(reads=3, read=30, trainings=2, trained=20, steps=1)
    assert Speeds(Line(1, 0.1), Line(2, 0.2), step_s=0.5).seconds(passes) == pytest.approx(3 + 3 + 4 + 4 + 0.5)
    assert Speeds(read=Line(1, 0.1)).seconds(passes) is None, "no pass of training was timed"
    assert Speeds().seconds(Work()) == 0 and Speeds().seconds(Work(not_timed="yours")) is None


@pytest.mark.parametrize(
    "algorithm", [name for name, kind in ALGORITHMS.items() if not kind.is_discrete and name != "vision_head"]
)
def test_every_stage_of_our_algorithms_has_a_time(algorithm, make_run):
    stages, expected = _of(algorithm, make_run)
    assert [name for name, (_, seconds) in expected.items() if seconds is None] == []
    assert time_left(expected, stages) > 0


def test_the_critic_of_pages_is_named_as_not_timed(make_run):
    stages, expected = _of("vision_head", make_run)
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
    stage = STAGES["actor"].__class__("mine", "own", (), (), "")
    forecast = Forecast(partial(works_of, make_run(**SIZES), {"mine": stage}, []), LENGTHS, SPEEDS)
    expected = forecast.expected({})
    assert expected["mine"] == (Work(not_timed="its algorithm states no work (`Algorithm.work`)"), None)
    assert in_words(None) == "time not known" and time_left(expected, ["mine"]) is None


def test_finished_stages_of_the_same_kind_correct_later_ones(make_run):
    forecast = _forecast(make_run(**SIZES))
    first = {name: seconds for name, (_, seconds) in forecast.expected({}).items()}
    expected = forecast.expected({"collect": first["collect"] * 3 + 2 * AS_SURE_S})
    after = {name: seconds for name, (_, seconds) in expected.items()}
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
    works = _works(make_run(**SIZES | {"sweet.num_states": 0}))
    assert works["candidates"].text == "360 utterances at 90 turns"  # 15 episodes of 6 turns


def test_an_agent_that_forgets_is_trained_on_turns(make_run):
    work = _works(make_run(**SIZES | {"sft_dialogues": 70, "sft_batch": 14}, history=0), {"sft": STAGES["sft"]})["sft"]
    assert work.text == "70 dialogues, batches of 14 turns"
    assert (work.trained, work.steps, work.pass_tokens) == (70 * 6 * 2 * 30, 70 * 6 * 2 / 14, 14 * 30)
    assert LENGTHS.rows(2, 1) == (12, 20 + 15 + 10, 10), "one turn is read besides"


def test_sft_of_another_model_and_its_evaluation_as_it_came_are_counted(make_run, tiny_model_folder):
    works = _works(make_run(**SIZES, model=str(tiny_model_folder), eval_pretrained="example"))
    assert (works["sft"].text, works["evaluate"].text) == ("10 steps of 8 dialogues", "18 episodes")
    works = _works(make_run(**SIZES | {"sft_dialogues": 0}, model=str(tiny_model_folder), eval_pretrained="example"))
    assert works["sft"].text == f"none: {tiny_model_folder} is the initial policy" and works["evaluate"].text == "12 episodes"


def test_a_file_has_no_more_demonstrations_than_its_rows(make_run, tmp_path):
    messages = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello."}]
    write_rows(tmp_path / "said.jsonl", [{"messages": messages}] * 24)
    assert _works(make_run(**SIZES, demonstrations=str(tmp_path / "said.jsonl")))["sft"].text == "6 steps of 8 dialogues"


def test_an_on_policy_algorithm_says_how_many_episodes_it_plays(make_run):
    sizes = {"grpo.iterations": 3, "grpo.tasks": 5, "grpo.group": 2, "grpo.micro_batch": 5, "grpo.epochs": 1}
    work = _works(make_run(algorithm="grpo", **sizes, seed=1, eval_every=1, eval_every_tasks=2))["grpo"]
    assert work.text == "30 episodes in 3 iterations"
    assert (work.episodes, work.at_once) == (36, 10), "two test tasks in each iteration besides"
    assert (work.trainings, work.trained, work.steps) == (6, 30 * 105, 3)


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


@pytest.mark.parametrize("env", ["ours", "own"])
def test_every_environment_and_model_is_timed_without_a_trace(env, make_run, tiny_model_folder, tmp_path, monkeypatch):
    given = {"model": str(tiny_model_folder), "sft_dialogues": 0}
    if env == "own":
        (tmp_path / "own_timed.py").write_text(OWN)
        monkeypatch.syspath_prepend(str(tmp_path))
        tasks = {"tasks": "seeds:0-9", "test_tasks": "seeds:20-22", "max_turns": 4}
        given |= {"env": "own_timed:Counting-v0", **tasks, "critic": "no_hidden", "hint_turns": 0}
    run = make_run(**given)
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    forecast = make_forecast(run, partial(works_of, run, run.stages, [run.algorithm]), run.stages)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
    assert re.fullmatch(r"estimated from \d+ s of timed steps on this machine", forecast.speeds.basis)
    assert forecast.speeds.reset_s > 0 and forecast.speeds.turn_s > 0
    assert [name for name, (_, seconds) in forecast.expected({}).items() if seconds is None] == []
    assert not run.path("initial").exists() and not run.path("trajectories.jsonl").exists()


def test_a_deep_model_is_timed_by_its_first_layers(tiny_tokenizer, make_run, monkeypatch):
    """A clock that counts layers and tokens: in a pass all twelve layers count, and the head of the tokens with logits."""
    from transformers import LlamaConfig

    config = LlamaConfig(
        vocab_size=len(tiny_tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=12, num_attention_heads=1,
        num_key_value_heads=1, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    passed = [0.0]

    class Counted(TimedModel):
        def _make(self, is_trained):
            model = super()._make(is_trained)
            for module in (*model.model.layers, model.lm_head):
                module.register_forward_hook(lambda _, given, __: count(given[0]))
            return model

    def count(states):
        passed[0] += states.shape[0] * states.shape[1]

    monkeypatch.setattr(speeds, "model_config", lambda *_: config)
    timed = Counted(make_run(), tiny_tokenizer, LENGTHS, lambda: passed[0])
    found = timed.speeds(Work(read=1, trained=1, sampled=1))
    assert found.read == found.prompt == found.train == Line(0.0, pytest.approx(12 + 60 / 105))
    assert found.sample.seconds(1, 16) == pytest.approx(16 * (12 + 1) / speeds.BUSY, rel=0.3)


def test_a_line_never_says_that_tokens_take_no_time():
    assert line((10, 110), (2.0, 12.0)) == Line(1.0, 0.1)
    assert line((10, 110), (5.0, 4.0)).token == pytest.approx(4.0 / 8 / 100), "the smaller call was disturbed"


def test_a_model_that_cannot_be_read_is_said(make_run):
    run = make_run(model="someone/on-the-hub", sft_dialogues=0)
    forecast = make_forecast(run, partial(works_of, run, run.stages, [run.algorithm]), run.stages)
    assert "the model cannot be timed (" in forecast.about()[1]
    expected = forecast.expected({})
    assert expected["actor"][1] is None and expected["report"][1] is not None


def test_a_machine_that_others_keep_busy_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = ["the timed steps had 26% of a core: other processes keep this machine busy"]
    assert speeds.shared_with_others(173.0, 45.0) == said
    assert speeds.shared_with_others(19.0, 1.0) == speeds.shared_with_others(100.0, 71.0) == []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # a GPU computes while the processor waits
    assert speeds.shared_with_others(173.0, 45.0) == []


def test_servers_and_people_are_assumed(make_run, tiny_model_folder):
    url = "http://127.0.0.1:1/v1"
    given = {"model": str(tiny_model_folder), "sft_dialogues": 0, "engine": "server", "server_urls": [url]}
    run = make_run(**given, simulator=f'{{"name": "openai", "model": "x", "base_url": "{url}"}}')
    _, found = measure(run, lambda lengths: episodes(8, lengths, 4))
    assumed = "servers are assumed to sample 30 tokens a second in each utterance; replies are assumed to take 2 s"
    assert found.basis.endswith(f"; {assumed}") and found.waits
    assert found.seconds(episodes(8, LENGTHS, 4)) == pytest.approx(2 * 6 * (2 + 10 / 30))


def test_nothing_is_timed_where_nothing_is_left(make_run, monkeypatch):
    monkeypatch.setattr(speeds, "time_model", None)
    monkeypatch.setattr(speeds, "time_environment", None)
    _, found = measure(make_run(**SIZES), lambda lengths: Work())
    assert found == Speeds(basis=found.basis)


def test_a_run_without_a_model_times_none(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(speeds, "time_model", None)
    assert main(["--algorithm", "random_actions", "--dry_run", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("model      none\n")


def test_random_actions_are_no_utterances_of_the_model_in_a_comparison(make_run):
    runs = {
        name: Run(replace(make_run(**SIZES).config, algorithms={name: ALGORITHMS[name]}))
        for name in ("initial", "random_actions")
    }
    works = {name: _works(run, [f"evaluate {name}"])[f"evaluate {name}"] for name, run in runs.items()}
    assert works["initial"].episodes == works["random_actions"].episodes > 0
    assert works["initial"].sampled > 0 == works["random_actions"].sampled


def test_an_algorithm_may_state_the_work_of_its_evaluation(make_run):
    searches = SimpleNamespace(work=lambda run, lengths: {"evaluate initial": Work("a search")})
    assert works_of(make_run(**SIZES), ["evaluate initial"], [searches], LENGTHS)["evaluate initial"].text == "a search"


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
