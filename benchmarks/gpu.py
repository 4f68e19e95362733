"""Speed on one GPU, within minutes: tokens per second and share of the chip's peak for sampling, ranking and training.

    PYTHONPATH=. python benchmarks/gpu.py --output benchmarks/results/gpu.json

The model has random weights in the shape of Llama-3.2-1B, in bfloat16. Its operations are counted, not estimated. Without a GPU it prints a
message and exits with status 0. `--rehearse` runs the same code on a CPU with a tiny shape, to test it before a GPU is available.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from speed import CANDIDATES, naive_log_probs, rows_of_pairs, shared_log_probs
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM
from trl import DPOConfig, DPOTrainer

from sweetrl_agent.data.files import write_json
from sweetrl_agent.data.run import versions
from sweetrl_agent.models.tiny import build_tokenizer
from sweetrl_agent.policies.continuous import ContinuousTransformersPolicy
from sweetrl_agent.trainers.critic import SweetCriticConfig, SweetCriticTrainer

#: Dense bfloat16 operations per second, from the manufacturers' data sheets, for the first name that the GPU's name contains.
PEAKS = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "A10G": 70e12,
    "L4": 121e12,
    "4090": 165e12,
}
SHAPE = {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
}  # fmt: skip
TINY = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
Figures = dict[str, Any]


class Bench:
    """One device, and the shape of the measured model."""

    def __init__(self, device: str, repeats: int) -> None:
        """Measure on "cuda", or rehearse on "cpu"."""
        self.device, self.repeats, self.is_real = device, repeats, device == "cuda"
        self.dtype = torch.bfloat16 if self.is_real else torch.float32
        self.prompt, self.candidate, self.spoken = (1500, 100, 256) if self.is_real else (60, 10, 8)
        self.vocab_size = 32000 if self.is_real else 1000
        name = torch.cuda.get_device_name() if self.is_real else ""
        self.peak = next((peak for part, peak in PEAKS.items() if part in name), None)

    def model(self, seed: int) -> LlamaForCausalLM:
        """Random weights."""
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=self.vocab_size,
            **(SHAPE if self.is_real else TINY),
            max_position_embeddings=8192,
            tie_word_embeddings=True,
        )
        with torch.device(self.device):
            return LlamaForCausalLM(config).to(self.dtype).eval()

    def seconds(self, work: Callable[[], Any]) -> float:
        """Median seconds, after one warm-up call."""
        found = []
        for _ in range(self.repeats + 1):
            self.wait()
            begin = time.monotonic()
            work()
            self.wait()
            found.append(time.monotonic() - begin)
        return statistics.median(found[1:])

    def wait(self) -> None:
        """Wait until the device has finished."""
        if self.is_real:
            torch.cuda.synchronize()

    def rate(self, work: Callable[[], Any], tokens: int) -> Figures:
        """Tokens a second, operations, and share of the peak."""
        with FlopCounterMode(display=False) as counter:
            work()
        seconds, operations = self.seconds(work), counter.get_total_flops()
        return {
            "seconds": seconds,
            "tokens_per_second": tokens / seconds,
            "operations": operations,
            "share_of_peak": operations / seconds / self.peak if self.peak else None,
            "memory_mib": torch.cuda.max_memory_allocated() / 2**20 if self.is_real else None,
        }


def ranking(bench: Bench) -> Figures:
    """16 candidates of 100 tokens after a prompt of 1,500, one model: the naive way, and with a shared prompt."""
    model = bench.model(0)
    random = torch.Generator().manual_seed(0)
    prompt = torch.randint(10, bench.vocab_size, (bench.prompt,), generator=random).tolist()
    candidates = torch.randint(10, bench.vocab_size, (CANDIDATES, bench.candidate), generator=random).tolist()
    ways = {"naive": naive_log_probs, "shared": shared_log_probs}
    tokens = CANDIDATES * (bench.prompt + bench.candidate)
    found: Figures = {name: bench.rate(lambda way=way: way(model, prompt, candidates), tokens) for name, way in ways.items()}
    means = [torch.stack([x.mean().cpu() for x in way(model, prompt, candidates)]) for way in ways.values()]
    return {
        **found,
        "throughput_ratio": found["naive"]["seconds"] / found["shared"]["seconds"],
        "largest_difference_of_means": float((means[0] - means[1]).abs().max()),
    }


def sampling(bench: Bench) -> Figures:
    """64 concurrent dialogues, with the continuous batching of `policies.continuous`."""
    tokenizer = build_tokenizer((message["content"] for row in rows_of_pairs(8) for message in row["chosen"]), 500, 4)
    dialogues = [row["chosen"][:1] for row in rows_of_pairs(64)]
    tokenizer.eos_token = "<|never|>"  # every dialogue speaks to the limit
    policy = ContinuousTransformersPolicy(bench.model(0), tokenizer, bench.spoken, batch_size=len(dialogues))
    return bench.rate(lambda: policy.generate(dialogues, range(len(dialogues))), len(dialogues) * bench.spoken)


def training(bench: Bench, kind: str) -> Figures:
    """A step of the critic or of DPO, with its reference."""
    rows = rows_of_pairs(8)
    tokenizer = build_tokenizer((m["content"] for row in rows for m in row["chosen"]), 500, 4)
    models: dict[str, Any] = {"model": bench.model(0), "ref_model": bench.model(1), "processing_class": tokenizer}
    with tempfile.TemporaryDirectory() as folder:
        common: dict[str, Any] = {
            "output_dir": folder, "per_device_train_batch_size": 8, "use_cpu": not bench.is_real, "bf16": bench.is_real, "max_length": 4096,
            "gradient_checkpointing": False, "report_to": [], "disable_tqdm": True, "learning_rate": 1e-6,
        }  # fmt: skip
        trainer: Any
        if kind == "critic":
            trainer = SweetCriticTrainer(**models, args=SweetCriticConfig(**common), train_dataset=Dataset.from_list(rows))
        else:
            turns = [
                {"prompt": row["chosen"][:-1], "chosen": row["chosen"][-1:], "rejected": row["rejected"][-1:]} for row in rows
            ]
            trainer = DPOTrainer(**models, args=DPOConfig(**common), train_dataset=Dataset.from_list(turns))
        trainer.model.train()
        trainer.create_optimizer()
        batch = {name: value.to(bench.device) for name, value in next(iter(trainer.get_train_dataloader())).items()}

        def step() -> None:
            trainer.accelerator.backward(trainer.compute_loss(trainer.model, dict(batch)))
            trainer.optimizer.step()
            trainer.optimizer.zero_grad()

        return bench.rate(step, int(batch["attention_mask"].sum()))


def main() -> None:
    """Measure and print; write the table if `--output` is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rehearse", action="store_true", help="on a CPU, with a tiny shape: the figures mean nothing")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    if not given.rehearse and not torch.cuda.is_available():
        print("No GPU here: nothing was measured. `--rehearse` runs the same code on a CPU.")
        return
    bench = Bench("cpu" if given.rehearse else "cuda", given.repeats)
    found: Figures = {
        "machine": "rehearsal on a CPU" if given.rehearse else torch.cuda.get_device_name(),
        "peak": bench.peak,
        "when": datetime.now(UTC).date().isoformat(),
        "versions": versions()["packages"],
    }
    parts: dict[str, Callable[[], Figures]] = {
        "ranking": lambda: ranking(bench),
        "sampling": lambda: sampling(bench),
        "critic": lambda: training(bench, "critic"),
        "dpo": lambda: training(bench, "dpo"),
    }
    for name, measure in parts.items():
        if bench.is_real:
            torch.cuda.reset_peak_memory_stats()
        found[name] = measure()
        print(json.dumps({name: found[name]}, indent=2), flush=True)
    if given.output:
        write_json(given.output, found)


if __name__ == "__main__":
    main()
