"""The trial of a ColBench environment, whose parts are ours or the user's own.

Ours need no trial: their tests repeat episodes. A human of the user's own answers two questions in each copy; a sandbox of the user's own also
grades an answer. A model server is not asked: a request may cost money, and the replies of a server do not repeat. Its human has a `model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colbench_gym.agents.scripted import GeneralQuestions
from colbench_gym.envs.colbench_env import ColBenchEnv
from colbench_gym.evaluation.trial import Act, Messages, Trial, play_trial
from colbench_gym.seeds import derive_seed
from colbench_gym.simulators import Simulator
from sandboxes.named import name_and_arguments

#: Questions of the trial episode.
QUESTIONS = 2


def known_trial(human: Simulator, simulator: Any, sandbox: Any) -> Trial | None:
    """What is known without a trial; None if one is to be played.

    Args:
        human: The simulated human.
        simulator: Its specification.
        sandbox: Specification of the sandbox.
    """
    if not human.is_deterministic and human.model:
        return Trial(untried="its human is a model server")
    if _is_own(simulator) or _is_own(sandbox):
        return None
    return Trial() if human.is_deterministic else Trial(untried="its human is a person")


def few_questions(env_id: str, sandbox: Any) -> Act:
    """Two general questions and, for a sandbox of the user's own, an answer.

    Args:
        env_id: Id of the environment.
        sandbox: Specification of the sandbox.
    """
    agent = GeneralQuestions(env_id, QUESTIONS + 1)

    def act(messages: Messages, turn: int) -> str | None:
        is_over = turn > QUESTIONS and not _is_own(sandbox)
        return None if is_over else agent.say(messages, derive_seed("trial", turn)).text

    return act


def trial_of(envs: Sequence[ColBenchEnv], env_id: str, simulator: Any, sandbox: Any) -> Trial:
    """The trial of two environments that share a human and a grader.

    Args:
        envs: The environments.
        env_id: Id of the environment.
        simulator: Specification of the human.
        sandbox: Specification of the sandbox.
    """
    known = known_trial(envs[0].simulator, simulator, sandbox)
    return known or play_trial(envs, [(envs[0].tasks[0].id, few_questions(env_id, sandbox))])


def _is_own(spec: Any) -> bool:
    """Whether a specification names a class that is not ours."""
    is_object = not isinstance(spec, str | dict)
    return is_object or ":" in name_and_arguments("simulator", spec)[0]
