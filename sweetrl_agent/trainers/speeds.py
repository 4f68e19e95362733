"""How fast this machine works, from a few seconds of it before anything runs.

The model has the run's shape and random weights; nothing is loaded. A small and a larger pass, and a token in few and in more dialogues, give the seconds of
each call and of each token. Of a deep model only the first layers are made: the others take as long as the difference of three layers and one says. The global
random generators are as they were afterwards.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from colbench_gym.evaluation.trial import Trial, play_trial
from colbench_gym.generators import preserve_rng_state
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.work import Lengths, Line, Speeds, Work
from sweetrl_agent.models.loading import LAYERS as LAYERS_OF
from sweetrl_agent.models.loading import adapted, device, policy_on, torch_dtype
from sweetrl_agent.models.shape import find_shape, model_config
from sweetrl_agent.policies.slots import body, without_wrapper
from sweetrl_agent.rollouts.trial import trial_of
from sweetrl_agent.trainers.gpus import here
from sweetrl_agent.trainers.lengths import find_lengths, known_dialogues, tokenizer_of

#: Layers that a deep model is timed with, and tokens of each utterance that is sampled.
LAYERS, SAMPLED = (1, 3), 5
#: The most tokens of a pass over one sequence and over several, and dialogues that few and more tokens are sampled in: on a CPU, and on a GPU.
ON_CPU, ON_GPU = ((128, 512), (2, 16)), ((512, 4096), (4, 64))
#: Seconds of calls that tell the speed, and the most calls: two of a large model, more of a tiny one.
ENOUGH_S, MOST_CALLS = 0.1, 10
#: The least share of a larger call that its tokens take: what disturbs the timing may hide it.
LEAST_SHARE = 1 / 8
#: Share of the slots of sampling that are busy: the others have ended their turn, or wait for the end of the shard.
BUSY = 0.9
#: Episodes of demonstrations that the environment is timed with, where no trial was needed.
TIMED_EPISODES = 2
#: Seconds of timed steps from which their share of a core says something, and the share from which a process has the core for itself.
LONG_S, ALONE = 20.0, 0.7
#: Assumed seconds of a reply by a model server, and tokens a second of each utterance that a model server samples: nothing is asked before a run.
SERVER_REPLY_S, SERVER_TOKENS_S = 2.0, 30.0


def measure(
    run: Run, work_of: Callable[[Lengths], Work], has_model: bool = True, timer: Callable[[], float] = time.perf_counter
) -> tuple[Lengths, Speeds]:
    """Sizes of the run's dialogues, and the speeds of this machine, measured now.

    Args:
        run: The run.
        work_of: Work that is to be timed, by the sizes of dialogues; what it does not need is not timed.
        has_model: Whether the run has a model, whose tokenizer is loaded; without, a token is taken to be four characters.
        timer: A clock, in seconds.
    """
    start = timer()
    with preserve_rng_state():
        dialogues, source = known_dialogues(run)
        tokenizer = tokenizer_of(run, dialogues) if has_model else None
        lengths = find_lengths(run, tokenizer, dialogues, source)
        work, speeds, notes = work_of(lengths), Speeds(), []
        if work.sampled or work.read or work.trained:
            begun = timer(), time.process_time()
            speeds, notes = _of_engine(run, time_model(run, tokenizer, work, lengths, timer))
            notes += shared_with_others(timer() - begun[0], time.process_time() - begun[1])
        if work.episodes:
            trial = time_environment(run, dialogues)
            speeds = replace(speeds, reset_s=trial.reset_s, turn_s=trial.step_s, waits=run.record.waits)
            if not trial.num_steps:
                speeds, notes = (
                    replace(speeds, turn_s=SERVER_REPLY_S, waits=True),
                    [*notes, f"replies are assumed to take {SERVER_REPLY_S:g} s"],
                )
    basis = f"estimated from {max(1, round(timer() - start))} s of timed steps on this machine"
    return lengths, replace(speeds, basis="; ".join([basis, *notes]))


def shared_with_others(seconds: float, busy: float) -> list[str]:
    """A note if the process had less than a core while it computed on it."""
    if torch.cuda.is_available() or seconds < LONG_S or busy > ALONE * seconds:
        return []
    return [f"the timed steps had {busy / seconds:.0%} of a core: other processes keep this machine busy"]


def _of_engine(run: Run, timed: Speeds | str) -> tuple[Speeds, list[str]]:
    """The speeds with those of an engine outside of this process or of vLLM, and what is assumed or failed."""
    engine, notes = run.config.model.engine, [timed] if isinstance(timed, str) else []
    speeds = Speeds() if isinstance(timed, str) else timed
    if engine == "server":
        speeds = replace(speeds, sample=Line(call=1 / SERVER_TOKENS_S), prompt=Line())
        notes.append(f"servers are assumed to sample {SERVER_TOKENS_S:g} tokens a second in each utterance")
    elif engine == "vllm" and torch.cuda.is_available():
        shape, _ = find_shape(run.config)
        sampled = here().sampled(shape.parameters if shape is not None else 8e9)
        speeds = replace(speeds, sample=Line(token=1 / sampled), prompt=Line())
        notes.append("sampling by vLLM is assumed, not timed")
    return speeds, notes


def time_environment(run: Run, dialogues: Sequence[Messages]) -> Trial:
    """Times of the environment: of the trial episodes, or where none was needed of some dialogues; of no steps where only a service could answer.

    Args:
        run: The run.
        dialogues: Dialogues that the agent's messages are taken from.
    """
    trial = trial_of(run.config, run.record)
    if trial.num_steps or trial.untried:
        return trial
    texts = [[message["content"] for message in messages if message["role"] == "assistant"] for messages in dialogues]
    texts = [spoken for spoken in texts if spoken] or [
        ["What should it do?", f"{run.record.answer_prefix}pass"]
    ] * TIMED_EPISODES
    tasks = run.tasks[:TIMED_EPISODES]
    with closing(run.environment(tasks, 2)) as copies:
        copies.envs[0].prepare()
        acts = [partial(_next, spoken) for spoken in texts[:TIMED_EPISODES]]
        return play_trial(copies.envs, [(task.id, act) for task, act in zip(tasks, acts, strict=False)])


def _next(spoken: Sequence[str], messages: object, turn: int) -> str | None:
    return spoken[turn - 1] if turn <= len(spoken) else None


def time_model(run: Run, tokenizer: Any, work: Work, lengths: Lengths, timer: Callable[[], float]) -> Speeds | str:
    """Speeds of the run's model in what the work needs; or why they are not known, in words.

    Args:
        run: The run.
        tokenizer: The model's tokenizer.
        work: The work.
        lengths: Sizes of a dialogue.
        timer: A clock, in seconds.
    """
    if run.config.model.engine == "vllm" and not torch.cuda.is_available():
        return "the model is not timed, since `--engine vllm` is timed on a GPU only"
    if not (work.read or work.trained or run.config.model.engine == "transformers"):
        return Speeds()  # servers sample
    try:
        return TimedModel(run, tokenizer, lengths, timer).speeds(work)
    except Exception as error:  # libraries raise any type; the checks name what is wrong with the model
        return f"the model cannot be timed ({type(error).__name__}: {' '.join(str(error).split())[:100]})"


class TimedModel:
    """A model of the run's shape with random weights; arguments as in `time_model`."""

    def __init__(self, run: Run, tokenizer: Any, lengths: Lengths, timer: Callable[[], float]) -> None:
        self.config, self.arguments = model_config(run.config, tokenizer).get_text_config(), run.config.model
        self.tokenizer, self.timer, self.context = tokenizer, timer, max(1, round(lengths.prefix))
        self.num_layers = int(self.config.num_hidden_layers)
        (longest, most), self.dialogues = ON_GPU if torch.cuda.is_available() else ON_CPU
        self.tokens = max(4, min(longest, round(lengths.dialogue)))  # of a sequence, and with logits
        self.scored = min(self.tokens - 1, max(1, round(self.tokens * lengths.spoken / lengths.dialogue)))
        self.sequences = 1, max(2, most // self.tokens)

    def speeds(self, work: Work) -> Speeds:
        """The speeds that the work needs, measured now."""
        speeds, samples = Speeds(), work.sampled and self.arguments.engine == "transformers"
        if work.read or samples:
            read = self._of_passes(self._whole(False, self._reading))
            speeds = replace(speeds, read=read, prompt=read)
        if samples:
            token = line(self.dialogues, self._whole(False, self._sampling))
            speeds = replace(speeds, sample=Line(token.call / BUSY, token.token / BUSY))
        if work.trained:
            *passes, step_s = self._whole(True, self._training)
            speeds = replace(speeds, train=self._of_passes(passes), step_s=step_s)
        return speeds

    def _of_passes(self, seconds: list[float]) -> Line:
        return line([rows * self.tokens for rows in self.sequences], seconds)

    def _whole(self, is_trained: bool, times_of: Callable[[Any], list[float]]) -> list[float]:
        """Times of the model with all layers, from those with a few."""
        model = self._make(is_trained)
        times = times_of(model)
        if self.num_layers <= max(LAYERS):
            return times
        _cut(model, LAYERS[0])
        others = (self.num_layers - LAYERS[0]) / (LAYERS[1] - LAYERS[0])
        return [few + others * max(many - few, 0.0) for few, many in zip(times_of(model), times, strict=True)]

    def _make(self, is_trained: bool) -> Any:
        """The model with its first layers."""
        from transformers import AutoModelForCausalLM

        config = copy.deepcopy(self.config)
        config.num_hidden_layers = min(self.num_layers, max(LAYERS))
        if getattr(config, "layer_types", None):
            config.layer_types = list(config.layer_types)[: config.num_hidden_layers]
        dtype = torch_dtype(self.arguments, is_trained)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False).to(device())
        if is_trained:
            model = adapted(model, replace(self.arguments, lora_layers=0))
            if self.arguments.gradient_checkpointing:
                model.gradient_checkpointing_enable({"use_reentrant": False})
        return model.train(is_trained)

    def _time(self, call: Callable[[], object]) -> float:
        """Seconds of the fastest of some calls: the first warms up, and other processes disturb."""
        times: list[float] = []
        while len(times) < 2 or (sum(times) < ENOUGH_S and len(times) < MOST_CALLS):
            start = self.timer()
            call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            times.append(self.timer() - start)
        return min(times)

    def _reading(self, model: Any) -> list[float]:
        return [self._time(partial(self._pass, model, rows, False)) for rows in self.sequences]

    def _training(self, model: Any) -> list[float]:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=0.0)
        passes = [self._time(partial(self._pass, model, rows, True)) for rows in self.sequences]
        return [*passes, self._time(lambda: (nn.utils.clip_grad_norm_(trained, 1.0), optimizer.step()))]

    def _pass(self, model: Any, rows: int, is_trained: bool) -> None:
        """One pass over arbitrary tokens, with logits of the last ones."""
        ids = torch.arange(rows * self.tokens, device=model.device).view(rows, -1) % 64
        with torch.set_grad_enabled(is_trained):
            hidden = body(model)(input_ids=ids, use_cache=False).last_hidden_state[:, -self.scored :]
            head = without_wrapper(model).get_output_embeddings()
            loss = nn.functional.cross_entropy(head(hidden).float().flatten(0, 1), ids[:, -self.scored :].flatten())
        if is_trained:
            loss.backward()

    def _sampling(self, model: Any) -> list[float]:
        """Seconds of a token, from utterances of one and of more tokens; the prompts are equal, so that they are read once."""
        times = []
        for rows in self.dialogues:
            first, whole = (self._time(partial(self._generate, model, rows, count)) for count in (1, SAMPLED))
            times.append(max((whole - first) / (SAMPLED - 1), whole / SAMPLED / 4))
        return times

    def _generate(self, model: Any, rows: int, count: int) -> None:
        dialogue = [{"role": "user", "content": " ".join(["a"] * max(1, self.context // 2))}]
        policy: Any = policy_on(model, self.tokenizer, replace(self.arguments, max_new_tokens=count, generation_batch=rows))
        policy.end_ids = [-1]  # nothing ends before its time
        policy.generate([dialogue] * rows, range(rows))


def line(sizes: Sequence[float], seconds: Sequence[float]) -> Line:
    """The line through the seconds of a small and of a larger call.

    Args:
        sizes: Tokens of both.
        seconds: Seconds of both.
    """
    (small, large), (few, many) = sizes, seconds
    token = max(many - few, LEAST_SHARE * many) / (large - small)
    return Line(max(many - token * large, 0.0), token)


def _cut(model: Any, count: int) -> None:
    """Remove all but the first layers of a model."""
    parent, _, name = LAYERS_OF.rpartition(".")
    base = without_wrapper(model)
    owner = base.get_submodule(parent)
    setattr(owner, name, getattr(owner, name)[:count])
    base.config.num_hidden_layers = count
