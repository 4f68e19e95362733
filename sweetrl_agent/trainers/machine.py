"""How fast this machine does the parts of a run's work (`core.work`)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch

from colbench_gym.generators import preserve_rng_state
from sweetrl_agent.config.packaged import FOLDER
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.work import Lengths, Part, Passes, Playing, Sampling
from sweetrl_agent.models.tiny import tiny_config
from sweetrl_agent.rollouts.trial import trial_of
from sweetrl_agent.trainers.gpus import here
from sweetrl_agent.trainers.lengths import find_lengths, known_dialogues, tokenizer_of
from sweetrl_agent.trainers.timing import Timed, TimedModel, Timer

#: Episodes of demonstrations that the environment is timed with, where no trial was needed.
TIMED_EPISODES = 6
#: Assumed seconds of a reply by a model server, and tokens a second of each utterance that a model server samples: nothing is asked before a run.
SERVER_REPLY_S, SERVER_TOKENS_S = 2.0, 30.0
#: Share of the slots of sampling that are busy: the others have ended their turn, or wait for the end of the shard.
BUSY = 0.9
#: Prompts that are read in one pass of sampling.
READ_TOGETHER = 8


@dataclass(frozen=True)
class Pace:
    """How fast the environment is.

    Attributes:
        reset_s: Seconds of a reset.
        step_s: Seconds of a step.
        waits: Whether steps wait for a service, all in flight at once.
        source: Where the numbers are from.
    """

    reset_s: float
    step_s: float
    waits: bool
    source: str


@dataclass(frozen=True)
class Machine:
    """The speed of this machine.

    Attributes:
        timed: Seconds of what was timed.
        pace: Seconds of the environment.
        sampled: Tokens a second of one engine, by the number of utterances at once; None if sampling was timed.
        basis: What the times rest on, in words.
    """

    timed: Mapping[Timed, float]
    pace: Pace
    sampled: Callable[[int], float] | None
    basis: str

    def seconds(self, part: Part) -> float | None:
        """Expected seconds of a part of the work; None if they are not known."""
        if isinstance(part, Playing):
            each = self.pace.reset_s + part.turns * self.pace.step_s
            return part.episodes * each / (part.at_once if self.pace.waits else 1)
        found = [self._of(one) for one in timed_of(part, self.sampled is None)]
        if None in found:
            return None
        times = [value or 0.0 for value in found]
        if isinstance(part, Passes):
            return part.count * times[0] + (part.steps * times[1] if part.steps else 0.0)
        tokens = part.count * part.tokens
        if self.sampled is not None:
            return tokens / self.sampled(part.at_once)
        return tokens * times[0] / (BUSY * part.at_once) + part.count * times[1] / READ_TOGETHER

    def _of(self, wanted: Timed) -> float | None:
        """Seconds of something, or of the most similar thing of its kind by the number of tokens."""
        if wanted in self.timed:
            return self.timed[wanted]
        same = [one for one in self.timed if one.kind == wanted.kind]
        if not same:
            return None
        tokens = wanted.rows * wanted.tokens
        nearest = min(same, key=lambda one: abs(math.log(one.rows * one.tokens / tokens)))
        scale = wanted.rows / nearest.rows if wanted.kind == "sample" else tokens / (nearest.rows * nearest.tokens)
        return self.timed[nearest] * scale


def timed_of(part: Part, has_sampling: bool = True) -> list[Timed]:
    """What is timed for a part: a pass and an optimizer step, or a token and reading prompts."""
    if isinstance(part, Passes):
        own = Timed(part.kind, part.rows, max(2, round(part.tokens)), max(1, round(part.scored)))
        return [own, Timed("step")] if part.steps else [own]
    if isinstance(part, Sampling) and has_sampling:
        unread = max(2, round(part.unread))
        return [Timed("sample", part.at_once, max(1, round(part.context))), Timed("read", READ_TOGETHER, unread, 1)]
    return []


def machine_of(
    run: Run, parts_of: Callable[[Lengths], Iterable[Any]], timer: Timer = time.perf_counter, has_model: bool = True
) -> tuple[Lengths, Machine]:
    """Sizes of the run's dialogues, and the speed of this machine, measured now. Global random generators are as before.

    Args:
        run: The run.
        parts_of: The parts that times are needed of, by sizes of dialogues.
        timer: A clock, in seconds.
        has_model: Whether the run has a model, whose tokenizer is loaded; without, a token is taken to be four characters.
    """
    start = timer()
    with preserve_rng_state():
        dialogues, source = known_dialogues(run)
        try:
            tokenizer = tokenizer_of(run, dialogues) if has_model else None
        except Exception:  # of any type; the checks name what is wrong with it
            tokenizer = None
        lengths = find_lengths(run, tokenizer, dialogues, source)
        parts = list(parts_of(lengths))
        pace = environment_pace(run, dialogues, timer) if any(isinstance(part, Playing) for part in parts) else _NONE
        sampled, engine = _sampled(run)
        wanted = {one for part in parts for one in timed_of(part, sampled is None)}
        timed, failure = _timed(run, tokenizer, wanted, timer)
    basis = f"estimated from {max(1, round(timer() - start))} s of timed steps on this machine"
    notes = [note for note in (failure, engine, pace.source) if note]
    return lengths, Machine(timed, pace, sampled, "; ".join([basis, *notes]))


_NONE = Pace(0.0, 0.0, False, "")


def _timed(run: Run, tokenizer: Any, wanted: set[Timed], timer: Timer) -> tuple[dict[Timed, float], str]:
    """Seconds of what is wanted, and why there are none; "" if there are."""
    config = run.config
    if not wanted:
        return {}, ""
    if config.model.engine == "vllm" and not torch.cuda.is_available():
        return {}, "the model is not timed, since `--engine vllm` is timed on a GPU only"
    try:
        return TimedModel(model_config(run, tokenizer), tokenizer, config.model, timer).seconds(wanted), ""
    except Exception as error:  # libraries raise any type; the checks name what is wrong with the model
        return {}, f"the model cannot be timed ({type(error).__name__}: {' '.join(str(error).split())[:100]})"


def model_config(run: Run, tokenizer: Any = None) -> Any:
    """The configuration of the model's shape, of transformers.

    Args:
        run: The run.
        tokenizer: Its tokenizer, for a tiny model that SFT makes.
    """
    from transformers import AutoConfig

    config = run.config
    if not config.is_tiny:
        return AutoConfig.from_pretrained(config.model.model, revision=config.model.revision, trust_remote_code=False)
    if config.initial_policy == "packaged":
        return AutoConfig.from_pretrained(FOLDER)
    size = max(config.sft.tiny_vocab_size, len(tokenizer) if tokenizer is not None else 0)
    return tiny_config(size, config.sft.tiny_hidden_size, config.sft.tiny_layers)


def _sampled(run: Run) -> tuple[Callable[[int], float] | None, str]:
    """Tokens a second of an engine outside of this process or of vLLM, and what that is assumed from; None for our own."""
    engine = run.config.model.engine
    if engine == "server":
        rate = SERVER_TOKENS_S
        return lambda at_once: rate * at_once, f"servers are assumed to sample {rate:g} tokens a second in each utterance"
    if engine == "vllm" and torch.cuda.is_available():
        gpu, parameters = here(), num_parameters(run) or 8e9
        return lambda at_once: gpu.sampled(parameters), "sampling by vLLM is assumed, not timed"
    return None, ""


def num_parameters(run: Run) -> float | None:
    """Number of parameters of the model, by its configuration; None if that cannot be read here."""
    from transformers import AutoModelForCausalLM

    try:
        config = model_config(run).get_text_config()
        with preserve_rng_state(), torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except Exception:  # as above
        return None
    return float(sum(weight.numel() for weight in model.parameters()))


def environment_pace(run: Run, dialogues: Sequence[Messages], timer: Timer = time.perf_counter) -> Pace:
    """Seconds of the environment's resets and steps: of the trial episodes, or where none was needed of some demonstrated ones.

    Args:
        run: The run.
        dialogues: Dialogues that the agent's messages are taken from.
        timer: A clock, in seconds.
    """
    trial = trial_of(run.config, run.record)
    if trial.num_steps:
        return Pace(trial.reset_s, trial.step_s, run.record.waits, "")
    if trial.untried:
        return Pace(0.0, SERVER_REPLY_S, True, f"replies are assumed to take {SERVER_REPLY_S:g} s")
    texts = [[said["content"] for said in messages if said["role"] == "assistant"] for messages in dialogues]
    if not any(texts):
        texts = [["What should it do?", f"{run.record.answer_prefix}pass"]] * TIMED_EPISODES
    resets, steps = [], []
    with closing(run.environment(run.tasks[:TIMED_EPISODES], 1)) as env:
        env.envs[0].prepare()
        for task, own in zip(run.tasks[:TIMED_EPISODES], filter(None, texts), strict=False):
            start = timer()
            env.envs[0].reset(seed=0, options={"task_id": task.id})
            resets.append(timer() - start)
            for text in own:
                start = timer()
                _, _, terminated, truncated, _ = env.submit(0, text).result()
                steps.append(timer() - start)
                if terminated or truncated:
                    break
    return Pace(sum(resets) / len(resets), sum(steps) / len(steps), run.record.waits, "")
