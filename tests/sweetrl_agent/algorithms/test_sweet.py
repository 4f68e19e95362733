"""SWEET-RL's stages on files: which turns are sampled, what a critic is asked, what is resumed, and what the actor is trained on."""

from __future__ import annotations

import re
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.files import append_rows, read_rows, write_rows
from colbench_gym.seeds import derive_seed
from colbench_gym.tasks.embedded import embedded_tasks
from sweetrl_agent.algorithms import ranking, sweet
from sweetrl_agent.algorithms.ranking import Candidates, Ranking, State, open_verifier
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.algorithms.sweet import STATES_PER_BATCH, Sweet
from sweetrl_agent.algorithms.sweet_turns import candidates_of, preferences_of, sampled_turns, states_of
from sweetrl_agent.core.episode import Episode, EpisodeKey, Turn
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.core.work import Lengths
from sweetrl_agent.data.pairs import turn_pairs


def _episode(task, index, turns, is_void=False):
    messages = [{"role": "user", "content": f"I need {task}."}]
    for number in range(1, turns + 1):
        messages += [{"role": "assistant", "content": f"{task} {index} asks {number}"}, {"role": "user", "content": "Yes."}]
    outcome = "void" if is_void else "answered"
    return Episode(task, index, messages[:-1], [Turn("x")] * turns, {"outcome": outcome}, 0.0, f"hidden {task}")


EPISODES = [_episode("a", 0, 2), _episode("a", 1, 3, is_void=True), _episode("b", 0, 1), _episode("b", 1, 2)]
ENDS = "I WANT TO ANSWER: a"
STATES = [("a", 0, 1), ("a", 0, 2), ("b", 0, 1), ("b", 1, 1), ("b", 1, 2)]


def _write_scored(run, texts, advantages, **more):
    write_rows(run.path("candidates.jsonl"), [{"task_id": t, "episode": e, "turn": n, "texts": texts} for t, e, n in STATES])
    write_rows(run.path("scores.jsonl"), [{"advantages": advantages, **more} for _ in STATES])


@pytest.fixture
def make(make_run, tiny_model_folder):
    """Function: settings -> a run whose trajectories are `EPISODES`, or others."""

    def run(episodes=EPISODES, **settings):
        made = make_run(
            model=str(tiny_model_folder),
            sft_dialogues=0,
            dtype="float32",
            **{"sweet.num_states": 0, "sweet.num_candidates": 3, **settings},
        )
        write_rows(made.path("trajectories.jsonl"), [t.to_row() for t in episodes])
        return made

    return run


class Says:
    """A policy that says the number of messages and the seed, and thinks before the second turn of an episode if it is one that thinks."""

    def __init__(self, thinks=False):
        self.thinks = thinks

    def generate(self, dialogues, seeds):
        return [
            Utterance(
                f"{len(d)} {seed}", [1] * len(d), thought=f"<think>{seed % 2}</think>" if self.thinks and len(d) == 3 else ""
            )
            for d, seed in zip(dialogues, seeds, strict=True)
        ]


def _addresses(rows):
    return [(row["task_id"], row["episode"], row["turn"]) for row in rows]


@pytest.fixture
def sampled(make, monkeypatch):
    """Function: settings -> a run with candidates, and their rows."""

    def sample(thinks=False, **settings):
        loaded = []
        monkeypatch.setattr(sweet, "load_policy", lambda *given: loaded.append(given) or Says(thinks))
        run = make(**settings)
        sweet.sample_candidates(run)
        assert all(given == (run.initial_model, run.initial_model, run.config.model) for given in loaded)
        return run, read_rows(run.path("candidates.jsonl"))

    return sample


def test_every_turn_has_its_candidates_each_by_a_seed_of_its_own(sampled):
    run, rows = sampled()
    assert _addresses(rows) == STATES
    for row in rows:
        address = (row["task_id"], row["episode"], row["turn"])
        seeds = [derive_seed(run.seed, "candidates", *address, i) for i in range(3)]
        said = 2 * row["turn"] - 1  # messages before the turn
        assert row["texts"] == [f"{said} {seed}" for seed in seeds] and row["num_tokens"] == [said] * 3
        assert "thoughts" not in row


