"""The last two stages: evaluation of the initial and the trained policy, and the report."""

from __future__ import annotations

from functools import partial
from typing import Any

from colbench_gym.evaluation.folder import refuse_fewer
from colbench_gym.evaluation.rows import read_evaluation
from colbench_gym.evaluation.summary import differences, scores
from colbench_gym.evaluation.table import table
from colbench_gym.files import Row, append_rows, read_object, read_rows, write_json
from sweetrl_agent.algorithms.critic_settings import SWEET, stage_name
from sweetrl_agent.algorithms.critics import hidden_for, open_critic
from sweetrl_agent.config.pipeline import AGENTS
from sweetrl_agent.core.critic import all_advantages
from sweetrl_agent.evaluation.costs import OF_MACHINE, ledger
from sweetrl_agent.evaluation.credit_accuracy import UNTRAINED, hint_reading
from sweetrl_agent.evaluation.example import example
from sweetrl_agent.evaluation.failures import explain_shown, failures_of, summarize_failures
from sweetrl_agent.evaluation.held_out import evaluate_agent
from sweetrl_agent.evaluation.no_gain import no_gain
from sweetrl_agent.evaluation.pictures import keep_pictures
from sweetrl_agent.evaluation.wishes import summarize_wishes, wish_lines
from sweetrl_agent.models.loading import load_policy
from sweetrl_agent.reporting.run_folder import ADVANTAGES
from sweetrl_agent.reporting.run_report import write_report
from sweetrl_agent.trainers import critic_summary
from sweetrl_agent.trainers.run import Run


def evaluate(run: Run) -> None:
    """Evaluate the initial and the trained policy; writes evaluation.jsonl, and turn-wise advantages of some dialogues to turn_advantages.jsonl."""
    if run.config.has_pretrained:
        prompted = run.with_settings({"system_prompt": run.config.evaluation.eval_pretrained})
        model = prompted.config.model
        evaluate_agent(run, "pretrained", partial(load_policy, model.model, model.model, model), "evaluate pretrained")
    if run.config.evaluation.eval_initial:
        evaluate_agent(run, "initial", partial(run.algorithm.load_initial, run), "evaluate initial")
    evaluate_agent(run, "trained", run.algorithm.loader(run))
    if critic := run.algorithm.critic:
        score_dialogues(run, critic)
    reads_hints = bool(critic) and run.algorithm.config.critic_hidden  # without hidden information, there is no hint
    if reads_hints and run.config.evaluation.hint_turns and "exact" in run.record.oracles(run.config):
        write_json(run.path("hint_reading.json"), hint_reading(run, run.config.evaluation.hint_turns))


def report(run: Run) -> None:
    """Write results.json and report.html from evaluation.jsonl, and print a table."""
    rows = read_evaluation(run.path("evaluation.jsonl"), run.record.metric)
    results = scores(rows, AGENTS, list(run.held_out), run.record.metric)
    played = [row for agent, splits in results.items() for row in rows if row["agent"] == agent and row["split"] in splits]
    results |= {
        "differences": differences(played, run.record.metric),
        "metric": run.record.metric,
        "success_means": run.record.success_means,
        "seconds": {k: v for k, v in run.seconds.items() if k != "report"},
        "seed": run.seed,
        "algorithm": run.algorithm.name,
        "tasks": run.sources,
        "costs": {
            name: cost for name, cost in ledger(run, [run.algorithm.name])[run.algorithm.name].items() if name not in OF_MACHINE
        },
    }
    if run.path("hint_reading.json").exists():
        results["hint_reading"] = read_object(run.path("hint_reading.json"))
    if training := _critic_training(run):
        results["critic"] = training
    if wishes := summarize_wishes(run, played):
        results["wishes"] = wishes
    if failures := failures_of(run, rows):
        results["failures"] = summarize_failures(run.record.failure_kinds, failures)
    if sentences := _no_gain(run, results):
        results["no_gain"] = sentences
    refuse_fewer(run.path("results.json"), results)
    write_json(run.path("results.json"), results)
    explain_shown(run, rows, failures)
    if run.record.has_pages:
        keep_pictures(run)
    page = write_report(run.folder)
    print(run_table(results))
    if shown := example(rows):
        print(f"\n{shown}")
    print(f"\nresults: {run.path('results.json')}\nreport:  {page}")


