"""ArCHer: Bellman's solution on a chain, fresh actions by a spy, losses against slow loops and the original's, and that it learns and resumes."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.archer import Archer, ArcherConfig, critic_loss
from sweetrl_agent.core.batch import ActionTokens, Batch
from sweetrl_agent.core.episode import Turn
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.core.replay import Replay
from sweetrl_agent.critics.utterance_reader import UtteranceReader
from sweetrl_agent.critics.utterance_values import SlowlyFollowed, UtteranceValues
from sweetrl_agent.evaluation import comparison_job

from ..core.toys import chain_episode
from .originals import original_functions

END, GAMMA, RIGHT = 3, 0.9, 0.7
GAME = {
    "archer.tasks": 12, "archer.actor_states": 32, "archer.critic_states": 64, "archer.critic_steps": 30, "archer.critic_batch": 32,
    "archer.learning_rate": 1e-2, "archer.critic_rate": 3e-3, "archer.warm_up": 1, "archer.actor_steps": 2,
}  # fmt: skip
SMALL = {**GAME, "archer.tasks": 4, "archer.actor_states": 8, "archer.critic_states": 16, "archer.critic_steps": 4}
SOURCE = ("ARCHER_SOURCE", "archer/algorithms/archer/trainer.py")


class OneHot:
    """An encoder of sequences of one token."""

    width = 8

    def __init__(self):
        self.rows, self.tokens_read = [], 0

    def prepare(self, rows):
        pass

    def __call__(self, rows):
        self.rows += [tuple(row) for row in rows]
        return torch.nn.functional.one_hot(torch.tensor([row[0] for row in rows]), self.width).float()


class Walk(UtteranceReader):
    """Tokens of `chain_episode`: the place, and 4, 5 or 6 for what was said."""

    def __init__(self):
        self.history = -1

    def state(self, observation):
        return [int(observation[-1]["content"])]

    def action(self, said):
        return [4 + ("stay", "right", "jump").index(said.text)]


def _on_a_chain(encoder=OneHot, **settings):
    """The algorithm with a critic of the chain, and a replay of another policy."""
    algorithm = Archer(ArcherConfig(gamma=GAMMA, critic_rate=3e-3, **settings))
    torch.manual_seed(0)
    algorithm.values = UtteranceValues(encoder(), 32)
    algorithm.double = SlowlyFollowed(algorithm.values, 3e-3, algorithm.config.polyak)
    algorithm.reader, algorithm._costs = Walk(), Counter()
    replay, rng = Replay(400), np.random.default_rng(0)
    replay.add(chain_episode(i, END, 0.4, rng) for i in range(100))
    return algorithm, replay


def _saying(text_of):
    return lambda dialogues, seeds: [Utterance(text_of(), [0], [-1.0]) for _ in dialogues]


def test_on_the_data_of_another_policy_q_and_v_are_bellmans_solution_of_the_current_one():
    algorithm, replay = _on_a_chain(critic_states=256, critic_steps=80, critic_batch=64)
    rng = np.random.default_rng(1)
    sample = _saying(lambda: "right" if rng.random() < RIGHT else "stay")
    for iteration in range(10):
        algorithm.update_critic(Batch([], replay=replay, sample=sample, iteration=iteration))
    exact_v = np.linalg.solve(
        np.eye(END) - GAMMA * ((1 - RIGHT) * np.eye(END) + RIGHT * np.eye(END, k=1)), RIGHT * np.eye(END)[-1]
    )
    exact_q = [[GAMMA * exact_v[i], GAMMA * exact_v[i + 1] if i + 1 < END else 1.0] for i in range(END)]
    values, places = algorithm.values, [[i] for i in range(END)]
    with torch.no_grad():
        states = values.embed(places)
        q = torch.stack([values.q_values(states, values.embed([[action]] * END)) for action in (4, 5)], dim=2)
        v = values.v_values(states)
    assert np.abs(q.numpy() - np.array(exact_q)).max() < 0.05 and np.abs(v.numpy() - exact_v).max() < 0.05
    advantages = np.array([values.advantages(places, [[action]] * END) for action in (4, 5)]).T
    assert np.abs(advantages - (np.array(exact_q) - exact_v[:, None])).max() < 0.06


def test_v_learns_from_fresh_actions_of_the_current_policy_alone():
    """A spy of a policy says what is never in the data. Only the target reads it, and never the data's actions."""
    algorithm, replay = _on_a_chain(critic_states=64, critic_steps=3, critic_batch=32)
    online, slow, heard = OneHot(), OneHot(), []
    algorithm.values.encoder, algorithm.double.target.encoder = online, slow

    def sample(dialogues, seeds):
        heard.extend(dialogues)
        return [Utterance("jump", [0], [-1.0]) for _ in dialogues]

    algorithm.update_critic(Batch([], replay=replay, sample=sample))
    drawn = replay.sample(64, algorithm._seed(Batch([]), "critic"))
    assert heard == [t.observation for t in drawn]
    assert {row[0] for row in slow.rows if row[0] > END} == {6} and {row[0] for row in online.rows if row[0] > END} == {4, 5}


