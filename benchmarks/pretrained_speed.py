"""A pretrained model on a CPU: our sampling against plain `generate`, our DPO against plain TRL, in one run.

    PYTHONPATH=. python benchmarks/pretrained_speed.py --model FOLDER [--rounds 3] [--output benchmarks/results/pretrained_speed.json]

Every measurement runs in a process of its own, so that its peak memory is its own; sides alternate, and medians and ranges over the rounds are written.

    sampling: dialogues of six turns with the embedded tasks' requests, questions and replies, 32 at a time; a turn has exactly --new_tokens tokens, the last
        one --answer_tokens. Plain: transformers' `generate` reads the whole dialogue again in every turn. Ours: `ContinuousTransformersPolicy`.
        "adapter" is the plain side on the model with an unmerged adapter, as training leaves it.
    dpo: pairs of turns behind a dialogue, LoRA of rank 16 on all linear layers, the same pairs, batches and adapters on both sides, reference included.
        Plain: TRL's `DPOTrainer`. Ours: `PrecomputingDPOTrainer` with `trainer_arguments`, once with adapters in all layers and once with adapters in the
        upper half, which is our recipe and no fair comparison. With --pairs_per_turn N every dialogue has N pairs, and a further side has them side by
        side (`TurnwiseDPOTrainer`). All compute in bfloat16 where the processor has instructions for it, else in float32.

Tokens are those of the dialogues: prompts and both sides of a pair count once per epoch, whatever a side computes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIDES = {
    "sampling": ("plain", "adapter", "ours"),
    "dpo": ("plain", "ours", "upper_half"),
}
TURNS = 6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dialogues", type=int, default=32)
    parser.add_argument("--new_tokens", type=int, default=20)
    parser.add_argument("--answer_tokens", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--pairs_per_turn", type=int, default=1, help="pairs behind the same dialogue")
    parser.add_argument("--batch", type=int, default=2, help="pairs per forward pass")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", choices=tuple(SIDES))
    parser.add_argument("--side", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        print(json.dumps(measure(given, *given.side.split("/"))))
        return 0
    sides = {**SIDES, "dpo": (*SIDES["dpo"], *(["by_turn"] if given.pairs_per_turn > 1 else []))}
    chosen = [f"{kind}/{side}" for kind, of in sides.items() if given.only in (None, kind) for side in of]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
    for number in range(given.rounds):
        for name in chosen if number % 2 == 0 else reversed(chosen):
            words = [sys.executable, __file__, *sys.argv[1:], "--side", name]
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            runs[name].append(json.loads(done.stdout.strip().splitlines()[-1]))
            print(number + 1, name, runs[name][-1], flush=True)
    summaries = {name: summary(rows) for name, rows in runs.items()}
    ratios = {
        f"{kind}: {side} / plain": summaries[f"{kind}/{side}"]["tokens_per_s"]["median"]
        / summaries[f"{kind}/plain"]["tokens_per_s"]["median"]
        for kind, side in (name.split("/") for name in chosen)
        if side != "plain"
    }
    result = {
        "model": Path(given.model).name,
        "settings": {name: value for name, value in vars(given).items() if name not in ("output", "side", "only", "model")},
        "machine": machine(),
        "sides": summaries,
        "ratios": {name: round(value, 2) for name, value in ratios.items()},
    }
    print(json.dumps(result["ratios"], indent=1))
    if given.output:
        given.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def summary(rows: list[dict[str, float]]) -> dict[str, Any]:
    names = rows[0].keys()
    values = {name: sorted(row[name] for row in rows) for name in names}
    return {
        name: {"median": round(statistics.median(of), 2), "range": [round(of[0], 2), round(of[-1], 2)]}
        for name, of in values.items()
    }


def machine() -> dict[str, Any]:
    import torch

    from sweetrl_agent.models.loading import bfloat16_instructions

    return {
        "cpu": torch.cpu.get_capabilities().get("cpu_name"),
        "cores": os.cpu_count(),
        "bfloat16": bfloat16_instructions(),
        "torch": torch.__version__,
    }


def measure(given: argparse.Namespace, kind: str, side: str) -> dict[str, float]:
    from sweetrl_agent.config.command_line import prepare_process

    prepare_process()
    tokens, seconds = (sampling if kind == "sampling" else dpo)(given, side)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"tokens_per_s": tokens / seconds, "seconds": seconds, "tokens": tokens, "peak_mib": peak}


def dialogues(count: int) -> list[list[dict[str, str]]]:
    """Demonstrations with six turns."""
    from colbench_gym.simulators import make
    from colbench_gym.tasks import load_tasks
    from sweetrl_agent.envs.backend_demonstrations import PRETRAINED, demonstrations

    tasks = load_tasks("embedded:train")
    played = demonstrations(tasks, make("scripted"), 4 * count, 0, PRETRAINED)
    whole = [dialogue for dialogue in played if len(dialogue) == 2 * TURNS]
    return whole[:count]


def timed(work: Callable[[], int]) -> tuple[int, float]:
    start = time.perf_counter()
    tokens = work()
    return tokens, time.perf_counter() - start


def arguments_of(given: argparse.Namespace) -> Any:
    from sweetrl_agent.config.model import ModelArguments

    return ModelArguments(model=given.model, lora=True, system_prompt="brief", generation_batch=given.dialogues)


def sampling(given: argparse.Namespace, side: str) -> tuple[int, float]:
    """New tokens of all turns, and the time for them with the reading of prompts."""
    import torch

    from sweetrl_agent.data.chat import Chat
    from sweetrl_agent.models.loading import adapted, load_model, load_tokenizer, system_prompt
    from sweetrl_agent.policies.continuous import ContinuousTransformersPolicy
    from sweetrl_agent.policies.utterances import Speaker

    arguments = arguments_of(given)
    tokenizer = load_tokenizer(given.model, arguments)
    model = load_model(given.model, given.model, arguments).eval()
    if side == "adapter":
        model = adapted(model, arguments).eval()
    played = dialogues(given.dialogues)
    sizes = [given.new_tokens] * (TURNS - 1) + [given.answer_tokens]

    def plain() -> int:
        tokenizer.padding_side = "left"
        instructions = [{"role": "system", "content": system_prompt(arguments)}]
        for turn, size in enumerate(sizes):
            prompts = [Chat(tokenizer).prompt([*instructions, *dialogue[: 2 * turn + 1]]) for dialogue in played]
            batch = tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
            with torch.inference_mode():
                model.generate(**batch, do_sample=True, temperature=0.8, top_k=0, max_new_tokens=size, min_new_tokens=size)
        return len(played) * sum(sizes)

    def ours() -> int:
        policy = ContinuousTransformersPolicy(
            model, Speaker(tokenizer, max(sizes), 0.8, system_prompt(arguments)), batch_size=given.dialogues
        )
        policy.end_ids = frozenset()
        num_tokens = 0
        for turn, size in enumerate(sizes):
            policy.speaker.max_new_tokens = size
            for i, dialogue in enumerate(played):
                policy.add(i, dialogue[: 2 * turn + 1], turn)
            left = len(played)
            while left:
                ended = policy.step()
                left -= len(ended)
                num_tokens += sum(len(utterance.token_ids) for _, utterance in ended)
        return num_tokens

    return timed(ours if side == "ours" else plain)


def dpo(given: argparse.Namespace, side: str) -> tuple[int, float]:
    """Tokens of all pairs, and the time of an epoch on them with the reference."""
    from dataclasses import replace

    import torch
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    from sweetrl_agent.data.chat import Chat
    from sweetrl_agent.models.loading import initial_model, load_tokenizer, torch_dtype
    from sweetrl_agent.trainers.running import trainer_arguments
    from sweetrl_agent.trainers.trl.by_turn import TurnwiseDPOTrainer
    from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only
    from sweetrl_agent.trainers.trl.on_disk import on_disk
    from sweetrl_agent.trainers.trl.precomputed import PrecomputingDPOTrainer

    arguments = arguments_of(given)
    tokenizer = load_tokenizer(given.model, arguments)
    count = given.pairs_per_turn
    talks = dialogues(given.pairs + count + 1)
    rows = [
        {"prompt": talk[: 2 * turn + 1], "chosen": [better[2 * turn + 1]], "rejected": [other[2 * turn + 1]]}
        for i in range(0, given.pairs, count)
        for talk, turn in [(talks[i], i // count % TURNS)]
        for better, other in zip(talks[i : i + count], talks[i + 1 :], strict=False)
    ]
    tokens = sum(
        len(Chat(tokenizer).sequences([*row["prompt"], *row[pair_side]])[0].token_ids)
        for row in rows
        for pair_side in ("chosen", "rejected")
    )
    with tempfile.TemporaryDirectory() as folder:
        shared = {"beta": 0.1, "loss_type": ["sigmoid_norm", "sft"], "loss_weights": [1.0, 1.0], "max_length": None}
        if side == "plain":
            trainer = DPOTrainer(
                **initial_model(given.model, arguments),
                args=DPOConfig(
                    output_dir=folder, per_device_train_batch_size=given.batch, gradient_accumulation_steps=8 // given.batch,
                    bf16=torch_dtype(arguments) == torch.bfloat16, use_cpu=True, report_to=[], num_train_epochs=1, save_strategy="no", disable_tqdm=True,
                    gradient_checkpointing=False, **shared,
                ),
                train_dataset=Dataset.from_list(rows),
                processing_class=tokenizer,
            )  # fmt: skip
            return timed(lambda: trainer.train() and tokens)
        half = replace(arguments, lora_layers=0 if side == "ours" else 12)
        given_arguments = trainer_arguments(Path(folder), 0, half, 8, given.batch, 1e-5, 1.0) | {"save_strategy": "no"}

        def ours() -> int:  # the trainer computes the reference's log-probabilities when it is made
            trainer = (TurnwiseDPOTrainer if side == "by_turn" else PrecomputingDPOTrainer)(
                **loaded,
                args=DPOConfig(**given_arguments, precompute_ref_log_probs=True, **shared),
                train_dataset=on_disk(iter(rows), Path(folder)),
                processing_class=tokenizer,
            )
            score_labelled_tokens_only(trainer)
            trainer.train()
            return tokens

        loaded = initial_model(given.model, half)
        return timed(ours)


if __name__ == "__main__":
    sys.exit(main())
