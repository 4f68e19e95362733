"""Speedup over naive implementations, as ratios in one run: ranking with a shared prompt, collection, and training steps.

    PYTHONPATH=. python benchmarks/speed.py --output benchmarks/results/speed.json [--figures ranking collection training]

Medians of `--repeats` rounds. The implementations alternate in each round, because machines are noisy. Other figures in the output file are
kept. The models have random weights in the shape of SmolLM2-135M, because speed does not depend on the weights. Collection uses a tiny model
that was trained on dialogues for half a minute.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from datasets import Dataset
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM
from trl import DPOConfig, DPOTrainer

import colbench_gym  # noqa: F401  # registers the environments
from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.simulators import Simulator, make
from colbench_gym.tasks import Task, load_tasks
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.messages import hint_message
from sweetrl_agent.core.seeds import derive_seed
from sweetrl_agent.critics.advantage import candidate_log_probs
from sweetrl_agent.data.files import write_json
from sweetrl_agent.data.machine import peak_memory_mib, versions
from sweetrl_agent.envs.backend_demonstrations import demonstrations
from sweetrl_agent.models.loading import load_model, load_policy, load_tokenizer
from sweetrl_agent.models.tiny import build_tokenizer
from sweetrl_agent.policies.transformers import TransformersPolicy
from sweetrl_agent.rollouts.play import episodes_of, play
from sweetrl_agent.trainers.critic import SweetCriticConfig, SweetCriticTrainer
from sweetrl_agent.trainers.trl.precomputed import PrecomputingDPOTrainer

Figures = dict[str, Any]
PROMPT, CANDIDATES, CANDIDATE = 1500, 16, 100
LATENCY, DIALOGUES = 0.05, 64
#: Maximal difference in scores and losses between the fast and the naive implementations.
SAME = 1e-5


def model_135m(seed: int, vocab_size: int = 49152) -> LlamaForCausalLM:
    """Random weights in the shape of SmolLM2-135M."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=vocab_size, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True,
    )).eval()  # fmt: skip


# ---- 1. Ranking -----------------------------------------------------------------------------------------------------------


@torch.inference_mode()
def naive_log_probs(model: Any, prompt: list[int], candidates: list[list[int]]) -> list[torch.Tensor]:
    """Every candidate with its own copy of the prompt; logits for the candidate's tokens only."""
    found = []
    for ids in candidates:
        logits = model(torch.tensor([prompt + ids]), use_cache=False, logits_to_keep=len(ids) + 1).logits[0, :-1]
        found.append(torch.log_softmax(logits.float(), dim=-1).gather(1, torch.tensor(ids)[:, None])[:, 0])
    return found


@torch.inference_mode()
def shared_log_probs(model: Any, prompt: list[int], candidates: list[list[int]]) -> list[torch.Tensor]:
    """The prompt is computed once for all candidates."""
    return candidate_log_probs(model, prompt, candidates)


def ranking(repeats: int) -> Figures:
    """Log-ratios of 16 candidates of 100 tokens after a prompt of 1,500, under a critic and its reference."""
    models = [model_135m(seed) for seed in (0, 1)]
    random = torch.Generator().manual_seed(0)
    prompt = torch.randint(10, 49000, (PROMPT,), generator=random).tolist()
    candidates = torch.randint(10, 49000, (CANDIDATES, CANDIDATE), generator=random).tolist()
    ways = {"naive": naive_log_probs, "shared": shared_log_probs}
    scores, flops = {}, {}
    for name, way in ways.items():
        with FlopCounterMode(display=False) as counter:
            log_probs = [way(model, prompt, candidates) for model in models]
        scores[name] = torch.stack([(a - b).mean() for a, b in zip(*log_probs, strict=True)])
        flops[name] = counter.get_total_flops()
    seconds = timed(
        {name: lambda way=way: [way(model, prompt, candidates) for model in models] for name, way in ways.items()}, repeats
    )
    return {
        "seconds": seconds,
        "throughput_ratio": seconds["naive"] / seconds["shared"],
        "operations_ratio": flops["naive"] / flops["shared"],
        "operations": flops,
        "largest_difference_of_scores": float((scores["naive"] - scores["shared"]).abs().max()),
    }


# ---- 2. Collection --------------------------------------------------------------------------------------------------------


