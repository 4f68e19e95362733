"""A user-defined simulated human and a user-defined sandbox, by `module:Class` in `gym.make`."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest

import colbench_gym  # noqa: F401
from colbench_gym.simulators import Simulator, make, make_designer
from sandboxes import ExecutionResult, Sandbox

HERE = __name__


class Parrot(Simulator):
    """Says one word."""

    is_deterministic = True

    def __init__(self, word="Hm.", times: int = 1):
        if times < 1:
            raise ValueError(f"`times` must be positive, got {times}.")
        self.word, self.times, self.is_closed = word, times, False

    def reply(self, task, dialogue, seed):
        return " ".join([self.word] * self.times)

    def close(self):
        self.is_closed = True


class Silent(Parrot):
    def reply(self, task, dialogue, seed):
        return None


class Designer(Parrot):
    def __init__(self, browser, word="Bigger."):
        super().__init__(word)
        self.browser = browser


class Dumb(Simulator):
    pass


class Nobody:
    def reply(self, task, dialogue, seed):
        return "?"


class Refuses(Sandbox):
    """Answers every call with nothing."""

    def __init__(self, workers=1):
        self.workers = workers

    def run(self, programs):
        return [ExecutionResult(()) for _ in programs]

    def guarantees(self):
        return {}

    def close(self):
        pass


def _replies(**arguments):
    env = gym.make("ColBench-Backend-v0", **arguments)
    env.reset(seed=0)
    said = [env.step("Why?")[4]["messages"][-1]["content"] for _ in range(2)]
    env.close()
    return said, env.unwrapped


def test_a_human_is_made_by_its_class_with_arguments():
    assert _replies(simulator=f"{HERE}:Parrot")[0] == ["Hm.", "Hm."]
    said, env = _replies(simulator={"name": f"{HERE}:Parrot", "word": "No.", "times": 2})
    assert said == ["No. No."] * 2
    assert env.simulator.is_closed


def test_environments_of_a_vector_share_it():
    envs = gym.make_vec("ColBench-Backend-v0", num_envs=2, simulator=f"{HERE}:Parrot")
    envs.reset(seed=0)
    _, _, _, _, infos = envs.step(["Why?"] * 2)
    assert [messages[-1]["content"] for messages in infos["messages"]] == ["Hm."] * 2
    assert envs.envs[0].simulator is envs.envs[1].simulator
    envs.close()


def test_a_designer_gets_what_its_constructor_takes():
    browser = object()
    made = make_designer({"name": f"{HERE}:Designer", "word": "Smaller."}, browser, has_edits=True)
    assert made.browser is browser and made.word == "Smaller."
    assert make_designer(f"{HERE}:Parrot", browser, has_edits=True).word == "Hm."


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("scriptd", "got 'scriptd'. Did you mean 'scripted'?"),
        ("nowhere:Parrot", "`simulator` names a module that does not exist: 'nowhere'."),
        (f"{HERE}:Parot", f"`simulator`: the module {HERE!r} has no 'Parot'. Did you mean 'Parrot'?"),
        (
            f"{HERE}:Dumb",
            f"must name a `Simulator` of `colbench_gym.simulators`, got '{HERE}:Dumb', which has no method 'reply'.",
        ),
        (f"{HERE}:Nobody", f"got '{HERE}:Nobody', which is not derived from it."),
        ({"name": f"{HERE}:Parrot", "wrod": "Hm."}, "got an unexpected keyword argument 'wrod'. Did you mean 'word'?"),
        ({"name": f"{HERE}:Parrot", "times": 0}, "`times` must be positive, got 0."),
        ({"name": f"{HERE}:Parrot", "times": "x"}, f"`simulator` '{HERE}:Parrot' cannot be made ("),
    ],
)
def test_each_wrong_human_has_a_sentence(spec, error):
    with pytest.raises(ValueError, match=re.escape(error)):
        make(spec)
    with pytest.raises(ValueError, match=re.escape(error)):
        gym.make("ColBench-Backend-v0", simulator=spec)


def test_a_reply_that_is_no_text_is_named():
    with pytest.raises(TypeError, match=r"^`reply` of the simulator 'Silent' must return a text, got NoneType\.$"):
        _replies(simulator=f"{HERE}:Silent")


def test_a_sandbox_is_made_by_its_class():
    env = gym.make("ColBench-Backend-v0", sandbox={"name": f"{HERE}:Refuses"})
    env.reset(seed=0)
    env.unwrapped.prepare()
    assert isinstance(env.unwrapped.unit_tests.sandbox, Refuses)
    env.close()
    with pytest.raises(ValueError, match="`sandbox` must name a `Sandbox` of `sandboxes`, got .*, which has no method 'run'"):
        gym.make("ColBench-Backend-v0", sandbox=f"{HERE}:Parrot")
