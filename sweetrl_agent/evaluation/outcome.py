"""The last two stages: evaluation of the initial and the trained policy, and the report."""

from __future__ import annotations

from functools import partial
from typing import Any

from colbench_gym.evaluation.cells import refuse_fewer
from colbench_gym.evaluation.summary import differences
from colbench_gym.evaluation.table import count_lines, difference_lines
from sweetrl_agent.algorithms.critics import CRITICS, SWEET, open_critic
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.config.pipeline import AGENTS
from sweetrl_agent.core.critic import all_advantages
from sweetrl_agent.data.files import Row, append_rows, read_object, read_rows, write_json
from sweetrl_agent.data.run import Run
from sweetrl_agent.evaluation.credit_accuracy import hint_reading
from sweetrl_agent.evaluation.evaluate import evaluate_agent, read_evaluation, summarize
from sweetrl_agent.evaluation.example import example
from sweetrl_agent.evaluation.failures import explain_shown, failures_of, summarize_failures
from sweetrl_agent.evaluation.pictures import keep_pictures
from sweetrl_agent.evaluation.wishes import summarize_wishes, wish_lines
from sweetrl_agent.models.loading import load_policy
from sweetrl_agent.reporting.figures import measure
from sweetrl_agent.reporting.run_folder import ADVANTAGES
from sweetrl_agent.reporting.run_report import write_report


def evaluate(run: Run) -> None:
    """Evaluate the initial and the trained policy; writes evaluation.jsonl, and turn-wise advantages of some dialogues to turn_advantages.jsonl."""
    if run.config.has_pretrained:
        prompted = run.with_settings({"system_prompt": run.config.evaluation.eval_pretrained})
        model = prompted.config.model
        evaluate_agent(run, "pretrained", partial(load_policy, model.model, model.model, model), "evaluate pretrained")
    if run.config.evaluation.eval_initial:
        evaluate_agent(run, "initial", ALGORITHMS["zero_shot"].loader(run), "evaluate initial")
    evaluate_agent(run, "trained", run.algorithm.loader(run))
    if critic := run.algorithm.critic:
        score_dialogues(run, critic)
    if critic and run.config.evaluation.hint_turns and "exact" in run.record.oracles(run.config):
        write_json(run.path("hint_reading.json"), hint_reading(run, run.config.evaluation.hint_turns))


def report(run: Run) -> None:
    """Write results.json and report.html from evaluation.jsonl, and print a table."""
    rows = read_evaluation(run.path("evaluation.jsonl"), run.record.metric)
    results: dict[str, Any] = {}
    played: list[Row] = []
    for agent in AGENTS:
        own = {split: [row for row in rows if row["agent"] == agent and row["split"] == split] for split in run.held_out}
        if any(own.values()):
            played += [row for of_split in own.values() for row in of_split]
            results[agent] = {split: summarize(of_split, run.record.metric) for split, of_split in own.items()}
    results |= {
        "differences": differences(played, run.record.metric),
        "metric": run.record.metric,
        "success_means": run.record.success_means,
        "seconds": {k: v for k, v in run.seconds.items() if k != "report"},
        "seed": run.seed,
        "algorithm": run.algorithm.name,
        "tasks": run.sources,
    }
    if run.path("hint_reading.json").exists():
        results["hint_reading"] = read_object(run.path("hint_reading.json"))
    if wishes := summarize_wishes(run, played):
        results["wishes"] = wishes
    if failures := failures_of(run, rows):
        results["failures"] = summarize_failures(run.record.failure_kinds, failures)
    refuse_fewer(run.path("results.json"), results)
    write_json(run.path("results.json"), results)
    explain_shown(run, rows, failures)
    if run.record.has_pages:
        keep_pictures(run)
    page = write_report(run.folder)
    print(table(results))
    if shown := example(rows):
        print(f"\n{shown}")
    print(f"\nresults: {run.path('results.json')}\nreport:  {page}")


def table(results: dict[str, Any]) -> str:
    """Results of the initial and the trained policy per split, with intervals; then the wall time of the stages."""
    metric = results["metric"]
    lines = [
        f"\n{'':8} {'split':8} {'n':>5} {'void':>5} {'success':>9} {'95% interval':>17} {metric.replace('_', ' '):>13} {'95% interval':>17} "
        f"{'turns':>6}"
    ]
    for agent in AGENTS:
        for split, score in results.get(agent, {}).items():
            if not score["n"]:
                lines.append(f"{agent:8} {split:8} {0:5} {score['void']:5}   every episode was void")
                continue
            success, graded = (
                " to ".join(measure(name, bound) for bound in score["ci95"][name]) for name in ("success", metric)
            )
            lines.append(
                f"{agent:8} {split:8} {score['n']:5} {score['void']:5} {score['success']:9.1%} {success:>17} "
                f"{measure(metric, score[metric]):>13} {graded:>17} {score['turns']:6.1f}"
            )
            lines += count_lines(score, f"{agent}, {split}")
    if (reading := results.get("hint_reading", {})).get("accuracy") is not None:
        low, high = reading["ci95"]
        lines.append(
            "\nHint reading: the initial policy as a critic with hidden information prefers the useful of two questions in "
            f"{reading['accuracy']:.0%} ({low:.0%} to {high:.0%}) of {reading['pairs']} pairs."
        )
    lines += difference_lines(results.get("differences", []), metric)
    lines += ["", *wish_lines(results.get("wishes", []))]
    seconds = results["seconds"]
    lines.append(
        "\nseconds: " + ", ".join(f"{stage} {s:.0f}" for stage, s in seconds.items()) + f"; in all {sum(seconds.values()):.0f}"
    )
    return "\n".join(lines)


def score_dialogues(run: Run, critic: str = SWEET) -> None:
    """Write a critic's advantages of all agents' dialogues on the first test tasks to its turn_advantages.jsonl."""
    path = run.artifact(critic, ADVANTAGES)
    if path.exists():
        path.unlink()  # cheap to compute again, and either complete or absent when the stage is done
    shown = {task.id for task in run.test[: run.config.evaluation.shown_dialogues]}
    with open_critic(run, critic) as opened:
        for row in read_rows(run.path("evaluation.jsonl")):
            if row["split"] == "test" and row["episode"] == 0 and row["task_id"] in shown and row["turns"]:
                hidden = CRITICS[critic].hidden_for(run, row["hidden_information"])
                address: Row = {name: row[name] for name in ("agent", "split", "task_id", "episode")}
                append_rows(path, [{**address, "advantages": all_advantages(opened, row["dialogue_history"], hidden)}])
