"""The asymmetric value head of Turn-PPO and token-PPO: where it reads, what it can tell apart, that the policy reads nothing hidden, and that it resumes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.registry import refuse_missing
from sweetrl_agent.algorithms.token_ppo import TokenPPO, TokenPPOConfig
from sweetrl_agent.algorithms.turn_ppo import TurnPPO, TurnPPOConfig
from sweetrl_agent.core.batch import Credit
from sweetrl_agent.core.hint import hint_message
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.trainers import sampler

KINDS = {"turn_ppo": (TurnPPO, TurnPPOConfig), "token_ppo": (TokenPPO, TokenPPOConfig)}
BOTH = pytest.mark.parametrize("name", KINDS)


def _algorithm(name, is_asymmetric=True, **settings):
    kind, config = KINDS[name]
    return kind(config(asymmetric=is_asymmetric, beta=0.0, **settings))


def _played(run, learner, count):
    tasks = [task.id for task in run.tasks[:count]]
    return [episode for (episode,) in sampler.play(learner.policy, None, episodes_of(tasks, 1), 0, "x")]


@BOTH
@pytest.mark.parametrize(
    ("history", "hidden"), [(-1, "It is 7."), (0, "It is 7."), (-1, ["It is 7.", "It is 8.", "It is 9."]), (1, ["a", "b", "c"])]
)
def test_a_value_is_read_behind_the_hint_at_the_token_before_its_action(begin, make_game, name, history, hidden):
    run = make_game(3, history=history, system_prompt="Ask first.")
    learner = begin(run, _algorithm(name))
    torch.nn.init.normal_(learner.head.weight)
    episodes = [replace(episode, hidden=hidden) for episode in _played(run, learner, 2)]
    slow = []
    for episode in episodes:
        row = []
        for turn, said in enumerate(episode.turns, 1):
            before = episode.prefix(turn) if history < 0 else episode.prefix(turn)[-2 * history - 1 :]
            prompt = learner.chat.prompt(
                [*hint_message(episode.hidden_at(turn), "Ask first.", run.record.hidden_noun), *before]
            )
            ids = torch.tensor([[*prompt, *said.token_ids]])
            states = learner.model(ids, output_hidden_states=True).hidden_states[-1][0]
            values = learner.head(states)[len(prompt) - 1 : -1, 0].tolist()
            row += values if name == "token_ppo" else values[:1]
        slow.append(row)
    for fast, of_episode in zip(learner.values(episodes), slow, strict=True):
        assert fast == pytest.approx(of_episode, rel=1e-3, abs=1e-4)
    credit = Credit([[1.0] * len(row) for row in slow], slow)
    tokens = learner._action_tokens(learner._samples(episodes, credit, slow, ()))
    assert tokens.values.tolist() == pytest.approx(sum(slow, []), rel=1e-3, abs=1e-4)


@BOTH
def test_the_policy_reads_nothing_hidden(begin, make_game, name):
    """Log-probabilities and the gradient of the policy's loss are the same whatever is hidden; the values are not."""
    run = make_game(2)
    learner = begin(run, _algorithm(name))
    torch.nn.init.normal_(learner.head.weight)
    episodes, seen = _played(run, learner, 2), []
    for hidden in ("It is 7.", "A quite different thing."):
        hinted = [replace(episode, hidden=hidden) for episode in episodes]
        values = learner.values(hinted)
        tokens = learner._action_tokens(
            learner._samples(hinted, Credit([[0.5] * len(row) for row in values], values), values, ())
        )
        learner.trainable.module.zero_grad()
        learner.algorithm.policy_loss(tokens).backward()
        slopes = torch.cat([p.grad.flatten() for p in learner.model.parameters() if p.grad is not None])
        seen.append((tokens.log_probs.tolist(), slopes, values))
    assert seen[0][0] == seen[1][0] and torch.equal(seen[0][1], seen[1][1]) and seen[0][1].abs().sum() > 0
    assert np.abs(np.array(sum(seen[0][2], [])) - np.array(sum(seen[1][2], []))).min() > 1e-3


