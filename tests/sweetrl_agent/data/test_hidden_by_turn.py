"""Hidden information that the environment redraws: every turn has what was hidden when it was taken, from the episode to the critics."""

from __future__ import annotations

import random
from types import SimpleNamespace

import gymnasium as gym
import pytest
import torch
from datasets import Dataset

import colbench_gym.lmrl  # noqa: F401 - registers the games
from colbench_gym.agents.scripted import OracleAgent
from colbench_gym.errors import ColBenchError
from colbench_gym.lmrl.data import episodes
from colbench_gym.lmrl.wordle.rules import reply_text, rules_of
from sweetrl_agent.core.agents import Oracle
from sweetrl_agent.core.critic import Critic, all_advantages
from sweetrl_agent.core.dialogues import TextDialogue, TextDialogues
from sweetrl_agent.core.episode import Episode, EpisodeKey, Turn
from sweetrl_agent.core.hint import HINT
from sweetrl_agent.core.policy import BatchAdapter, Utterance
from sweetrl_agent.critics.credit import FORMS, SUM
from sweetrl_agent.data.chat import Chat, encode_hinted
from sweetrl_agent.data.pairs import hidden_by_turn, outcome_pairs, with_hidden_by_turn
from sweetrl_agent.rollouts.scheduler import Shard
from sweetrl_agent.rollouts.speakers import OracleSampler, PolicySampler
from sweetrl_agent.trainers.critic import SweetCriticConfig, SweetCriticTrainer
from sweetrl_agent.trainers.heads import _collate, encoded_rows, pair_rows
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only

WORDLE = "colbench_gym.lmrl:LMRL-Wordle-v0"


class RandomWords:
    """Guesses any words of the list."""

    words = rules_of("431", "original").words

    def generate(self, dialogues, seeds):
        return [Utterance(random.Random(seed).choice(self.words)) for seed in seeds]


def played(count=12, **arguments):
    """Episodes of Wordle, and the secret of the environment before each step."""
    env = TextDialogues(
        [TextDialogue(gym.make(WORDLE, disable_env_checker=True, **arguments), {str(i): i for i in range(count)}, "return", 0)]
    )
    keys = [EpisodeKey(str(i)) for i in range(count)]
    return Shard(PolicySampler(BatchAdapter(RandomWords())), env, keys, 0, "collect", 1, None).play()


def test_every_turn_of_wordle_has_the_secret_that_its_reply_is_of():
    rules, redrawn = rules_of("431", "original"), 0
    for episode in played():
        replies = [message["content"] for message in episode.messages[2:] if message["role"] == "user"]
        for turn in range(1, len(replies) + 1):
            secret = rules.position(episode.hidden_at(turn).removeprefix("secret: "))
            for earlier in range(1, turn + 1):  # it contradicts no reply so far
                guess = rules.position(episode.turns[earlier - 1].text)
                assert reply_text(rules.replies(guess)[secret], "") + "\n" == replies[earlier - 1]
        assert isinstance(episode.hidden, str) or len(episode.hidden) == len(episode.turns)
        redrawn += isinstance(episode.hidden, list)
        assert Episode.from_row(episode.to_row()) == episode
    assert redrawn > 6


def test_where_nothing_is_redrawn_an_episode_has_one_text():
    assert all(isinstance(episode.hidden, str) and episode.hidden for episode in played(4, redraws=False))


def test_behaviour_data_have_it_too():
    rows = [Episode.from_row(row) for row in episodes("LMRL-Wordle-v0", 8)]
    assert any(isinstance(row.hidden, list) for row in rows)
    assert all(isinstance(Episode.from_row(row).hidden, str) for row in episodes("LMRL-GuessCity-v0", 2))


@pytest.mark.parametrize("hidden", [["a"], ["a", "b", "c"], ["a", 7], {"a": 1}])
def test_a_row_with_another_number_of_texts_than_turns_is_refused(hidden):
    row = Episode("a", 0, dialogue("?", "x", "no", "y"), [Turn("x"), Turn("y")], {"outcome": "ended"}, 0.0).to_row()
    with pytest.raises(
        ColBenchError, match="Expected a trajectory row of schema 3, got one with a field missing or of another type"
    ):
        Episode.from_row({**row, "hidden_information": hidden})