class Late(Simulator):
    """The scripted human with a delay."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.scripted = seconds, make("scripted")

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """See `Simulator`."""
        time.sleep(self.seconds)
        return self.scripted.reply(task, dialogue, seed)


def initial_model() -> str:
    """A tiny model that was trained on dialogues for half a minute."""
    folder = Path(tempfile.mkdtemp(prefix="speed-")) / "run"
    command = [sys.executable, "-m", "sweetrl_agent.train", "--stage", "sft", "--sft_dialogues", "1500"]
    subprocess.run([*command, "--sft_epochs", "1", "--output", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return str(folder / "initial")


def collection(repeats: int) -> Figures:
    """Agent turns per second with 64 dialogues and a simulated human that takes 50 ms; the ideal is the same agent with 0 ms."""
    start = initial_model()
    tasks = load_tasks("embedded:train[:64]")
    policy = load_policy(start, start, ModelArguments(generation_batch=DIALOGUES))
    arguments = ModelArguments()
    rounds = TransformersPolicy(load_model(start, start, arguments), load_tokenizer(start, arguments), arguments.max_new_tokens)

    def ours(agent: Any, latency: float) -> float:
        env = ColBenchVectorEnv(num_envs=DIALOGUES, tasks=tasks, simulator=Late(latency))
        with closing(env):
            env.envs[0].prepare()
            begin = time.monotonic()
            played = [t for shard in play(agent, env, episodes_of([task.id for task in tasks], 4), 0, "speed") for t in shard]
            return sum(len(t.turns) for t in played) / (time.monotonic() - begin)

    ways: dict[str, Callable[[], float]] = {
        "ideal: no latency": lambda: ours(policy, 0.0),
        "ours": lambda: ours(policy, LATENCY),
        "ours in rounds": lambda: ours(rounds, LATENCY),
        "gymnasium async": lambda: lock_step(rounds, partial(AsyncVectorEnv, shared_memory=False), 10),
        "gymnasium sync": lambda: lock_step(rounds, SyncVectorEnv, 3),
    }
    if importlib.util.find_spec("gem"):
        ways["gem-llm async"] = lambda: lock_step_of_gem(rounds, 10)
    else:
        print("gem-llm is not measured: `pip install --no-deps gem-llm==0.1.0`", file=sys.stderr)
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            rates[name].append(way())
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "turns_per_second": medians,
        "share_of_ideal": medians["ours"] / medians["ideal: no latency"],
        "against": {name: medians["ours"] / medians[name] for name in ways if name not in ("ours", "ideal: no latency")},
    }


def make_late_env() -> gym.Env[Any, Any]:
    """One dialogue environment, for Gymnasium's vector environments."""
    return gym.make("ColBench-Backend-v0", tasks="embedded:train[:64]", simulator=Late(LATENCY), sandbox="embedded")


def lock_step(policy: TransformersPolicy, kind: Any, steps: int) -> float:
    """Turns per second of Gymnasium's own vector environments; finished dialogues are reset in the same step."""
    env = kind([make_late_env] * DIALOGUES, autoreset_mode=AutoresetMode.SAME_STEP)
    with closing(env):
        _, infos = env.reset(seed=0)
        begin = time.monotonic()
        for step in range(steps):
            said = policy.generate(list(infos["messages"]), [derive_seed(0, step, i) for i in range(DIALOGUES)])
            *_, infos = env.step([utterance.text for utterance in said])
        return steps * DIALOGUES / (time.monotonic() - begin)


def lock_step_of_gem(policy: TransformersPolicy, steps: int) -> float:
    """The same with gem-llm's thread pool, with our environment behind its interface."""
    from gem.core import Env
    from gem.vector.async_vector_env import AsyncVectorEnv as ThreadedVectorEnv

    class Wrapped(Env):  # type: ignore[misc]
        def __init__(self) -> None:
            self.env = make_late_env()

        def reset(self, seed: int | None = None) -> Any:
            return self.env.reset(seed=seed)

        def step(self, action: str) -> Any:
            return self.env.step(action)

    env = ThreadedVectorEnv(env_ids=["ColBench"] * DIALOGUES, env_fns=[Wrapped] * DIALOGUES)
    _, infos = env.reset(seed=0)
    begin = time.monotonic()
    for step in range(steps):
        said = policy.generate([info["messages"] for info in infos], [derive_seed(0, step, i) for i in range(DIALOGUES)])
        *_, infos = env.step([utterance.text for utterance in said])
    rate = steps * DIALOGUES / (time.monotonic() - begin)
    for each in env.envs:
        each.env.close()
    return rate


# ---- 3. Training ----------------------------------------------------------------------------------------------------------


def rows_of_pairs(count: int) -> list[dict[str, Any]]:
    """Pairs of dialogues on embedded tasks. As in real pairs, they differ after the request."""
    tasks = load_tasks(f"embedded:train[:{count}]")
    sides = [demonstrations(tasks, make("scripted"), count, seed) for seed in (1, 2)]
    talks = [[[m for m in dialogue if m["role"] != "system"] for dialogue in side] for side in sides]
    return [
        {"hidden": task.hidden.reference, "chosen": a, "rejected": b}
        for task, a, b in zip(tasks, *talks, strict=True)
    ]  # fmt: skip