def test_the_critics_loss_is_that_of_a_slow_loop_and_its_targets_have_no_gradient():
    generator = torch.Generator().manual_seed(0)
    q, v, next_v, fresh_q = torch.randn(4, 2, 5, generator=generator, dtype=torch.float64)
    rewards, is_last = torch.randn(5, generator=generator, dtype=torch.float64), torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0])
    expected = 0.0
    for k in range(2):
        for i in range(5):
            ahead = 0.0 if is_last[i] else GAMMA * next_v[k, i]
            expected += ((q[k, i] - rewards[i] - ahead) ** 2 + (v[k, i] - fresh_q[k, i]) ** 2) / 5
    for tensor in (q, v, next_v, fresh_q):
        tensor.requires_grad_(True)
    loss = critic_loss(q, v, rewards, is_last, next_v, fresh_q, GAMMA)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item()) and next_v.grad is None and fresh_q.grad is None
    assert q.grad.abs().sum() > 0 and v.grad.abs().sum() > 0


def _stub(**parts):
    """What the original's methods find on `self`."""
    accelerator = SimpleNamespace(unwrap_model=lambda model: model, backward=lambda loss: loss.backward())
    model = SimpleNamespace(device="cpu", dtype=torch.float32)
    agent = SimpleNamespace(model=model, get_action=lambda observation: ["fresh"] * len(observation), **parts)
    return SimpleNamespace(agent=agent, accelerator=accelerator, gamma=GAMMA, criterion=torch.nn.MSELoss())


@pytest.mark.parametrize("seed", range(5))
def test_the_critics_loss_is_the_originals(seed):
    (original,) = original_functions(*SOURCE, ["critic_loss"])
    generator = torch.Generator().manual_seed(seed)
    q, v, next_v, fresh_q = torch.randn(4, 2, 7, generator=generator)
    rewards, is_last = torch.randn(7, generator=generator), torch.randint(2, (7,), generator=generator).float()
    pairs = [[part.clone().requires_grad_(True) for part in (q, v)] for _ in range(2)]

    def target(observation, action, **_):
        is_fresh = action[0] == "fresh"
        return [row[:, None] for row in ((*fresh_q, *v) if is_fresh else (*q, *next_v))]

    stub = _stub(critic=lambda *_, **__: [row[:, None] for row in (*pairs[0][0], *pairs[0][1])], target_critic=target)
    names = ["o"] * 7
    logged = original(stub, names, ["a"] * 7, rewards.tolist(), names, is_last.tolist(), None)
    loss = critic_loss(*pairs[1], rewards, is_last, next_v, fresh_q, GAMMA)
    loss.backward()
    theirs = sum(logged[f"{name}.loss"] for name in ("q1", "q2", "v1", "v2"))
    assert loss.item() == pytest.approx(theirs.item(), rel=1e-6)
    assert all(torch.allclose(a.grad, b.grad, rtol=1e-6, atol=0) for a, b in zip(*pairs, strict=True))


def _tokens(rng, lengths, has_values=False):
    """Tokens of dialogues of two turns, of which the last is fresh: lengths of both turns of each."""
    flat = [length for pair in lengths for length in pair]
    dialogue = torch.tensor(np.repeat(range(len(lengths)), [sum(pair) for pair in lengths]))
    turn = torch.tensor(np.repeat(range(len(flat)), flat))
    advantages = torch.tensor([a if i % 2 else 0.0 for i, a in enumerate(rng.normal(size=len(flat)))])[turn]
    log_probs, values = torch.tensor(rng.normal(-1.0, 0.3, (2, sum(flat))), requires_grad=False)
    given = (values.requires_grad_(True), advantages, values.detach()) if has_values else ()
    return ActionTokens(log_probs.requires_grad_(True), log_probs, log_probs, advantages, dialogue, turn, *given)


