"""The information gain: which tokens of a reference count, the critic against naive passes, and what its gains say on embedded tasks."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import torch
from tokenizers import normalizers

from colbench_gym.errors import ColBenchError
from colbench_gym.files import write_rows
from colbench_gym.tasks.embedded import embedded_tasks, one_wish_apart
from sweetrl_agent.algorithms import critics, sweet
from sweetrl_agent.algorithms.critics import CRITICS, open_critic, open_gain
from sweetrl_agent.algorithms.ranking import Candidates, State, open_ranker
from sweetrl_agent.algorithms.registry import refuse_missing
from sweetrl_agent.config.pipeline import NOISE_LEVEL, stages_of
from sweetrl_agent.core.critic import Reply
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.critics import gain
from sweetrl_agent.critics.gain import ENDING, GainCritic, Targets, differing_places, noise_level
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.evaluation import comparison_job, main_job
from sweetrl_agent.rollouts.collection import NothingToLearnError
from sweetrl_agent.rollouts.replies import replies_at
from tests.sweetrl_agent.families import FAMILIES, build_tokenizer

MARKER = "I WANT TO ANSWER:\n"
REFERENCE = "def total(prices):\n    return round(sum(prices), 2)"
OTHERS = [
    "def total(prices):\n    return sum(prices)",
    "def total(prices):\n    if not prices:\n        return 0\n    return round(sum(prices), 2)",
]
DIALOGUE = [{"role": "user", "content": "I need the total of my prices."}]
TEXTS, REPLIES = ["Round it?", "Empty list?", "Round it?"], ["To two decimals.", "Return nothing.", "To two decimals."]


@pytest.fixture
def make_critic(make_tiny_model, tiny_tokenizer):
    """Function: settings -> the critic of a random model."""

    def make(rule="sum", threshold=0.0, instructions="", alternatives=None):
        return GainCritic(
            make_tiny_model(1), Targets(Chat(tiny_tokenizer), MARKER, alternatives), instructions, rule, threshold
        )

    return make


def _naive(critic, messages):
    """Log-probabilities of the reference's tokens by a plain pass over the dialogue."""
    chat, target = critic.targets.chat, critic.targets(REFERENCE)
    ids = chat.prompt(messages) + target.token_ids
    with torch.no_grad():
        log_probs = torch.log_softmax(critic.model(torch.tensor([ids])).logits[0].double(), dim=-1)
    start = len(ids) - len(target.token_ids)
    return torch.tensor([log_probs[start + i - 1, ids[start + i]] for i in target.counted])


def _asked(text, reply):
    return [*DIALOGUE, {"role": "assistant", "content": text}, {"role": "user", "content": reply}]


def test_neither_the_marker_nor_the_end_of_a_turn_counts(tiny_tokenizer):
    target = Targets(Chat(tiny_tokenizer), MARKER)(REFERENCE)
    assert tiny_tokenizer.decode([target.token_ids[i] for i in target.counted]) == REFERENCE
    assert tiny_tokenizer.decode(target.token_ids) == MARKER + REFERENCE + "<|end|>" and target.text == MARKER + REFERENCE
    assert Targets(Chat(tiny_tokenizer), MARKER)("").counted == [] and target.mean([-1.0] * len(target.token_ids)) == -1.0


@pytest.mark.parametrize("family", ["qwen-2.5", "llama-2", "mistral-v1"])
def test_a_reference_that_the_tokenizer_changes_counts_without_marker_and_end(family):
    tokenizer = build_tokenizer(FAMILIES[family])
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    reference = "return 'cafe\u0301'"
    target = Targets(Chat(tokenizer), MARKER)(reference)
    counted = tokenizer.decode([target.token_ids[i] for i in target.counted])
    assert target.counted and "caf\u00e9" in counted and MARKER.strip() not in counted
    assert target.token_ids[-1] not in {target.token_ids[i] for i in target.counted}