def test_candidates_have_their_thoughts_where_there_are_any(sampled):
    run, rows = sampled(thinks=True)
    for row in rows:
        seeds = [derive_seed(run.seed, "candidates", row["task_id"], row["episode"], row["turn"], i) for i in range(3)]
        assert row.get("thoughts") == ([f"<think>{seed % 2}</think>" for seed in seeds] if row["turn"] == 2 else None)


def test_some_turns_are_drawn_by_the_runs_seed(make):
    run = make([_episode("a", i, 3) for i in range(20)], **{"sweet.num_states": 12})
    drawn = sampled_turns(run, "sweet")
    order = np.random.default_rng(derive_seed(run.seed, "states")).permutation(60)
    assert sorted(order[:12]) == np.flatnonzero(drawn).tolist() and len(drawn) == 60
    assert [(t.index, turn) for t, turn in states_of(run, drawn)] == [(i // 3, i % 3 + 1) for i in sorted(order[:12])]
    assert sampled_turns(make(**{"sweet.num_states": 3}), "sweet").sum() == 3 and sampled_turns(make(), "sweet").all()


def test_a_share_of_the_turns_are_the_last_that_an_episode_may_have(make):
    task = embedded_tasks("train")[0].id
    episodes = [_episode(task, i, 3) if i % 4 else _episode(task, i, 1) for i in range(20)]  # one turn, or all three
    last = np.array([turn == 3 for i in range(20) for turn in ((1, 2, 3) if i % 4 else (1,))])

    def drawn(states, share, max_turns=3, of=episodes):
        return sampled_turns(make(of, max_turns=max_turns, **{"sweet.num_states": states, "sweet.final_share": share}), "sweet")

    assert [(drawn(12, share).sum(), (drawn(12, share) & last).sum()) for share in (0.5, 1.0)] == [(12, 6), (12, 12)]
    assert drawn(45, 1.0).sum() == 45 and drawn(45, 1.0)[last].all()
    assert (drawn(12, 1.0, max_turns=4) == drawn(12, 0.0)).all(), "no episode has so many turns"
    assert len(drawn(5, 0.5, of=[EPISODES[1]])) == 0  # the only episode is void


def test_sampling_resumes_after_the_last_whole_batch(sampled, monkeypatch):
    episodes = [_episode("a", i, 1) for i in range(2 * STATES_PER_BATCH + 5)]
    run, rows = sampled(episodes=episodes)
    assert len(rows) == len(episodes)
    write_rows(run.path("candidates.jsonl"), [{**row, "texts": ["kept"]} for row in rows[: STATES_PER_BATCH + 7]])
    sizes = []
    monkeypatch.setattr(sweet, "append_rows", lambda path, added: sizes.append(len(added)) or append_rows(path, added))
    sweet.sample_candidates(run)
    again = read_rows(run.path("candidates.jsonl"))
    assert [row["texts"] == ["kept"] for row in again] == [True] * STATES_PER_BATCH + [False] * (STATES_PER_BATCH + 5)
    assert again[STATES_PER_BATCH:] == rows[STATES_PER_BATCH:] and sizes == [STATES_PER_BATCH, 5]


class Length:
    """A critic that credits the length of a text; keeps what it is asked."""

    def __init__(self):
        self.asked = []

    def rank(self, messages, hidden, texts):
        self.asked.append((messages, hidden, texts))
        return [float(len(text)) for text in texts]


@pytest.mark.parametrize(("critic", "folder", "uses_hidden"), [("sweet", "", True), ("no_hidden", "no_hidden/", False)])
def test_a_critic_ranks_the_candidates_of_every_turn(critic, folder, uses_hidden, make, monkeypatch):
    judge, opened = Length(), []
    monkeypatch.setattr(ranking, "open_critic", lambda run, name: opened.append(name) or nullcontext(judge))
    run = make(**{"sweet.pairs_per_turn": 5, "sweet.pair_quantile": 0.5})
    texts = ["x", "xxxx", "xx", "xxx"]
    rows = [{"task_id": t, "episode": e, "turn": n, "texts": texts, "num_tokens": [1] * 4} for t, e, n in STATES]
    write_rows(run.path("candidates.jsonl"), rows)
    sweet.rank(run, critic)
    by_key = {(t.task_id, t.index): t for t in EPISODES}
    assert opened == [critic]
    assert judge.asked == [
        (by_key[task, index].prefix(turn), f"hidden {task}" if uses_hidden else "", texts) for task, index, turn in STATES
    ]
    scores = read_rows(run.path(f"{folder}scores.jsonl"))
    assert _addresses(scores) == STATES and all(row["advantages"] == [1.0, 4.0, 2.0, 3.0] for row in scores)
    pairs = read_rows(run.path(f"{folder}turn_pairs.jsonl"))
    assert _addresses(pairs) == [state for state in STATES for _ in range(5)]
    assert {(row["chosen"], row["rejected"]) for row in pairs} == {(a, b) for a in ("xxxx", "xxx") for b in ("x", "xx")}
    assert pairs[0]["prompt"] == by_key["a", 0].prefix(1) and pairs[-1]["prompt"] == by_key["b", 1].prefix(2)
    sweet.rank(run, critic)
    assert len(judge.asked) == len(STATES) and read_rows(run.path(f"{folder}scores.jsonl")) == scores  # nothing is ranked twice


def test_a_critic_is_told_what_was_hidden_at_the_turn_and_of_which_task_it_is(make, monkeypatch):
    asked = []

    @contextmanager
    def open_ranker(run, critic):
        yield Ranking(lambda state, hidden, candidates: asked.append((state, hidden, candidates.cut)) or [0.0] * 2)

    monkeypatch.setattr(sweet, "open_ranker", open_ranker)
    run = make([replace(EPISODES[0], hidden=["one", "two"]), EPISODES[2]])
    rows = [{"task_id": t, "episode": e, "turn": n, "texts": ["x", "y"]} for t, e, n in STATES[:3]]
    write_rows(run.path("candidates.jsonl"), [{**rows[0], "cut": [False, True]}, *rows[1:]])
    sweet.rank(run)
    assert [(state.task_id, hidden) for state, hidden, _ in asked] == [("a", "one"), ("a", "two"), ("b", "hidden b")]
    assert [cut for *_, cut in asked] == [[False, True], [False, False], [False, False]]
    assert [state.seed for state, *_ in asked] == [EpisodeKey(t, e).seed(run.seed, "collect") for t, e, _ in STATES[:3]]


def test_pairs_of_a_turn_are_drawn_by_its_address(make):
    run = make(**{"sweet.pairs_per_turn": 6, "sweet.pair_quantile": 0.25})
    texts, credit = [str(i) for i in range(12)], [float(i) for i in range(12)]
    _write_scored(run, texts, credit)
    rows = list(preferences_of(run, "sweet"))
    for state in STATES:
        rng = np.random.default_rng(derive_seed(run.seed, "pairs", *state))
        drawn = turn_pairs(credit, 6, rng, 0.25)
        assert [(int(r["chosen"]), int(r["rejected"])) for r in rows if _addresses([r]) == [state]] == drawn
    assert {int(row["chosen"]) for row in rows} == {9, 10, 11} and {int(row["rejected"]) for row in rows} == {0, 1, 2}


@pytest.mark.parametrize(
    ("answers", "pairs"),
    [
        ("critic", {("q3", "I WANT TO ANSWER: a")}),
        ("both", {("q3", "I WANT TO ANSWER: a"), ("q3", "q1")}),
        ("apart", {("q3", "q1"), ("I WANT TO ANSWER: b", "I WANT TO ANSWER: a")}),
        ("verifier", {("q3", "q1"), ("I WANT TO ANSWER: a", "I WANT TO ANSWER: b")}),
    ],
)
def test_answers_are_paired_with_questions_or_apart_by_the_critic_or_the_verifier(answers, pairs, make):
    run = make(**{"sweet.pairs_per_turn": 30, "sweet.pair_quantile": 0.25, "sweet.answers": answers})
    texts, credit = ["q1", "q2", "q3", "I WANT TO ANSWER: a", "I WANT TO ANSWER: b"], [0.1, 0.2, 0.3, -2.0, -1.0]
    verified = {"verified": [None, None, None, 1.0, 0.0]} if answers == "verifier" else {}
    _write_scored(run, texts, credit, **verified)
    drawn = {(row["chosen"], row["rejected"]) for row in preferences_of(run, "sweet")}
    assert drawn == pairs


def test_both_draws_the_pairs_of_the_critic_and_others_of_questions(make):
    def drawn(answers):
        run = make(**{"sweet.pairs_per_turn": 4, "sweet.pair_quantile": 0.5, "sweet.answers": answers})
        texts, credit = ["q1", "q2", "q3", "q4", "I WANT TO ANSWER: a", "I WANT TO ANSWER: b"], [0.1, 0.2, 0.3, 0.4, -2.0, -1.0]
        _write_scored(run, texts, credit)
        return [(row["chosen"], row["rejected"]) for row in preferences_of(run, "sweet")]

    both = drawn("both")
    assert [pair for i, pair in enumerate(both) if i % 8 < 4] == drawn("critic")
    assert {text[0] for i, pair in enumerate(both) if i % 8 >= 4 for text in pair} == {"q"}


@pytest.mark.parametrize(("answers", "kept"), [("critic", {"q", ENDS}), ("both", {"q", ENDS}), ("apart", {ENDS})])
def test_of_equal_texts_answers_are_kept_and_questions_only_where_they_stand_with_answers(answers, kept, make):
    run = make(**{"sweet.pairs_per_turn": 30, "sweet.pair_quantile": 0.5, "sweet.answers": answers})
    texts = ["q", "q", ENDS, ENDS]
    _write_scored(run, texts, [0.0] * 4)
    assert {row["chosen"] for row in preferences_of(run, "sweet") if row["chosen"] == row["rejected"]} == kept


def test_the_verifier_grades_the_answers_among_the_candidates(make_run):
    task = embedded_tasks("train")[0]
    run = make_run(tasks="embedded:train[:1]", **{"sweet.answers": "verifier"})
    with closing(run.environment([task], 1)) as envs:
        envs.envs[0].reset(seed=run.seed, options={"task_id": task.id})
        request = list(envs.envs[0].messages)
    marker = run.record.answer_prefix
    texts, state = (
        ["Is there a tax?", marker + task.hidden.reference, marker + "def wrong(): pass"],
        State(task.id, run.seed, request),
    )
    with open_verifier(run) as grade:
        assert grade(state, Candidates(texts, [False] * 3)) == [None, 1.0, 0.0]
        assert grade.costs == {"ranked_turns": 2, "verified_turns": 2} and grade(state, Candidates(texts[:1], [True])) == [None]
        # A cut answer is not graded, as in an episode.
        assert grade(state, Candidates([texts[1]] * 2, [True, False])) == [0.0, 1.0]
    assert run.config.algorithm.requires == {"hidden", "snapshot", "answer_prefix"}


def test_candidates_of_other_trajectories_are_refused(make):
    run = make()
    rows = [{"task_id": t, "episode": e, "turn": n, "texts": ["x"], "num_tokens": [1]} for t, e, n in STATES]
    write_rows(run.path("candidates.jsonl"), rows)
    assert [(t.task_id, t.index, turn, *of_turn) for t, turn, of_turn in candidates_of(run, "sweet")] == [
        (*state, ["x"], [False], ()) for state in STATES
    ]
    write_rows(run.path("candidates.jsonl"), [*rows[:-1], {**rows[-1], "turn": 1}])
    said = f"{run.path('candidates.jsonl')} belongs to other trajectories; remove it to sample again."
    with pytest.raises(ColBenchError, match=f"^{re.escape(said)}$"):
        list(candidates_of(run, "sweet"))


@pytest.mark.parametrize(("critic", "folder"), [("sweet", "policy"), ("no_hidden", "no_hidden/policy")])
def test_the_actor_is_trained_on_the_pairs_of_its_critic(critic, folder, make, tiny_tokenizer, untrained):
    seen = untrained(0.5)
    run = make(
        system_prompt="Be brief.", **{"sweet.actor_beta": 0.3, "sweet.actor_nll": 0.2, "sweet.actor_loss": "sigmoid", "sweet.actor_learning_rate": 3e-5, "sweet.actor_epochs": 3.0,
        "sweet.actor_batch": 6, "sweet.actor_micro_batch": 2, "sweet.actor_max_length": 99},
    )  # fmt: skip
    prompt = [{"role": "user", "content": "I need a."}]
    write_rows(run.artifact(critic, "turn_pairs.jsonl"), [{"prompt": prompt, "chosen": "Round it?", "rejected": "No."}])
    sweet.train_actor(run, critic)
    trainer, args = seen["trainer"], seen["trainer"].args
    (row,) = trainer.train_dataset
    assert tiny_tokenizer.decode(row["prompt_ids"]).startswith("<|system|>Be brief.<|end|><|user|>I need a.<|end|>")
    assert [tiny_tokenizer.decode(row[f"{side}_ids"]).split("<|end|>")[0] for side in ("chosen", "rejected")] == [
        "Round it?",
        "No.",
    ]
    assert (args.beta, args.loss_type, args.loss_weights) == (0.3, ["sigmoid", "sft"], [1.0, 0.2])
    assert (args.learning_rate, args.num_train_epochs, args.max_length) == (3e-5, 3.0, 99)
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps, args.seed) == (2, 3, run.seed)
    assert args.precompute_ref_log_probs is True and args.output_dir == str(run.path(folder) / "checkpoints")
    assert seen["folder"] == run.path(folder) and seen["tokenizer"].get_vocab() == tiny_tokenizer.get_vocab()
    assert seen["tokenizer"] is trainer.processing_class and seen["callbacks"] is run.callbacks
    stage = "actor" if critic == "sweet" else f"actor {critic}"
    assert read_rows(run.path("metrics.jsonl")) == [{"stage": stage, "loss": 0.5}]
    seen = untrained(0.25)
    thoughts = {"chosen_thought": "<think>a</think>", "rejected_thought": ""}
    pair = {"prompt": prompt, "chosen": "Round it?", "rejected": "No.", **thoughts}
    write_rows(run.artifact(critic, "turn_pairs.jsonl"), [pair])
    sweet.train_actor(run, critic)
    (row,) = seen["trainer"].train_dataset
    assert [tiny_tokenizer.decode(row[f"{side}_ids"]).split("<|end|>")[0] for side in ("chosen", "rejected")] == [
        "<think>a</think>Round it?",
        "No.",
    ]
    assert read_rows(run.path("metrics.jsonl")) == [{"stage": stage, "loss": 0.25}]  # those of the last training
    write_rows(run.artifact(critic, "turn_pairs.jsonl"), [{**pair, "rejected_cut": True}])
    seen = untrained(0.25)
    sweet.train_actor(run, critic)
    (row,) = seen["trainer"].train_dataset
    assert [tiny_tokenizer.decode(row[f"{side}_ids"]).endswith("<|end|>") for side in ("chosen", "rejected")] == [True, False]


def test_the_stages_of_a_critic_have_its_name(monkeypatch):
    own, other, judge = (Sweet(name) for name in ("sweet", "no_hidden", "judge"))
    assert list(own.stages) == ["critic", "candidates", "rank", "actor"] and own.folders == ("policy",)
    assert list(other.stages) == ["critic no_hidden", "candidates", "rank no_hidden", "actor no_hidden"]
    assert list(judge.stages) == ["candidates", "rank judge", "actor judge"] and judge.folders == ("judge/policy",)
    assert (own.title, own.name, other.name, other.critic) == (sweet.CRITICS["sweet"].title, "sweet", "no_hidden", "no_hidden")
    assert other.title == f"SWEET-RL, {sweet.CRITICS['no_hidden'].title}"
    assert (
        own.requires == {"hidden"} and other.requires == judge.requires == frozenset()
    )  # a judge reads what is hidden only where something is
    for name, function in (("critic", "train_critic"), ("rank", "rank"), ("actor", "train_actor")):
        stage = other.stages[f"{name} no_hidden"]
        assert stage.func is getattr(sweet, function) and stage.keywords == {"critic": "no_hidden"}
    assert other.stages["candidates"].func is sweet.sample_candidates
    assert other.stages["candidates"].keywords == {"critic": "no_hidden"}


def test_a_setting_shapes_a_stage_of_its_critic_and_candidates_are_shared():
    of = {name: Sweet(name).first_stage for name in ("sweet", "no_hidden")}
    assert [of[name]("num_candidates") for name in of] == ["candidates", "candidates"]
    assert [of[name]("critic_epochs") for name in of] == ["critic", "critic no_hidden"]
    assert [of[name]("pair_quantile") for name in of] == ["rank", "rank no_hidden"]


def test_a_critic_of_ones_own_is_named_with_its_kind():
    kind = replace(sweet.CRITICS["sweet"], title="with mine", train=None, needs=frozenset({"snapshot"}), module="mine")
    own = Sweet("mine", kind)
    assert (own.name, own.title, own.requires, own.module) == ("mine", "SWEET-RL, with mine", {"snapshot"}, "mine")
    assert list(own.stages) == ["candidates", "rank mine", "actor mine"]


def test_the_work_of_a_critic_stands_under_its_stages(make):
    run, lengths = make(), Lengths(turns=6, request=20, agent=10, reply=5, hidden=30, source="assumed")
    for critic in ("sweet", "no_hidden", "judge"):
        algorithm = run.config.algorithms[critic]
        works = algorithm.work(run, lengths)
        assert {*algorithm.stages} <= {*works} <= {*algorithm.stages, f"critic {critic}"}


def test_a_critic_is_trained_where_it_can_be(monkeypatch):
    trained = []
    kind = sweet.CRITICS["no_hidden"]
    monkeypatch.setitem(
        sweet.CRITICS,
        "no_hidden",
        type(kind)(**{**vars(kind), "train": lambda run, name: trained.append((run, name))}),
    )
    run = SimpleNamespace(config=SimpleNamespace(algorithms={}))
    sweet.train_critic(run, "no_hidden")
    assert trained == [(run, "no_hidden")]
    sweet.train_critic(run, "judge")  # needs none


def test_a_plan_says_what_will_be_done(make):
    run = make(**{"sweet.num_states": 40, "sweet.critic_epochs": 2.0, "sweet.critic_learning_rate": 3e-4})
    assert run.algorithm.plan(run) == [
        "critic     paper form, 2 epochs at 0.0003", "actor      40 turns x 3 candidates, sigmoid_norm",
    ]  # fmt: skip
    run = make()
    assert "all turns x 3" in run.algorithm.plan(run)[1]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"sweet.actor_loss": "hinge"}, "`sweet.actor_loss` must be "),
        ({"sweet.actor_batch": 8, "sweet.actor_micro_batch": 3}, "`sweet.actor_batch` must "),
        ({"sweet.form": "other"}, "`sweet.form` must be "),
    ],
)
def test_settings_that_cannot_be_are_refused(given, error):
    with pytest.raises(ValueError, match=f"^{error}"):
        make_config(given)