LENGTHS = [(2, 3), (1, 1), (4, 2)]


def test_the_actors_loss_is_a_sum_over_the_tokens_of_fresh_actions_and_a_mean_over_actions():
    tokens, expected = _tokens(np.random.default_rng(0), LENGTHS), 0.0
    for i, log_prob in enumerate(tokens.log_probs):
        expected -= tokens.advantages[i] * log_prob.detach() / 3 if tokens.turn[i] % 2 else 0.0
    loss = Archer().loss(tokens)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item())
    assert (tokens.log_probs.grad != 0).tolist() == (tokens.turn % 2 == 1).tolist()


def test_the_token_level_baseline_weighs_each_token_and_learns_the_advantage():
    tokens = _tokens(np.random.default_rng(0), LENGTHS, has_values=True)
    fresh, policy, baseline = [i for i, turn in enumerate(tokens.turn) if turn % 2], 0.0, 0.0
    for i in fresh:
        residual = (tokens.returns[i] - tokens.values[i]).detach()
        policy, baseline = policy - residual * tokens.log_probs[i].detach() / 3, baseline + residual**2 / len(fresh)
    algorithm = Archer(ArcherConfig(token_baseline=True))
    assert algorithm.values_per_token and algorithm.critic_learning_rate == 3e-3 and Archer().critic_learning_rate is None
    assert algorithm.loss(tokens).item() == pytest.approx((policy + baseline).item())
    algorithm.loss(tokens).backward()
    slopes = [2 * (tokens.values[i] - tokens.returns[i]).item() / len(fresh) for i in fresh]
    assert tokens.values.grad[fresh].tolist() == pytest.approx(slopes)


@pytest.mark.parametrize("has_baseline", [False, True])
def test_the_actors_gradient_is_the_originals(has_baseline):
    """The original's baseline has its mean over padded rows; with actions of one length that is ours."""
    (original,) = original_functions(*SOURCE, ["actor_loss"])
    rng = np.random.default_rng(3)
    tokens = _tokens(rng, [(2, 3), (1, 3), (4, 3)], has_values=has_baseline)
    is_fresh = tokens.in_last_turn().bool()
    advantages = tokens.advantages[is_fresh][::3]
    log_probs = tokens.log_probs.detach()[is_fresh].reshape(3, 3).float().requires_grad_(True)
    stub = _stub()
    stub.agent.get_log_prob = lambda *_: log_probs.sum(dim=1)
    if has_baseline:
        values = tokens.values.detach()[is_fresh].reshape(3, 3, 1).float().requires_grad_(True)
        stub.agent.get_log_prob = lambda *_: (values, log_probs, torch.ones(3, 3))
    logged = original(stub, None, None, advantages.tolist())
    loss = Archer(ArcherConfig(token_baseline=has_baseline)).loss(tokens)
    loss.backward()
    assert loss.item() == pytest.approx(logged["pg.loss"] + logged["values.loss"], rel=1e-5)
    assert tokens.log_probs.grad[is_fresh].tolist() == pytest.approx(log_probs.grad.flatten().tolist(), rel=1e-5)
    if has_baseline:
        assert tokens.values.grad[is_fresh].tolist() == pytest.approx(values.grad.flatten().tolist(), rel=1e-5)


def test_credit_is_for_fresh_actions_in_replayed_states_after_the_warm_up():
    algorithm, replay = _on_a_chain(actor_states=20, warm_up=2, actor_steps=3)
    count = iter(range(1000))
    sample = _saying(lambda: ("stay", "right")[next(count) % 2])
    assert list(algorithm.credits(Batch([], replay=replay, sample=sample, iteration=1))) == []
    credits = list(algorithm.credits(Batch([], replay=replay, sample=sample, iteration=2)))
    assert len(credits) == 3 and credits[0].episodes != credits[1].episodes
    for credit in credits:
        assert [len(row) for row in credit.advantages] == [len(episode.turns) for episode in credit.episodes]
        assert all(not any(row[:-1]) for row in credit.advantages)
        last = np.array([row[-1] for row in credit.advantages])
        assert last.mean() == pytest.approx(0.0, abs=1e-6) and last.std() == pytest.approx(1.0)
        states = [[int(episode.messages[-2]["content"])] for episode in credit.episodes]
        actions = [algorithm.reader.action(episode.turns[-1]) for episode in credit.episodes]
        raw = np.array(algorithm.values.advantages(states, actions))
        assert last == pytest.approx((raw - raw.mean()) / raw.std(), abs=1e-5)


