"""The measurements of `gpu.py`, each on a model folder with random weights, through the code that a run uses."""

from __future__ import annotations

import gc
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from gpu_model import GIB, PARTS, Part, Shape, Sizes, forward_operations, training_operations
from gpu_words import Figures, Words, about, dtype_on
from transformers import TrainerCallback
from trl import DPOConfig

from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.messages import hint_message
from sweetrl_agent.critics.advantage import candidate_log_probs
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.models.loading import initial_model, load_model, load_tokenizer, policy_on
from sweetrl_agent.trainers.critic import pair_trainer
from sweetrl_agent.trainers.running import train_stage, trainer_arguments
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only
from sweetrl_agent.trainers.trl.on_disk import on_disk
from sweetrl_agent.trainers.trl.precomputed import PrecomputingDPOTrainer

# ---- Clocks ---------------------------------------------------------------------------------------------------------------


def wait() -> None:
    """Wait until the GPU has finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], Any], repeats: int) -> list[float]:
    """Seconds of each call, after one that is not measured."""
    found = []
    for _ in range(repeats + 1):
        wait()
        begin = time.monotonic()
        work()
        wait()
        found.append(time.monotonic() - begin)
    return found[1:]


def spread(values: Sequence[float]) -> Figures:
    """Number, median and range of measured values."""
    return {"n": len(values), "median": statistics.median(values), "least": min(values), "most": max(values)}


def rates(seconds: Sequence[float], tokens: float, operations: float | None, peak: float | None) -> Figures:
    """Tokens a second and share of the peak, from the seconds of equal pieces of work."""
    found: Figures = {"tokens": tokens, "seconds": spread(seconds), "tokens_per_second": spread([tokens / s for s in seconds])}
    if operations is not None:
        found["operations"] = operations
        found["share_of_peak"] = spread([operations / s / peak for s in seconds]) if peak else None
    return found


class StepClock(TrainerCallback):
    """Seconds and tokens of every optimizer step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.tokens: list[int] = [0]
        self._begin = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        wait()
        self._begin = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        wait()
        self.seconds.append(time.monotonic() - self._begin)
        self.tokens.append(int(state.num_input_tokens_seen))


# ---- Sampling and ranking -------------------------------------------------------------------------------------------------


def sample_dialogues(policy: Any, shape: Shape, sizes: Sizes, seed: int) -> tuple[int, int]:
    """Play dialogues in which the human replies at once; returns the tokens sampled and the turns that reached their limit."""
    words = Words(shape.vocab, seed)
    dialogues = [[words.message("user", sizes.request)] for _ in range(sizes.dialogues)]
    counts = []

    def heard(i: int, utterance: Any) -> None:
        counts.append(len(utterance.token_ids))
        dialogues[i] += [{"role": "assistant", "content": utterance.text}, words.message("user", sizes.reply)]

    if not hasattr(policy, "step"):  # vLLM, which batches a round's requests itself and keeps earlier turns in its prefix cache
        for turn in range(sizes.turns):
            seeds = [seed + turn * len(dialogues) + i for i in range(len(dialogues))]
            for i, utterance in enumerate(policy.generate(dialogues, seeds)):
                heard(i, utterance)
    else:
        turns = [0] * len(dialogues)
        for i, dialogue in enumerate(dialogues):
            policy.add(i, dialogue, seed + i)
        while min(turns) < sizes.turns:
            for i, utterance in policy.step():
                heard(i, utterance)
                turns[i] += 1
                if turns[i] < sizes.turns:
                    policy.add(i, dialogues[i], seed + turns[i] * len(dialogues) + i)
                else:
                    policy.forget(i)
    return sum(counts), sum(count == sizes.agent for count in counts)