def test_on_request_only_what_differs_from_the_alternatives_counts(tiny_tokenizer):
    assert differing_places([1, 2, 3, 4], [[1, 9, 3, 4], [1, 2, 3, 5, 4], [1, 2, 3, 4, 5]]) == [1, 3]
    assert differing_places([1, 2, 3], [[3]]) == [0, 1] and differing_places([1], [[1]]) == []
    targets = Targets(Chat(tiny_tokenizer), MARKER, lambda reference: OTHERS)
    counted = [tiny_tokenizer.decode([targets(REFERENCE).token_ids[i]]) for i in targets(REFERENCE).counted]
    assert 0 < len(counted) < len(Targets(Chat(tiny_tokenizer), MARKER)(REFERENCE).counted) and "def total" not in "".join(
        counted
    )
    same = Targets(Chat(tiny_tokenizer), MARKER, lambda reference: [reference])
    assert same(REFERENCE).counted == Targets(Chat(tiny_tokenizer), MARKER)(REFERENCE).counted


def test_alternatives_of_an_embedded_task_differ_in_one_wish(make_run):
    run, task = make_run(), embedded_tasks("train")[0]
    others = run.record.alternatives(task.hidden.reference, run.train)
    assert others == one_wish_apart(task) and task.hidden.reference not in others and len({*others}) == len(others) > 2
    assert run.record.alternatives("def f(): pass", run.train) == ()


@pytest.mark.parametrize("pass_tokens", [1, 100, 2048])
@pytest.mark.parametrize("instructions", ["", "You write functions."])
def test_rank_is_the_gain_of_a_plain_pass(make_critic, monkeypatch, pass_tokens, instructions):
    monkeypatch.setattr(gain, "PASS_TOKENS", pass_tokens)
    critic = make_critic(instructions=instructions)
    leading = [{"role": "system", "content": instructions}] if instructions else []
    before = _naive(critic, [*leading, *DIALOGUE])
    gains = [_naive(critic, [*leading, *_asked(*pair)]) - before for pair in zip(TEXTS, REPLIES, strict=True)]
    assert critic.rank(DIALOGUE, REFERENCE, TEXTS, REPLIES) == pytest.approx(
        [float(values.sum()) for values in gains], abs=1e-3
    )
    if pass_tokens > 1 or instructions:
        return
    largest = [float(values.max()) for values in gains]
    assert make_critic("largest").rank(DIALOGUE, REFERENCE, TEXTS, REPLIES) == pytest.approx(largest, abs=1e-4)
    noise = sum(sorted({*largest})[-2:]) / 2
    assert make_critic("largest", noise).rank(DIALOGUE, REFERENCE, TEXTS, REPLIES) == [
        float(value > noise) for value in largest
    ]


def test_a_model_without_packed_rows_gives_the_same_scores(make_critic, monkeypatch):
    scores = make_critic().rank(DIALOGUE, REFERENCE, TEXTS, REPLIES)
    monkeypatch.setattr("sweetrl_agent.critics.advantage.can_use_slots", lambda model: False)
    assert make_critic().rank(DIALOGUE, REFERENCE, TEXTS, REPLIES) == pytest.approx(scores, abs=1e-3)


def test_a_success_is_above_all_gains_and_a_failure_below(make_critic):
    ended = [Reply.of("", 1.0, True), Reply.of("", 0.3, False), Reply.of("", 0.1, False), ""]
    texts = ["right", "nearly", "wrong", "unknown"]
    scores = make_critic().rank(DIALOGUE, REFERENCE, [*texts, TEXTS[0]], [*ended, REPLIES[0]])
    assert scores[:4] == [ENDING + 1, -ENDING + 0.3, -ENDING + 0.1, 0.0] and -ENDING < scores[4] < ENDING
    assert make_critic().rank(DIALOGUE, REFERENCE, texts, ended) == scores[:4]
    assert make_critic().rank(DIALOGUE, "", TEXTS, REPLIES) == [0.0] * 3


