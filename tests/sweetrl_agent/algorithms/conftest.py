"""A game of several turns that on-policy algorithms learn, with an optimum that is known."""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from colbench_gym.seeds import derive_seed
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.trainers import sampler
from sweetrl_agent.trainers.learner import Learner
from sweetrl_agent.trainers.run import Run


@pytest.fixture
def make_game(tmp_path, tiny_model_folder, monkeypatch):
    """Function: number of turns, settings -> a run on the tiny model, which earns the share of its last turn's letters that are not ASCII, and
    that only where every earlier turn has one: 1 is the optimum, and the credit of the first turns is earned in the last."""

    def make(num_turns, folder="run", **settings):
        def play(policy, env, episodes, seed, stage, **_):
            episodes = list(episodes)
            dialogues = [[{"role": "user", "content": "I need it."}] for _ in episodes]
            turns = [[] for _ in episodes]
            for number in range(num_turns):
                seeds = [derive_seed(seed, stage, episode.task_id, episode.index, number) for episode in episodes]
                for messages, own, said in zip(dialogues, turns, policy.generate(dialogues, seeds), strict=True):
                    own.append(Turn(said.text, said.token_ids, said.log_probs))
                    messages.append({"role": "assistant", "content": said.text})
                    if number < num_turns - 1:
                        messages.append({"role": "user", "content": "And then?"})
            for episode, messages, own in zip(episodes, dialogues, turns, strict=True):
                *earlier, last = (float(np.mean([not letter.isascii() for letter in turn.text or "."])) for turn in own)
                reward = last if all(earlier) else 0.0
                own[-1] = replace(own[-1], reward=reward)
                yield [Episode(episode.task_id, episode.index, messages, own, {"outcome": "wrong"}, reward)]

        monkeypatch.setattr(sampler, "play", play)
        given = {
            "output": tmp_path / folder,
            "model": tiny_model_folder,
            "dtype": "float32",
            "sft_dialogues": 0,
            "system_prompt": "",
            "max_new_tokens": 4,
            "sandbox": "embedded",
            **settings,
        }
        names = sorted({name.partition(".")[0] for name in settings if "." in name}) or ["initial"]
        return Run(comparison_job.parse([], {"algorithms": names, **given})[1])

    return make


@pytest.fixture
def make_team_run(tmp_path, tiny_model_folder):
    """Function: algorithm, name of the folder, game of `team_games`, settings of the algorithm, others -> a run on the tiny model."""

    def make(algorithm, name, game, settings, **others):
        given = {
            "algorithms": [algorithm], "output": tmp_path / name, "env": f"tests.sweetrl_agent.team_games:{game}", "tasks": "seeds:0-7",
            "test_tasks": "seeds:10-11", "model": tiny_model_folder, "dtype": "float32", "sft_dialogues": 0, "system_prompt": "", "max_new_tokens": 4,
            "threads": 1, "generation_batch": 16, **{f"{algorithm}.{key}": value for key, value in settings.items()}, **others,
        }  # fmt: skip
        return Run(comparison_job.parse([], given)[1])

    return make


@pytest.fixture
def begin():
    """Function: a run, an on-policy algorithm -> its learner; the algorithm can then `update`."""

    def begin(run, algorithm):
        algorithm.begin(run)
        return algorithm.learners[f"{algorithm.name}/agent"]

    return begin


@pytest.fixture
def quiet_model_folder(tiny_model_folder, tiny_tokenizer, tmp_path):
    """The tiny model with a template that has a switch for thoughts; where they are switched off, dialogues begin with "(quiet)"."""
    folder = shutil.copytree(tiny_model_folder, tmp_path / "quiet model")
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = "{% if enable_thinking is defined %}(quiet){% endif %}" + tokenizer.chat_template
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def untrained(monkeypatch):
    """Function: a loss -> what `train_stage` is given: trainer, tokenizer, folder and callbacks. Nothing is trained; the loss is logged."""

    def catch(loss):
        seen = {}

        def train_stage(trainer, tokenizer, folder, stage, callbacks, is_merged=False):
            seen.update(trainer=trainer, tokenizer=tokenizer, folder=folder, callbacks=callbacks)
            return [{"stage": stage, "loss": loss}]

        monkeypatch.setattr("sweetrl_agent.trainers.stage_training.train_stage", train_stage)
        return seen

    return catch


@pytest.fixture
def train_with_a_kill(monkeypatch):
    """Function: an on-policy algorithm, a run -> trains it, killed before the third update and started again; returns the checkpoint."""

    class Killed(Exception):
        """Stands for the kill."""

    def train(algorithm, run):
        original, steps = Learner.update, []

        def step(*arguments):
            if len(steps) == 2:
                raise Killed
            steps.append(1)
            return original(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(Learner, "update", step)
            with pytest.raises(Killed):
                algorithm.train(run)
        saved = torch.load(run.path(f"{algorithm.name}/checkpoint.pt"), weights_only=True)
        algorithm.train(run)
        return saved

    return train


@pytest.fixture
def train_with_a_kill_in_credit(monkeypatch):
    """Function: an on-policy algorithm with any number of policies, a run -> trains it, killed in the second credit and started again."""

    def train(algorithm, run):
        kind, seen = type(algorithm), []
        original = kind.credit

        def credit(self, batch):
            seen.append(batch.iteration)
            if seen == [seen[0], seen[0] + 1]:
                raise KeyboardInterrupt
            return original(self, batch)

        with monkeypatch.context() as patch:
            patch.setattr(kind, "credit", credit)
            with pytest.raises(KeyboardInterrupt):
                algorithm.train(run)
            algorithm.train(run)
        first = seen[0]
        assert seen == [first, first + 1, *range(first + 1, algorithm.config.iterations)]

    return train