def sampling(part: Part, shape: Shape, sizes: Sizes, folder: str, device: str, repeats: int) -> Figures:
    """Sampled tokens a second of concurrent dialogues of six turns, reading of all prompts included."""
    arguments = ModelArguments(
        model=folder, dtype=dtype_on(device), max_new_tokens=sizes.agent, temperature=1.0, generation_batch=sizes.dialogues
    )
    if part.engine == "vllm":
        if importlib.util.find_spec("vllm") is None:
            return {"gap": "vLLM is not installed here: `pip install vllm`"}
        from sweetrl_agent.policies.vllm import VLLMPolicy

        policy: Any = VLLMPolicy(
            folder,
            folder,
            sizes.agent,
            1.0,
            load_format="dummy",
            max_model_len=sizes.dialogue + 256,
            gpu_memory_utilization=0.85,
        )
    else:
        policy = policy_on(load_model(folder, folder, arguments), load_tokenizer(folder, arguments), arguments)
    counted: list[tuple[int, int]] = []
    seconds = seconds_of(
        lambda: counted.append(sample_dialogues(policy, shape, sizes, 1000 * len(counted))), repeats
    )  # other texts in every repetition: no prefix of an earlier one is in vLLM's cache
    values = [tokens / s for (tokens, _), s in zip(counted[1:], seconds, strict=True)]
    turns = sizes.dialogues * sizes.turns
    return {
        "dialogues": sizes.dialogues,
        "turns": sizes.turns,
        "seconds": spread(seconds),
        "tokens_per_second": spread(values),
        "whole_turns": min(whole for _, whole in counted) / turns,
    }