@pytest.mark.parametrize("ends", [True, False])
def test_the_gains_of_a_dialogue_telescope_and_equal_those_of_its_turns(make_critic, ends):
    critic = make_critic()
    whole = [*_asked(TEXTS[0], REPLIES[0]), *_asked(TEXTS[1], REPLIES[1])[1:]]
    first = critic.rank(DIALOGUE, REFERENCE, TEXTS[:1], REPLIES[:1])
    second = critic.rank(whole[:3], REFERENCE, TEXTS[1:2], REPLIES[1:2])
    dialogue = [*whole, {"role": "assistant", "content": MARKER + "None"}] if ends else whole
    gains = critic.dialogue_advantages(dialogue, REFERENCE)
    assert gains == pytest.approx([*first, *second, *([0.0] if ends else [])], abs=1e-3)
    assert sum(gains) == pytest.approx(float((_naive(critic, whole) - _naive(critic, DIALOGUE)).sum()), abs=1e-3)
    assert critic.dialogue_advantages(DIALOGUE, REFERENCE) == []


def test_a_reply_that_adds_nothing_to_read_has_no_gain_that_depends_on_the_order(make_critic):
    scores = make_critic().rank(DIALOGUE, REFERENCE, TEXTS, REPLIES)
    assert scores[0] == scores[2] != scores[1]
    assert make_critic().rank(DIALOGUE, REFERENCE, TEXTS[::-1], REPLIES[::-1]) == pytest.approx(scores[::-1], abs=1e-3)


@pytest.fixture
def packaged(make_run):
    """A run that starts from the packaged policy, and twelve of its tasks with a useful and a useless question each, and the replies."""
    run = make_run(sft_dialogues=0, model="sweetrl_agent/models/initial", tasks="embedded:train[:12]", dtype="float32")
    cases = []
    with closing(run.environment(run.train, 1)) as envs:
        for task in run.train:
            texts = [
                next(f.phrases[0] for f in task.hidden.facts if f.is_special == is_special) for is_special in (True, False)
            ]
            messages = [{"role": "user", "content": task.description}]
            cases.append((task, messages, texts, replies_at(envs.envs[0], task.id, run.seed, messages, (), texts)))
    return run, cases


def test_on_embedded_tasks_gains_prefer_useful_questions_and_those_of_other_references_do_not(packaged):
    run, cases = packaged
    margins = {}
    with open_critic(run, "gain") as critic, open_critic(run, "untrained") as untrained:
        for shift in (0, 1, 5):
            hidden = [cases[(i + shift) % len(cases)][0].hidden.reference for i in range(len(cases))]
            margins[shift] = [
                np.subtract(*critic.rank(messages, reference, texts, replies))
                for (_, messages, texts, replies), reference in zip(cases, hidden, strict=True)
            ]
        hinted = [np.subtract(*untrained.rank(messages, task.hidden.reference, texts)) for task, messages, texts, _ in cases]
    accuracy = {shift: np.mean(np.array(values) > 0) for shift, values in margins.items()}
    assert accuracy[0] >= 0.9 and accuracy[0] >= np.mean(np.array(hinted) > 0)
    assert abs(np.mean([*margins[1], *margins[5]] > np.zeros(24)) - 0.5) < 0.25  # 24 pairs: 2.4 standard errors


def test_the_environment_grades_the_answers(packaged):
    run, cases = packaged
    task, messages, (useful, _), _ = cases[0]
    texts = [MARKER + task.hidden.reference, useful, MARKER + "def wrong(): pass"]
    with open_ranker(run, "gain") as rank:
        state = State(task.id, run.seed, messages)
        right, asked, wrong = rank(state, task.hidden.reference, Candidates(texts, [False] * 3))
        assert (rank.costs["ranked_turns"], rank.costs["verified_turns"]) == (3, 2) and rank.costs["scored_tokens"] > 0
        (cut,) = rank(state, task.hidden.reference, Candidates(texts[:1], [True]))
    with open_ranker(run, "untrained") as rank:
        rank(state, task.hidden.reference, Candidates(texts, [False] * 3))
        assert {*rank.taken_costs()} == {"scored_tokens"} and not rank.costs
    assert cut == wrong  # an answer that the limit of tokens cut is not graded
    assert right > ENDING > asked > 0 > -ENDING + 1 > wrong