def trainer_for(kind: str, is_ours: bool, folder: str, model: Any, reference: Any) -> Any:
    """The trainer of the critic or of DPO on the same pairs: TRL's, or ours, which precomputes the reference and needs no second model."""
    rows = rows_of_pairs(8)
    tokenizer = build_tokenizer((m["content"] for row in rows for m in row["chosen"]), 500, 4)
    models: dict[str, Any] = {"model": model, "ref_model": reference, "processing_class": tokenizer}
    common: dict[str, Any] = {
        "output_dir": folder, "per_device_train_batch_size": 4, "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
        "report_to": [], "max_length": 4096, "disable_tqdm": True, "learning_rate": 1e-5, "logging_steps": 1, "num_train_epochs": 1,
        "save_strategy": "no", "precompute_ref_log_probs": is_ours,
    }  # fmt: skip
    if kind == "critic":
        return SweetCriticTrainer(**models, args=SweetCriticConfig(**common), train_dataset=Dataset.from_list(rows))
    turns = [
        {"prompt": [*hint_message(row["hidden"], noun="function"), *row["chosen"][:-1]], "chosen": row["chosen"][-1:], "rejected": row["rejected"][-1:]}
        for row in rows
    ]  # fmt: skip
    trainer = PrecomputingDPOTrainer if is_ours else DPOTrainer
    return trainer(**models, args=DPOConfig(**common), train_dataset=Dataset.from_list(turns))


def training_epoch(kind: str, is_ours: bool) -> dict[str, float]:
    """Seconds of an epoch of two steps including the reference model, loss of the second step, and peak memory, in this process."""
    model, reference = model_135m(0), None if is_ours else model_135m(0)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        trainer = trainer_for(kind, is_ours, folder, model, reference)
        trainer.train()
        return {
            "seconds": time.monotonic() - begin,
            "loss": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry][-1],
            "peak_mib": peak_memory_mib(),
            "steps": trainer.state.global_step,
        }


def training(repeats: int) -> Figures:
    """An epoch of the critic and of DPO, TRL's trainer against ours, each in its own process."""
    found: Figures = {}
    for kind in ("critic", "dpo"):
        rows: dict[str, list[dict[str, float]]] = {"stock": [], "ours": []}
        for _ in range(repeats):
            for name, own in rows.items():
                own.append(in_own_process(f"{kind}:{name}"))
        middle = {name: {key: statistics.median(r[key] for r in own) for key in own[0]} for name, own in rows.items()}
        stock, ours = middle["stock"], middle["ours"]
        found[kind] = {
            **middle,
            "speed_ratio": stock["seconds"] / ours["seconds"],
            "memory_ratio": ours["peak_mib"] / stock["peak_mib"],
            "difference_of_losses": abs(stock["loss"] - ours["loss"]),
        }
    return found


# ---- all ------------------------------------------------------------------------------------------------------------------


def in_own_process(what: str) -> dict[str, float]:
    """Run one measurement in a fresh process, to measure its peak memory."""
    done = subprocess.run([sys.executable, __file__, "--measure", what], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def timed(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each implementation. They alternate."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            begin = time.monotonic()
            way()
            seconds[name].append(time.monotonic() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


FIGURES: dict[str, Callable[[int], Figures]] = {"ranking": ranking, "collection": collection, "training": training}


def main() -> None:
    """Measure and print; write the table if `--output` is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", nargs="+", choices=list(FIGURES), default=list(FIGURES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        kind, _, way = given.measure.partition(":")
        print(json.dumps(training_epoch(kind, way == "ours")))
        return
    found: Figures = {}
    for name in given.figures:
        found[name] = FIGURES[name](given.repeats) | {"repeats": given.repeats, "machine": machine()}
        print(json.dumps({name: found[name]}, indent=2), flush=True)
    if given.output:
        known = json.loads(given.output.read_text()) if given.output.exists() else {}
        write_json(given.output, known | found)
    for name, apart in differences(found).items():
        if apart > SAME:
            raise SystemExit(f"{name}: the ways differ by {apart:.1e}, more than {SAME:.0e}; their speeds say nothing.")


def machine() -> Figures:
    """The machine and the date."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor(),
        "when": datetime.now(UTC).date().isoformat(),
        "packages": versions()["packages"],
    }


def processor() -> str:
    """The processor's name, with the vector instructions that matter."""
    try:
        about = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    name = about.partition("model name")[2].partition("\n")[0].strip("\t: ")
    return ", ".join([name, *(flag for flag in ("avx2", "avx512f", "amx_tile", "amx_bf16") if flag in about)])


def differences(found: Figures) -> dict[str, float]:
    """Differences between the results of the implementations."""
    apart = {name: found["training"][name]["difference_of_losses"] for name in ("critic", "dpo") if "training" in found}
    return apart | ({"ranking": found["ranking"]["largest_difference_of_scores"]} if "ranking" in found else {})


if __name__ == "__main__":
    main()