def test_an_agent_that_forgets_is_trained_on_what_it_reads_alone():
    episode = chain_episode(0, END, 0.4, np.random.default_rng(0))
    replay = Replay(100)
    replay.add([episode])
    transition = replay.transitions[-1]
    assert transition.turn > 3
    for history, kept in ((0, 1), (1, 2), (-1, transition.turn)):
        reader = Walk()
        reader.history = history
        fresh = reader.read_episode(transition, Utterance("jump", [7], [-1.0]))
        assert len(fresh.turns) == kept and len(fresh.messages) == 2 * kept and fresh.turns[-1] == Turn("jump", [7], [-1.0])
        assert fresh.messages[:-1] == episode.prefix(transition.turn)[-2 * kept + 1 :]


def test_it_learns_what_is_rewarded_in_the_last_turn(make_game):
    run = make_game(2, **GAME, **{"archer.iterations": 20})
    run.config.algorithms["archer"].train(run)
    rows = [row for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "archer"]
    found = [row["return"] for row in rows]
    assert np.mean(found[:3]) < 0.5 and np.mean(found[-3:]) > np.mean(found[:3]) + 0.3, found
    assert rows[0]["loss"] == 0 and rows[0]["critic_loss"] > 0 and rows[-1]["grad_norm"] > 0
    assert rows[0]["generated_tokens"] > 24 * 2 + 64 and rows[-1]["scored_tokens"] > rows[0]["scored_tokens"] > 0


@pytest.mark.parametrize(
    "more",
    [{"archer.encoder": "lora"}, {"archer.encoder": "small", "archer.width": 16}, {"archer.token_baseline": True}, {"history": 0},
     {"lora": True}, {"archer.token_baseline": True, "history": 1}],
    ids=lambda more: "-".join(more),
)  # fmt: skip
def test_every_form_trains_critic_and_actor(make_game, more):
    run = make_game(3, **{**SMALL, **more}, **{"archer.iterations": 2})
    run.config.algorithms["archer"].train(run)
    rows = read_rows(run.path("metrics.jsonl"))
    assert [row["loss"] != 0 for row in rows] == [False, True] and all(np.isfinite(row["critic_loss"]) for row in rows)


@pytest.mark.parametrize("more", [{}, {"archer.encoder": "lora", "archer.token_baseline": True}], ids=["frozen", "lora"])
def test_a_run_that_was_killed_ends_with_the_same_files(make_game, train_with_a_kill, more):
    game = {**SMALL, **more, "archer.iterations": 4, "archer.replay": 20, "archer.actor_steps": 1}
    whole, cut = (make_game(2, name, **game) for name in ("whole", "cut"))
    whole.config.algorithms["archer"].train(whole)
    saved = train_with_a_kill(cut.config.algorithms["archer"], cut)
    assert {"agent", "critic", "critic_target"} == {*saved["trainables"]} and len(saved["metrics"]) == 3
    files = [{path.name: path.read_bytes() for path in run.path("archer").rglob("*.safetensors")} for run in (whole, cut)]
    assert files[0] == files[1] and {*files[0]} == {"model.safetensors", "values.safetensors"}
    assert read_rows(whole.path("metrics.jsonl")) == read_rows(cut.path("metrics.jsonl"))


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [("gamma", "1.5", "at most 1, got 1.5"), ("polyak", "0", "above 0, got 0"), ("replay", "0", "at least 1, got 0"),
     ("reward_scale", "0", "above 0, got 0"), ("actor_states", "1", "at least 2, got 1")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting, value, error):
    with pytest.raises(ValueError, match=f"`archer.{setting}` must be {error}."):
        comparison_job.parse([f"--archer.{setting}", value])


def test_iterations_that_are_all_warm_up_are_refused():
    with pytest.raises(
        ValueError, match="`archer.iterations` must be above `archer.warm_up`, 2: in these the actor does not learn; got 2."
    ):
        comparison_job.parse(["--archer.iterations", "2"])


def test_an_unknown_encoder_and_an_odd_small_one_are_refused():
    with pytest.raises(ValueError, match=r"`archer\.encoder`.*'frosen'"):
        comparison_job.parse(["--archer.encoder", "frosen"])
    with pytest.raises(
        ValueError, match=r"`archer\.width` of a small encoder must be a multiple of 4, its attention heads, got 30\."
    ):
        comparison_job.parse(["--archer.encoder", "small", "--archer.width", "30"])