def test_it_can_read_with_the_model_before_sft(make_run, tiny_model_folder, make_tiny_model):
    run = make_run(
        model=str(tiny_model_folder), sft_dialogues=8, critic="gain", dtype="float32", **{"sweet.gain_model": "pretrained"}
    )
    assert run.initial_model != str(tiny_model_folder)
    with open_critic(run, "gain") as critic:
        weights = [model.get_input_embeddings().weight for model in (critic.model, make_tiny_model())]
    assert torch.equal(*weights)
    with pytest.raises(
        ValueError, match="^`gain.gain_model` 'pretrained' is for a pretrained `model`, got 'tiny'; leave it out.$"
    ):
        main_job.parse(["--critic", "gain", "--sweet.gain_model", "pretrained"])


def test_what_is_hidden_cannot_be_taken_from_it():
    error = (
        "^The critic 'gain' scores nothing but what is hidden: leave `critic_hidden` out, or give `--gain.critic_hidden true`.$"
    )
    with pytest.raises(ValueError, match=error):
        main_job.parse(["--critic", "gain", "--sweet.critic_hidden", "false"])


def test_it_is_a_critic_by_name_with_settings():
    assert CRITICS["gain"].needs == {"hidden", "snapshot"} and CRITICS["gain"].has_replies
    config = main_job.parse(["--critic", "gain", "--sweet.gain_tokens", "differing", "--env", "ColBench-Frontend-v0"])
    with pytest.raises(
        ValueError, match="^`gain.gain_tokens` of 'gain' requires an environment with alternatives to what is hidden"
    ):
        refuse_missing([config.algorithm], config.record.capabilities(config), "there")
    embedded = main_job.parse(["--critic", "gain", "--sweet.gain_tokens", "differing"])
    refuse_missing([embedded.algorithm], embedded.record.capabilities(embedded), "there")
    for setting in ("gain_rule", "gain_tokens"):
        with pytest.raises(ValueError, match=f"`sweet.{setting}` must be one of"):
            comparison_job.parse([f"--sweet.{setting}", "x"])
    with pytest.raises(ValueError, match="`sweet.gain_threshold` must be at least 0, got -1.0."):
        comparison_job.parse(["--sweet.gain_threshold", "-1.0"])


def _recorded(task, *replies):
    said = [message for reply in replies for message in _asked("Round it?", reply)[1:]]
    turns = [Turn("Round it?") for _ in replies]
    return Episode(
        task,
        0,
        [*DIALOGUE, *said, {"role": "assistant", "content": "end"}],
        [*turns, Turn("end")],
        {"outcome": "ended"},
        0.0,
        f"of {task}",
    )


def test_the_noise_level_is_a_quantile_of_the_gains_by_replies_of_other_tasks():
    class Counts:
        def __init__(self):
            self.asked = []

        def gain(self, messages, hidden, text, reply):
            self.asked.append((len(messages), hidden, text, reply))
            return float(len(self.asked))

    episodes = [_recorded("a", "a1", "a2"), _recorded("b", "b1"), _recorded("c")]
    critic = Counts()
    assert noise_level(critic, episodes, 1.0, seed=0) == 3.0
    assert sorted((length, hidden) for length, hidden, *_ in critic.asked) == [(1, "of a"), (1, "of b"), (3, "of a")]
    assert all(reply[0] != hidden[-1] and text == "Round it?" for _, hidden, text, reply in critic.asked)
    again = Counts()
    assert noise_level(again, episodes, 0.5, seed=0) == 2.0 and again.asked == critic.asked
    assert noise_level(Counts(), episodes, 0.5, seed=0, count=1) == 1.0
    for few, advice in (
        ([episodes[0], _recorded("c")], "the initial policy asks nothing in the dialogues of 2 tasks"),
        ([episodes[0]], "collect dialogues"),
    ):
        with pytest.raises(ColBenchError, match=f"no two tasks have dialogues with replies: {advice}"):
            noise_level(critic, few, 0.5, seed=0)