@pytest.mark.parametrize("turns", [[None], ["x"], [[]], None, "x", {"a": 1}, [{}]])
def test_turns_that_are_no_objects_are_refused(turns):
    row = Episode("a", 0, dialogue("?", "x"), [Turn("x")], {"outcome": "ended"}, 0.0).to_row()
    with pytest.raises(ColBenchError, match="got one with a field missing or of another type"):
        Episode.from_row({**row, "turns": turns})


def dialogue(*texts):
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


GOOD, BAD = (
    dialogue("Guess.", "slate", "b y g b b", "crane", "g g g g g", "done"),
    dialogue("Guess.", "adieu", "b b b b b", "zesty"),
)
ROW = {
    "task_id": "0",
    "hidden": {"chosen": ["one", "two", "three"], "rejected": ["four", "five"]},
    "chosen": GOOD,
    "rejected": BAD,
}
SAME = {**ROW, "hidden": {"chosen": ["one"] * 3, "rejected": ["one"] * 2}}
SHARED = {**ROW, "hidden": "one"}


def test_a_pair_has_what_was_hidden_in_each_dialogue():
    made = [
        Episode("0", i, said, [], {"outcome": "ended", "return": i}, 0.0, hidden)
        for i, (said, hidden) in enumerate([(BAD, ["four", "five"]), (GOOD, ["one", "two", "three"])])
    ]
    (row,) = outcome_pairs(made, -10, metric="return")
    assert row["hidden"] == ROW["hidden"]
    assert hidden_by_turn(row, "rejected") == ["four", "five"] and hidden_by_turn(SHARED, "chosen") == ["one"]
    assert [type(with_hidden_by_turn(each)["hidden"]) for each in (row, SHARED)] == [dict, dict]


class Told(Critic):
    """Notes what it is told."""

    def __init__(self):
        self.seen = []

    def rank(self, messages, hidden, texts):
        self.seen.append((len(messages), hidden))
        return [float(len(hidden))] * len(texts)


def test_a_critic_of_ones_own_is_told_what_was_hidden_at_each_turn():
    critic = Told()
    assert all_advantages(critic, GOOD, ["a", "bb", "ccc"]) == [1.0, 2.0, 3.0]
    assert {(1, "a"), (3, "bb"), (5, "ccc")} <= {*critic.seen} and (1, "ccc") in critic.seen
    assert all_advantages(Told(), GOOD, "dd") == [2.0, 2.0, 2.0]


def test_each_turn_is_encoded_behind_its_own_hint(tiny_tokenizer):
    parts = encode_hinted(GOOD, ["one", "two", "three"], "Play.", "secret", Chat(tiny_tokenizer))
    for number, (part, hidden) in enumerate(zip(parts, ("one", "two", "three"), strict=True), 1):
        text = tiny_tokenizer.decode(part.token_ids)
        assert text.startswith(f"<|system|>Play.\n\n{HINT.format(what='secret', hidden=hidden)}<|end|>")
        assert set(part.turn_ids) == {0, 1}
        own = [token for token, turn in zip(part.token_ids, part.turn_ids, strict=True) if turn]
        assert GOOD[2 * number - 1]["content"] in tiny_tokenizer.decode(own)


def trainer_of(rows, tiny_tokenizer, make_tiny_model, folder, form):
    made = SweetCriticTrainer(
        model=make_tiny_model(1), ref_model=make_tiny_model(2), train_dataset=Dataset.from_list([with_hidden_by_turn(row) for row in rows]),
        processing_class=tiny_tokenizer,
        args=SweetCriticConfig(output_dir=str(folder), use_cpu=True, bf16=False, report_to=[], beta=0.7, nll_coef=0.01, form=form),
    )  # fmt: skip
    score_labelled_tokens_only(made)
    return made


def loss_of(trainer):
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(len(trainer.train_dataset))])
    return trainer.compute_loss(trainer.model, batch)


def token_log_probs(model, ids):
    with torch.no_grad():
        log_probs = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), dim=-1)
    return [0.0] + [float(log_probs[i, ids[i + 1]]) for i in range(len(ids) - 1)]


