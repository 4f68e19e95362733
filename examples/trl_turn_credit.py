"""GRPO in TRL with and without credit per turn: the same start, tasks, seeds and number of dialogues.

    python examples/trl_turn_credit.py --seeds 0 1 2 --output runs/trl_credit

Both arms are `TurnCreditGRPOTrainer` on ColBench-Backend-v0, whose reward is success at the end of a dialogue. With weight 0 it is TRL's GRPO; with weight 1 every turn also
gets the information gain of the reply to it, by the frozen start, which needs no training. The start is the tiny policy that comes with the package. Prints success on
test tasks and the paired difference of the arms, and writes results.json, from which a killed comparison goes on, and comparison.json, for charts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

TRAIN = "embedded:train?topics=12&relevant=3&wishes=2&turns=6&points=1[:150]"
TEST = "embedded:test?topics=12&relevant=3&wishes=2&turns=6&points=1[:300]"
ARMS = {"grpo": 0.0, "grpo with turn credit": 1.0}


def train(folder: Path, seed: int, weight: float, steps: int, dialogues: int) -> None:
    """Train a copy of the packaged policy with TRL, in groups of four dialogues, into `folder`."""
    from trl import GRPOConfig

    from sweetrl_agent.bridges.grpo_rollouts import GRPORollouts
    from sweetrl_agent.bridges.trl_turn_credit import TurnCreditGRPOTrainer
    from sweetrl_agent.bridges.turn_credit import Scale, gain_critic
    from sweetrl_agent.config.packaged import FOLDER as PACKAGED

    rollouts = GRPORollouts("ColBench-Backend-v0", tasks=TRAIN, sandbox="embedded", seed=seed)
    critic = gain_critic(str(PACKAGED), rollouts.record.answer_prefix)
    args = GRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=dialogues, num_generations=4, max_steps=steps, max_completion_length=80,
        learning_rate=3e-4, lr_scheduler_type="constant", seed=seed, use_cpu=True, bf16=False, save_strategy="no", report_to="none", logging_steps=1,
    )  # fmt: skip
    trainer = TurnCreditGRPOTrainer(rollouts, critic, Scale(weight=weight), model=str(PACKAGED), args=args)
    trainer.train()
    trainer.save_model(str(folder))
    rollouts.close()


def success(folder: Path, output: Path, tasks: str, seed: int) -> dict[str, Any]:
    """Success of a model folder on tasks, its 95% interval and the number of tasks."""
    from sweetrl_agent.evaluate import run_evaluate

    results = run_evaluate(
        [f"agent={folder}"],
        tasks=tasks,
        output=str(output),
        seeds=[seed],
        sandbox="embedded",
        max_new_tokens=80,
        system_prompt="",  # as in training: a model folder does not say what its model has read
    )
    (score,) = results["agent"].values()
    return {"success": score["success"], "ci95": score["ci95"]["success"], "n": score["n"]}


def compared(folder: Path, seeds: list[int]) -> dict[str, Any]:
    """Scores of both arms over the seeds and their paired difference, with 95% intervals, as `compare` computes them."""
    from colbench_gym.files import read_rows
    from sweetrl_agent.data.machine import versions
    from sweetrl_agent.evaluation.comparison import compare_scores

    files = {
        (arm, seed): folder / f"{arm.replace(' ', '_')}_{seed}_eval" / "evaluation.jsonl" for arm in ARMS for seed in seeds
    }
    rows = {seed: [{**row, "agent": arm} for arm in ARMS for row in read_rows(files[arm, seed])] for seed in seeds}
    return {**compare_scores(rows), "tasks": {}, "versions": versions()}


def main(arguments: list[str] | None = None) -> int:
    """Train and evaluate what is missing, and print a line for each arm and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dialogues", type=int, default=60, help="dialogues per step, a multiple of 4")
    parser.add_argument("--test", default=TEST)
    parser.add_argument("--output", type=Path, default=Path("runs/trl_credit"))
    given = parser.parse_args(arguments)
    path = given.output / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for seed in given.seeds:
        for arm, weight in ARMS.items():
            if f"{arm} {seed}" not in results:
                folder = given.output / f"{arm.replace(' ', '_')}_{seed}"
                train(folder, seed, weight, given.steps, given.dialogues)
                results[f"{arm} {seed}"] = success(folder, given.output / f"{folder.name}_eval", given.test, seed)
                path.write_text(json.dumps(results, indent=1))
            print(f"{arm}, seed {seed}: {results[f'{arm} {seed}']}")
    comparison = compared(given.output, given.seeds)
    (given.output / "comparison.json").write_text(json.dumps(comparison, indent=1))
    (pair,) = comparison["paired"]
    low, high = pair["ci95"]
    print(f"{pair['a']} minus {pair['b']}: {pair['difference']:+.1%} ({low:+.1%} to {high:+.1%}), {pair['seeds']} seeds")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