def test_without_a_noise_level_there_is_nothing_to_learn(make_run, tiny_model_folder):
    """All dialogues are answered at once: in a comparison, the policy stays as it is."""
    settings = {"sweet.gain_noise": 0.9, "sweet.num_states": 0}
    run = make_run(algorithm="gain", model=str(tiny_model_folder), sft_dialogues=0, **settings)
    messages = [{"role": "user", "content": "A total."}, {"role": "assistant", "content": "I WANT TO ANSWER:\nx"}]
    played = [
        Episode(task.id, 0, messages, [Turn(messages[1]["content"])], {"outcome": "wrong"}, 0.0, "x") for task in run.train[:2]
    ]
    write_rows(run.path("trajectories.jsonl"), [episode.to_row() for episode in played])
    texts = {"turn": 1, "texts": [messages[1]["content"]] * 2, "num_tokens": [1, 1]}
    write_rows(run.path("candidates.jsonl"), [{"task_id": episode.task_id, "episode": 0, **texts} for episode in played])
    with pytest.raises(NothingToLearnError, match="the initial policy asks nothing in the dialogues of 2 tasks"):
        sweet.rank(run, "gain")


def test_the_noise_level_of_a_run_is_measured_once(make_run, tiny_model_folder, monkeypatch):
    run = make_run(algorithm="gain", model=str(tiny_model_folder), sft_dialogues=0, **{"sweet.gain_noise": 0.9})
    first, second = run.train[:2]
    write_rows(run.path("trajectories.jsonl"), [_recorded(first.id, "x").to_row(), _recorded(second.id, "y").to_row()])
    assert (NOISE_LEVEL, f"gain/{NOISE_LEVEL}") == (
        run.artifact("gain", NOISE_LEVEL).name,
        stages_of(run.algorithm)["rank gain"].writes[0],
    )
    with open_gain(run, "gain") as critic:
        level = critic.threshold
    assert level >= 1e-3 and not run.artifact("gain", NOISE_LEVEL).exists()  # the stage alone writes it
    critics.keep_noise_level(run, "gain")
    monkeypatch.setattr(critics, "noise_level", lambda *arguments: pytest.fail("measured again"))
    critics.keep_noise_level(run, "gain")
    with open_gain(run, "gain") as critic:
        assert critic.threshold == level
    with open_gain(run, "gain", in_nats=True) as critic:
        assert critic.threshold == 0.0
    run.artifact("gain", NOISE_LEVEL).unlink()
    with pytest.raises(pytest.fail.Exception), open_gain(run, "gain"):
        pass


def test_another_critic_does_not_take_the_noise_level_of_other_settings(make_run, tiny_model_folder, monkeypatch):
    run = make_run(model=str(tiny_model_folder), sft_dialogues=0, **{"sweet.gain_noise": 0.9})
    write_rows(run.path("trajectories.jsonl"), [])
    run.path("gain").mkdir()
    run.artifact("gain", NOISE_LEVEL).write_text('{"nats": 7.0}')
    monkeypatch.setattr(critics, "noise_level", lambda *arguments: 2.0)
    with open_gain(run, "gain") as critic:
        assert critic.threshold == 2.0


def test_a_stated_noise_level_and_a_critic_without_one_are_not_measured(make_run, tiny_model_folder):
    for name, settings in (("gain", {"sweet.gain_threshold": 2.0}), ("untrained", {"sweet.gain_noise": 0.9})):
        run = make_run(algorithm=name, model=str(tiny_model_folder), sft_dialogues=0, **settings)
        critics.keep_noise_level(run, name)
        assert not run.artifact(name, NOISE_LEVEL).exists()


def test_one_collected_task_is_refused_before_the_run(make_run):
    run = make_run(algorithm="gain", num_tasks=1, **{"sweet.gain_noise": 0.9})
    assert len(run.train) > 1
    with pytest.raises(ValueError, match="`gain_noise` is measured on replies of other tasks, and there is one"):
        run.algorithm.plan(run)


def test_a_gain_beyond_the_noise_level_counts_whole(make_critic):
    critic = make_critic()
    raw = critic.rank(DIALOGUE, REFERENCE, TEXTS, REPLIES)
    assert critic.gain(DIALOGUE, REFERENCE, TEXTS[0], REPLIES[0]) == pytest.approx(raw[0], abs=1e-4)
    assert noise_level(critic, [_recorded("a", "x"), _recorded("b", "y")], 0.0, 0) == pytest.approx(
        max(min(critic.gain(DIALOGUE, f"of {task}", "Round it?", reply) for task, reply in (("a", "y"), ("b", "x"))), 1e-3),
        abs=1e-4,
    )