def ranking(part: Part, shape: Shape, sizes: Sizes, folder: str, device: str, repeats: int) -> Figures:
    """A turn's candidates under one model: after a prompt that is read once, and each with its own copy of the prompt."""
    arguments = ModelArguments(model=folder, dtype=dtype_on(device))
    model, tokenizer, words = (
        load_model(folder, folder, arguments).eval(),
        load_tokenizer(folder, arguments),
        Words(shape.vocab),
    )
    talk = words.dialogue(words.message("user", sizes.request), sizes.turns // 2, sizes)
    reply = words.message("user", sizes.reply)
    prompt = Chat(tokenizer).prompt([*hint_message(words.text(sizes.hidden)), *talk, reply])
    candidates = [tokenizer(words.text(sizes.agent))["input_ids"] for _ in range(sizes.candidates)]
    said = sum(map(len, candidates))
    peak = about(device)["peak"]

    @torch.inference_mode()
    def shared() -> None:
        candidate_log_probs(model, prompt, candidates)

    @torch.inference_mode()
    def each() -> None:
        for ids in candidates:
            candidate_log_probs(model, prompt, [ids])

    once, behind = (
        forward_operations(shape, [len(prompt)], 0),
        forward_operations(shape, map(len, candidates), said, len(prompt)),
    )
    found: Figures = {"shared": rates(seconds_of(shared, repeats), len(prompt) + said, sum(once) + sum(behind), peak)}
    copies = sum(behind) + sizes.candidates * sum(once)
    found["each"] = rates(seconds_of(each, repeats), len(prompt) * sizes.candidates + said, copies, peak)
    return {**found, "ratio": found["each"]["seconds"]["median"] / found["shared"]["seconds"]["median"]}


# ---- Training -------------------------------------------------------------------------------------------------------------


def trainer_of(part: Part, shape: Shape, sizes: Sizes, folder: str, target: Path, device: str) -> Any:
    """The trainer of the stage with the paper's settings (configs/paper_backend.yaml), on random pairs of exact lengths."""
    model = ModelArguments(
        model=folder, dtype=dtype_on(device), lora=part.trained == "lora", gradient_checkpointing=part.has_checkpoints
    )
    steps = sizes.warm_up + sizes.steps
    arguments = trainer_arguments(target, 0, model, sizes.batch, sizes.micro_batch, 2e-7, 1)
    arguments |= {"max_steps": steps, "save_strategy": "no"}
    words = Words(shape.vocab)
    loss: dict[str, Any] = {"beta": 0.1, "max_length": 8192}
    if part.what == "critic":
        rows = [
            {"hidden": words.text(sizes.hidden)}
            | {side: words.dialogue(request, sizes.turns, sizes) for side in ("chosen", "rejected")}
            for request in (words.message("user", sizes.request) for _ in range(steps * sizes.batch))
        ]
        return pair_trainer(folder, model, rows, target, arguments, nll_coef=0.01, **loss)
    rows = [
        {"prompt": [*words.dialogue(words.message("user", sizes.request), sizes.turns // 2, sizes), words.message("user", sizes.reply)]}
        | {side: [words.message("assistant", sizes.agent)] for side in ("chosen", "rejected")}
        for _ in range(steps * sizes.batch)
    ]  # fmt: skip
    config = DPOConfig(
        **arguments, **loss, loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.01], precompute_ref_log_probs=True
    )
    return PrecomputingDPOTrainer(  # as `algorithms.sweet.train_actor`
        **initial_model(folder, model), args=config, train_dataset=on_disk(rows, target), processing_class=load_tokenizer(folder, model)
    )  # fmt: skip


def sides(row: dict[str, Any]) -> list[tuple[int, int]]:
    """Tokens of both sides of an encoded pair, and how many of them are scored."""
    found = []
    for side in ("chosen", "rejected"):
        ids, turns = row[f"{side}_ids"], row.get(f"{side}_turn_ids")
        found.append((len(row["prompt_ids"]) + len(ids), len(ids) if turns is None else sum(turn > 0 for turn in turns)))
    return found


def training(part: Part, shape: Shape, sizes: Sizes, folder: str, device: str, repeats: int) -> Figures:
    """Tokens a second of optimizer steps, and of the reference's forward passes; under FSDP the finished model is saved, too."""
    peak = about(device)["peak"]
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "model"
        trainer, clock = trainer_of(part, shape, sizes, folder, target, device), StepClock()
        lengths, scored = zip(*sides(trainer.train_dataset[0]), strict=True)  # all pairs have the same lengths
        trainer.add_callback(clock)
        found: Figures = {"precision": precision(trainer), "gradient_checkpointing": part.has_checkpoints}
        if not part.is_fsdp:
            score_labelled_tokens_only(trainer)
            found["reference"] = reference(trainer, part, shape, lengths, scored, repeats, peak)
            trainer.train()
        else:
            found["sharding"] = str(trainer.accelerator.distributed_type.value)
            train_stage(trainer, load_tokenizer(folder, ModelArguments()), target, part.what)
            found["saved"] = sorted(path.name for path in target.iterdir())
        found["weights_in_training"] = types_of(trainer.model)
    tokens = [b - a for a, b in zip(clock.tokens, clock.tokens[1:], strict=False)][sizes.warm_up :]
    operations = training_operations(shape, lengths, sum(scored), part.trained) * sizes.batch
    return found | {"lengths": lengths, "scored": scored, "batch": sizes.batch, "micro_batch": sizes.micro_batch} | rates(
        clock.seconds[sizes.warm_up :], statistics.median(tokens), operations, peak
    )  # fmt: skip


def reference(
    trainer: Any, part: Part, shape: Shape, lengths: Sequence[int], scored: Sequence[int], repeats: int, peak: float | None
) -> Figures:
    """Forward passes of the reference on a micro-batch."""
    size = trainer.args.per_device_train_batch_size
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(size)])
    batch = {name: value.to(trainer.model.device) if hasattr(value, "to") else value for name, value in batch.items()}
    seconds = seconds_of(lambda: trainer._reference_rows(trainer.model, batch), repeats)
    return rates(seconds, size * sum(lengths), size * sum(forward_operations(shape, lengths, sum(scored))), peak)


def precision(trainer: Any) -> str:
    """The precision of accelerate."""
    return f"mixed precision {trainer.accelerator.mixed_precision}"


def types_of(model: Any) -> Figures:
    """Types of the parameters after training: number of trained and of frozen ones."""
    found: Figures = {}
    for parameter in model.parameters():
        name = f"{'trained' if parameter.requires_grad else 'frozen'} {str(parameter.dtype).removeprefix('torch.')}"
        found[name] = found.get(name, 0) + parameter.numel()
    return found


MEASURES = {"sampling": sampling, "ranking": ranking, "critic": training, "actor": training}


def measure(name: str, shape: Shape, sizes: Sizes, folder: str, device: str, repeats: int) -> Figures:
    """One measurement with its peak memory; a failure is a result, too."""
    part, is_gpu = PARTS[name], device == "cuda"
    if is_gpu:
        torch.cuda.reset_peak_memory_stats()
    begin = time.monotonic()
    try:
        found = MEASURES[part.what](part, shape, sizes, folder, device, repeats)
    except Exception as error:  # out of memory, or a package that does not work on this GPU: the other parts are measured
        return {"failure": f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"}
    finally:
        gc.collect()
    if "gap" in found:
        return found
    is_own = part.engine != "vllm"  # vLLM takes a fixed share of the memory, in another process
    found["peak_memory_gib"] = torch.cuda.max_memory_allocated() / GIB if is_gpu and is_own else None
    found["peak_reserved_gib"] = torch.cuda.max_memory_reserved() / GIB if is_gpu and is_own else None
    return {**found, "wall_s": time.monotonic() - begin}