@BOTH
def test_nothing_hidden_is_the_symmetric_head(begin, make_game, name):
    run, values = make_game(3), []
    for is_asymmetric in (True, False):
        learner = begin(run, _algorithm(name, is_asymmetric))
        torch.nn.init.constant_(learner.head.weight, 0.3)
        values.append(sum(learner.values(_played(run, learner, 3)), []))
    assert values[0] == pytest.approx(values[1], rel=1e-4, abs=1e-5)


@BOTH
def test_it_tells_apart_what_only_the_hidden_information_decides(begin, make_game, name):
    """The same dialogues earn 1 with one hidden text and 0 with another. E[R | o] is 1/2 and E[R | o, c] is R; the policy stands still."""
    errors = {}
    for is_asymmetric in (True, False):
        settings = {
            "learning_rate": 0.0,
            "critic_learning_rate": 3e-2,
            "epochs": 200,
            "micro_batch": 8,
            "gamma": 1.0,
            "lam": 1.0,
        }
        if name == "token_ppo":
            settings["value_clip"] = 0.0
        run = make_game(2)
        learner = begin(run, _algorithm(name, is_asymmetric, **settings))
        episodes = []
        for episode in _played(run, learner, 2):
            *first, last = [replace(turn, reward=0.0) for turn in episode.turns]
            episodes += [
                replace(episode, turns=[*first, replace(last, reward=r)], reward=r, hidden=h)
                for h, r in (("yes", 1.0), ("no", 0.0))
            ]
        learner.algorithm.update(episodes, 0)
        errors[is_asymmetric] = [
            abs(v - e.reward) for e, row in zip(episodes, learner.values(episodes), strict=True) for v in row
        ]
    assert np.mean(errors[True]) < 0.1 and max(errors[True]) < 0.35  # a linear head on a body that stands still
    assert min(errors[False]) > 0.4 and np.mean(errors[False]) == pytest.approx(0.5, abs=0.03)


@BOTH
def test_the_tokens_of_both_passes_are_counted(begin, make_game, name):
    run, counts = make_game(2), {}
    for is_asymmetric in (False, True):
        learner = begin(run, _algorithm(name, is_asymmetric, epochs=2))
        episodes = [replace(episode, hidden="It is 7.") for episode in _played(run, learner, 2)]
        values = learner.values(episodes)
        update = learner.update(episodes, Credit([[1.0] * len(row) for row in values], values), values)
        counts[is_asymmetric] = update.tokens
        hinted = sum(len(part.token_ids) for episode in episodes for part in learner._hinted(episode))
    assert counts[True] == counts[False] + 2 * hinted and hinted > counts[False] / 2


@BOTH
def test_a_run_that_was_killed_ends_with_the_same_files(make_game, train_with_a_kill, monkeypatch, name):
    game = {"tasks": 4, "iterations": 3, "learning_rate": 1e-2, "critic_learning_rate": 1e-1, "asymmetric": True}
    runs = [make_game(2, folder, **{f"{name}.{key}": value for key, value in game.items()}) for folder in ("whole", "cut")]
    play = sampler.play

    def hidden_play(*arguments, **more):
        return ([replace(episode, hidden=f"It is {episode.index}.")] for (episode,) in play(*arguments, **more))

    monkeypatch.setattr(sampler, "play", hidden_play)
    runs[0].config.algorithms[name].train(runs[0])
    saved = train_with_a_kill(runs[1].config.algorithms[name], runs[1])
    assert saved["trainables"]["agent"]["module"]["head.weight"].abs().sum() > 0
    files = [{p.relative_to(run.path(".")): p.read_bytes() for p in run.path(name).rglob("*.*")} for run in runs]
    assert files[0] == files[1] and len(files[0]) > 2
    assert read_rows(runs[0].path("metrics.jsonl")) == read_rows(runs[1].path("metrics.jsonl"))


@BOTH
def test_it_requires_hidden_information(name):
    assert _algorithm(name, False).requires == set()
    with pytest.raises(ValueError, match=f"'{name}' requires an environment with hidden information"):
        refuse_missing([_algorithm(name)], {"snapshot"}, "Plain-v0")
