"""REINFORCE with a leave-one-out baseline: its credit, its loss against a slow loop, that it learns, and that it goes on after a kill."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colbench_gym.files import read_rows
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.reinforce import Reinforce, ReinforceConfig, leave_one_out
from sweetrl_agent.core.batch import ActionTokens, Batch
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.trainers import sampler
from sweetrl_agent.trainers.learner import Learner
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.token_passes import action_log_probs

DIALOGUES = [
    [{"role": "user", "content": "I need the total."}, {"role": "assistant", "content": "Round it?"},
     {"role": "user", "content": "Yes."}, {"role": "assistant", "content": "I WANT TO ANSWER:\nround(sum(x), 2)"}],
    [{"role": "user", "content": "I need the total."}, {"role": "assistant", "content": "I WANT TO ANSWER:\nsum(x)"}],
]  # fmt: skip


def _trajectory(task, reward, turns):
    return Episode(task, 0, [], [Turn("x")] * turns, {"outcome": "wrong"}, reward)


def test_the_baseline_is_the_mean_of_the_others():
    assert leave_one_out([1.0, 0.0, 0.0]) == [1.0, -0.5, -0.5]
    assert leave_one_out([0.5]) == [0.0]
    rows = [_trajectory("a", 1.0, 2), _trajectory("b", 1.0, 1), _trajectory("a", 0.0, 3), _trajectory("b", 1.0, 4)]
    algorithm = Reinforce()
    assert algorithm.credit(Batch(rows)).advantages == [[1.0] * 2, [0.0], [-1.0] * 3, [0.0] * 4]


@pytest.mark.parametrize("temperature", [1.0, 0.8])
def test_the_loss_is_that_of_a_slow_loop(make_tiny_model, tiny_tokenizer, temperature):
    model = make_tiny_model()
    advantages = [[0.7, -0.2], [1.5]]
    total, count = 0.0, 0
    for messages, values in zip(DIALOGUES, advantages, strict=True):
        encoded = Chat(tiny_tokenizer).sequences(messages)[0]
        logits = model(torch.tensor([encoded.token_ids])).logits[0].detach().double() / temperature
        for i, turn in enumerate(encoded.turn_ids):
            if turn:
                log_probs = logits[i - 1] - torch.logsumexp(logits[i - 1], 0)
                total -= values[turn - 1] * float(log_probs[encoded.token_ids[i]])
                count += 1
    encoded = [Chat(tiny_tokenizer).sequences(messages)[0] for messages in DIALOGUES]
    log_probs = action_log_probs(model, encoded, temperature)
    of_turns = [values[turn - 1] for own, values in zip(encoded, advantages, strict=True) for turn in own.turn_ids if turn]
    tokens = ActionTokens(
        log_probs, log_probs.detach(), log_probs.detach(), torch.tensor(of_turns), torch.zeros(count, dtype=torch.int64)
    )
    assert Reinforce().policy_loss(tokens).item() == pytest.approx(total / count, rel=1e-4)


def test_a_stale_token_counts_by_its_bounded_weight():
    now, sampled, advantages = np.random.default_rng(0).normal(-1.0, 0.8, (3, 7))
    weights = [min(np.exp(a - b), 1.5) for a, b in zip(now, sampled, strict=True)]
    assert 0 < sum(weight == 1.5 for weight in weights) < 7
    log_probs = torch.tensor(now, requires_grad=True)
    rest = map(torch.tensor, (sampled, sampled, advantages))
    loss = Reinforce(ReinforceConfig(truncation=1.5)).policy_loss(
        ActionTokens(log_probs, *rest, torch.zeros(7, dtype=torch.int64))
    )
    loss.backward()
    slow = [-a * w * p for a, w, p in zip(advantages, weights, now, strict=True)]
    assert loss.item() == pytest.approx(sum(slow) / 7)
    assert log_probs.grad.tolist() == pytest.approx([-a * w / 7 for a, w in zip(advantages, weights, strict=True)])


@pytest.fixture
def make_run(tmp_path, tiny_model_folder, monkeypatch):
    """Function: folder name -> a run on the tiny model that is rewarded for letters beyond ASCII, of which it says few by chance."""

    def play(policy, env, episodes, seed, stage, **_):
        for episode in episodes:
            opening = [{"role": "user", "content": "I need it."}]
            (said,) = policy.generate([opening], [derive_seed(seed, stage, episode.task_id, episode.index)])
            reward = float(np.mean([not letter.isascii() for letter in said.text or "."]))
            messages = [*opening, {"role": "assistant", "content": said.text}]
            turn = Turn(said.text, said.token_ids, said.log_probs)
            yield [Episode(episode.task_id, episode.index, messages, [turn], {"outcome": "wrong"}, reward)]

    monkeypatch.setattr(sampler, "play", play)

    def make(name, iterations):
        _, config = comparison_job.parse(
            ["--algorithms", "reinforce", "--output", str(tmp_path / name), "--model", str(tiny_model_folder), "--dtype", "float32", "--sft_dialogues", "0", "--system_prompt", "", "--max_new_tokens", "6", "--sandbox", "embedded",
             "--reinforce.iterations", str(iterations), "--reinforce.tasks", "4", "--reinforce.group", "4",
             "--reinforce.learning_rate", "1e-2"]
        )  # fmt: skip
        return Run(config)

    return make


def test_it_learns_what_is_rewarded(make_run):
    run = make_run("learns", 40)
    run.config.algorithms["reinforce"].train(run)
    rows = [row for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "reinforce"]
    success = [row["return"] for row in rows]
    assert len(rows) == 40 and np.mean(success[-5:]) > np.mean(success[:5]) + 0.1
    assert rows[-1]["episodes"] == 40 * 16 == rows[-1]["environment_turns"]
    assert not run.path("reinforce/checkpoint.pt").exists()


def test_a_run_that_was_killed_ends_with_the_same_agent(make_run, monkeypatch):
    whole, cut = make_run("whole", 4), make_run("cut", 4)
    whole.config.algorithms["reinforce"].train(whole)

    class Killed(Exception):
        """Stands for the kill."""

    steps = []

    def step(*arguments):
        if len(steps) == 2:
            raise Killed
        steps.append(1)
        return original(*arguments)

    original = Learner.update
    monkeypatch.setattr(Learner, "update", step)
    with pytest.raises(Killed):
        cut.config.algorithms["reinforce"].train(cut)
    monkeypatch.setattr(Learner, "update", original)
    cut.config.algorithms["reinforce"].train(cut)
    weights = [(run.path("reinforce/agent") / "model.safetensors").read_bytes() for run in (whole, cut)]
    assert weights[0] == weights[1]
    assert read_rows(whole.path("metrics.jsonl")) == read_rows(cut.path("metrics.jsonl"))