def _no_gain(run: Run, results: Row) -> list[str]:
    summary, algorithm = run.path("pairs_summary.json"), run.algorithm
    stage = stage_name("actor", algorithm.critic) if algorithm.critic else algorithm.name
    collected = read_object(summary) if summary.exists() else {}
    more = {"more": "more turns (`--sweet.num_states`) or epochs (`--sweet.actor_epochs`)"} if algorithm.critic else {}
    return no_gain(results, algorithm.name, _metrics(run, stage), collected, **more)


def _metrics(run: Run, stage: str) -> list[Row]:
    """The rows of metrics.jsonl of a stage; [] before there are any."""
    path = run.path("metrics.jsonl")
    return [row for row in read_rows(path) if row["stage"] == stage] if path.exists() else []


def _critic_training(run: Run) -> Row:
    """The summary of the training of the run's critic; empty without one of log-ratios that is trained."""
    algorithm = run.algorithm
    if not algorithm.critic or algorithm.kind.scoring != "ratios" or algorithm.kind.train is None:
        return {}
    rows = _metrics(run, stage_name("critic", algorithm.critic))
    return critic_summary.summarize(rows, algorithm.kind.reads_replies and algorithm.config.critic_replies) if rows else {}


def run_table(results: dict[str, Any]) -> str:
    """Results of the run's agents with intervals; then what its hints say, its wishes, and the wall time of the stages."""
    lines = [table(results, AGENTS)]
    if (reading := results.get("hint_reading", {})).get("accuracy") is not None:
        lines.append(f"\n{reading_line(reading)}")
    if critic := critic_summary.line(results.get("critic", {})):
        lines.append(f"\n{critic}")
    lines += ["", *wish_lines(results.get("wishes", []))]
    if sentences := results.get("no_gain"):
        lines += ["", *sentences]
    seconds = results["seconds"]
    lines.append(
        "\nseconds: " + ", ".join(f"{stage} {s:.0f}" for stage, s in seconds.items()) + f"; in all {sum(seconds.values()):.0f}"
    )
    return "\n".join(lines)


def reading_line(reading: Row) -> str:
    """What `hint_reading` has measured, in a line, and which critic follows from it."""

    def share(of: Row) -> str:
        return "{:.0%} ({:.0%} to {:.0%})".format(of["accuracy"], *of["ci95"])

    line = (
        "Hint reading: the initial policy as a critic with hidden information prefers the useful of two questions in "
        f"{share(reading)} of {reading['pairs']} pairs"
    )
    others = reading.get("critics", {})
    if not others:
        return f"{line}."
    line += "".join(
        f", {'the information gain' if name == 'gain' else f'the trained critic {name!r}'} in {share(of)}"
        for name, of in others.items()
    )
    all_of = {UNTRAINED: reading, **others}
    best, *rest = sorted(all_of, key=lambda name: -all_of[name]["accuracy"])
    is_clear = all(all_of[name]["ci95"][1] < all_of[best]["ci95"][0] for name in rest)
    if not is_clear:
        return f"{line}. None is clearly ahead: keep this critic, or measure more turns (`--hint_turns`)."
    noise = ", with `--sweet.gain_noise 0.95`," if best == "gain" else ""
    return f"{line}. `--critic {best}`{noise} knows best what is worth asking here."


def score_dialogues(run: Run, critic: str = SWEET) -> None:
    """Write a critic's advantages of all agents' dialogues on the first test tasks to its turn_advantages.jsonl."""
    path = run.artifact(critic, ADVANTAGES)
    if path.exists():
        path.unlink()  # cheap to compute again, and either complete or absent when the stage is done
    shown = {task.id for task in run.test[: run.config.evaluation.shown_dialogues]}
    with open_critic(run, critic) as opened:
        for row in read_rows(run.path("evaluation.jsonl")):
            if row["split"] == "test" and row["episode"] == 0 and row["task_id"] in shown and row["turns"]:
                hidden = hidden_for(run, critic, row["hidden_information"])
                address: Row = {name: row[name] for name in ("agent", "split", "task_id", "episode")}
                append_rows(path, [{**address, "advantages": all_advantages(opened, row["dialogue_history"], hidden)}])