@pytest.mark.parametrize("form", [*FORMS, SUM])
def test_the_loss_of_a_critic_is_that_of_a_slow_loop_over_turns(form, tiny_tokenizer, make_tiny_model, tmp_path):
    trainer = trainer_of([ROW, SHARED], tiny_tokenizer, make_tiny_model, tmp_path, form)
    model, reference = make_tiny_model(1).double(), make_tiny_model(2).double()
    losses, nlls = [], []
    for row in (ROW, SHARED):
        score = {}
        for side in ("chosen", "rejected"):
            turns = []
            for part in encode_hinted(row[side], hidden_by_turn(row, side), "", "answer", Chat(tiny_tokenizer)):
                own, theirs = token_log_probs(model, part.token_ids), token_log_probs(reference, part.token_ids)
                for turn in range(1, max(part.turn_ids) + 1):
                    places = [i for i, each in enumerate(part.turn_ids) if each == turn]
                    turns.append([own[i] - theirs[i] for i in places])
                    nlls += [-own[i] for i in places] if side == "chosen" else []
            flat = [ratio for turn in turns for ratio in turn]
            score[side] = (
                sum(sum(turn) / len(turn) for turn in turns)
                if form == "paper"
                else sum(flat)
                if form == SUM
                else sum(flat) / len(flat)
            )
        losses.append(
            -torch.nn.functional.logsigmoid(
                torch.tensor(0.7 * (score["chosen"] - score["rejected"]), dtype=torch.float64)
            ).item()
        )
    expected = sum(losses) / 2 + 0.01 * sum(nlls) / len(nlls)
    assert loss_of(trainer).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_text_at_every_turn_is_one_text_for_all(form, tiny_tokenizer, make_tiny_model, tmp_path):
    one, other = (
        loss_of(trainer_of([row], tiny_tokenizer, make_tiny_model, tmp_path / name, form)).item()
        for name, row in (("a", SAME), ("b", SHARED))
    )
    assert one == pytest.approx(other, rel=1e-6)


def test_reference_log_probabilities_are_precomputed_for_every_part(tiny_tokenizer, make_tiny_model, tmp_path):
    trainer = trainer_of([ROW, SHARED], tiny_tokenizer, make_tiny_model, tmp_path, "paper")
    expected = loss_of(trainer).item()
    trainer.args.output_dir = str(tmp_path / "rows")
    trainer.train_dataset = trainer._precompute_ref_logps(trainer.train_dataset, "train", 2)
    sides = trainer.train_dataset[0]
    assert [len(sides[f"{side}_reference"]) for side in ("chosen", "rejected")] == [
        sum(sides[f"{side}_turn_ids"]) for side in ("chosen", "rejected")
    ]
    trainer.ref_model = None
    assert loss_of(trainer).item() == pytest.approx(expected, rel=1e-6)


def test_critics_with_a_head_read_turns_likewise(tiny_tokenizer):
    (row,) = encoded_rows(pair_rows([ROW]), Chat(tiny_tokenizer), "", 512)
    batch = _collate([row, *encoded_rows(pair_rows([SHARED]), Chat(tiny_tokenizer), "", 512)])
    assert batch["parts"].tolist() == [0, 0, 0, 1, 2, 2, 3]
    assert [part["side"] for part in row["sides"]] == [0, 0, 0, 1, 1]
    each = list(
        encoded_rows([[{"messages": GOOD, "hidden": ["one", "two", "three"], "success": 1}]], Chat(tiny_tokenizer), "", 512)
    )
    assert len(each) == 3 and all(len(part["sides"]) == 1 and max(part["sides"][0]["turn_ids"]) == 1 for part in each)
    whole = Chat(tiny_tokenizer).sequences(GOOD)[0]
    assert sum(sum(part["sides"][0]["turn_ids"]) for part in each) == sum(map(bool, whole.turn_ids))


def test_the_oracle_hands_in_the_reference_and_not_the_text_for_critics():
    env, speaker = (
        SimpleNamespace(messages=[], hidden_information="prose", reference="def f(x): ..."),
        OracleSampler(Oracle(OracleAgent())),
    )
    speaker.ask(0, env, 1)
    assert speaker.step()[0][1].text == "I WANT TO ANSWER:\ndef f(x): ..."


def test_an_oracle_without_a_reference_is_refused_in_one_sentence():
    env = SimpleNamespace(messages=[], hidden_information="x")
    with pytest.raises(
        ValueError,
        match=r"^This oracle hands in the environment's `reference`, and the environment has no such attribute\.$",
    ):
        OracleSampler(Oracle(OracleAgent())).ask(0, env, 1)
