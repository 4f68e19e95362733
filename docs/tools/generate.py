"""Tables of the documentation that are made from code and recorded results: `python -m docs.tools.generate`.

A page has ``<!-- generated: KIND ARGUMENTS -->`` and ``<!-- end -->`` on lines of their own; what stands between them is replaced. A test fails
where a table is out of date.

    settings NAME...              settings of algorithms, with flags and defaults
    stages                        stages of the main job
    algorithms                    names, titles and requirements of all algorithms
    results FILE NAME...          success of some algorithms, from benchmarks/results/FILE.json
    differences FILE SPLIT A-B... paired differences of the same file, in points
    returns FILE NAME=PAPER...    raw returns of some algorithms, beside the paper's
    samples FILE                  dialogues and turns that algorithms play until a return, from `benchmarks/samples_to_return.py`
    credit FILE SPLIT             credit accuracy of critics and of rules of on-policy algorithms on a split
    games FILE=EXPERT...          mean raw returns of all algorithms of several files, beside the expert's
    speeds FILE                   tokens a second and peak memory of `benchmarks/pretrained_speed.py`, beside the plain library's
    families                      what works with each family of models, as `tests/sweetrl_agent/matrix.py` recorded it
    recipe FILE A-B...            agents of a recipe for a pretrained model on all splits together, and paired differences of A from B
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from docs.tools.entries import credit_row, how_tested, needed_cell, score_cell, task_counts

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"(<!-- generated: (\w+) ?([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    """Rewrite the pages whose tables changed; returns the exit status."""
    for page, text in stale().items():
        page.write_text(text, encoding="utf-8")
        print(page.relative_to(ROOT))
    return 0


def stale() -> dict[Path, str]:
    """The pages with a table that is out of date, and what they should be."""
    new = {page: rewritten(page.read_text(encoding="utf-8")) for page in pages()}
    return {page: text for page, text in new.items() if text != page.read_text(encoding="utf-8")}


def pages() -> list[Path]:
    """All pages of the documentation, and README."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rewritten(text: str) -> str:
    """A page with its tables made afresh."""
    return _BLOCK.sub(lambda found: f"{found[1]}{KINDS[found[2]](*found[3].split())}\n{found[4]}", text)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table, with blank lines around it."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def settings(*names: str) -> str:
    """Settings of algorithms, each setting once."""
    from sweetrl_agent.algorithms.registry import ALGORITHMS

    rows = {}
    for name in names:
        algorithm = ALGORITHMS[name]
        for one in fields(algorithm.Config):
            flag = f"--{algorithm.name}.{one.name}"
            rows[flag] = (f"`{flag}`", f"`{_default(one)}`", str(one.metadata["description"]).replace("|", "\\|"))
    return table(("setting", "default", "meaning"), list(rows.values()))


def _default(one: Field[Any]) -> Any:
    value = one.default if one.default is not MISSING else one.default_factory()  # type: ignore[misc]
    return json.dumps(value) if isinstance(value, bool | str) else value


def stages() -> str:
    """Stages of the main job."""
    from sweetrl_agent.config.pipeline import MAIN_JOB

    def listed(files: Sequence[str]) -> str:
        return ", ".join(f"`{file}`" for file in files) or "tasks"

    rows = [(stage.name, stage.purpose, listed(stage.reads), listed(stage.files)) for stage in MAIN_JOB]
    return table(("stage", "what it does", "reads", "writes"), rows)


def algorithms() -> str:
    """Names, titles and requirements of all algorithms."""
    from sweetrl_agent.algorithms.registry import ALGORITHMS

    rows = []
    for name, algorithm in ALGORITHMS.items():
        learns = (
            "behaviour data"
            if name == "bc" or "behaviour" in algorithm.requires
            else "nothing"
            if not algorithm.stages
            else "collected dialogues"
            if "collect" in algorithm.shared
            else "its own dialogues"
        )
        needs = ", ".join(f"`{need}`" for need in sorted(algorithm.requires)) or "nothing"
        rows.append((f"`{name}`", algorithm.title, learns, needs))
    return table(("name", "algorithm", "learns from", "requires of the environment"), rows)


def results(file: str, *names: str) -> str:
    """Success of some algorithms on test tasks and unseen families."""
    from sweetrl_agent.algorithms.registry import titles

    recorded = _recorded(file)["algorithms"]
    rows = []
    for name in names:
        cells = []
        for split in ("test", "unseen"):
            of = recorded[name][split]
            cells.append(_share(of, "success"))
        rows.append((titles()[name] if name != "initial" else "initial policy", *cells))
    first = recorded[names[0]]["test"]
    note = f"\n{first['n']} tasks a split, {first['seeds']} seeds; 95% intervals over seeds and tasks.\n"
    return table(("success", "test", "unseen families"), rows) + note


#: Scripted policies to judge a trained agent by, by their names in policies.json.
_SCRIPTED = {
    "at random": "*asks at random*",
    "in order": "*asks in the order of a list*",
    "oracle": "*asks only what matters*",
}


def results_and_scripted(file: str, *names: str) -> str:
    """`results`, and above them the scripted policies on all test tasks. All know how to write what they hear."""
    scripted = json.loads((ROOT / "benchmarks/results/policies.json").read_text(encoding="utf-8"))["standard"]
    shares = {name: {**of, "ci95": {"success": of["ci95"]}} for name, of in scripted.items()}
    lines = [(title, _share(shares[name], "success"), "") for name, title in _SCRIPTED.items()]
    head, *rest = results(file, *names).split("| initial policy", 1)
    added = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    return (
        f"{head}{added}| initial policy{rest[0]}".rstrip("\n")
        + f" The policies in italics are scripted: {scripted['oracle']['n']} test tasks.\n"
    )


def result(file: str, name: str, *others: str) -> str:
    """An algorithm's success, and the paired differences from others on test tasks, in sentences."""
    from sweetrl_agent.algorithms.registry import titles

    of = _recorded(file)["algorithms"][name]
    sentences = [
        f"{titles()[name]} on the dial `standard`: success {_share(of['test'], 'success')} on test tasks and {_share(of['unseen'], 'success')} on unseen families, "
        f"{of['test']['seeds']} seeds, {of['test']['n']} tasks a split."
    ]
    for other in others:
        title = titles()[other].replace("Initial policy", "the initial policy")
        sentences.append(f"Difference from {title}: {_difference(file, 'test', name, other)[0]} points.")
    return "\n" + " ".join(sentences) + "\n\n"


def differences(file: str, split: str, *pairs: str) -> str:
    """Paired differences of success, in points, with 95% intervals over seeds and tasks."""
    from sweetrl_agent.algorithms.registry import titles

    rows = []
    for pair in pairs:
        first, second = pair.split("-")
        name = f"{titles()[first]} minus {titles()[second]}".replace("Initial policy", "initial policy")
        rows.append((name, *_difference(file, split, first, second)))
    return table((f"points of success, {split}", "difference", "seeds ahead"), rows)


def _difference(file: str, split: str, first: str, second: str) -> tuple[str, str]:
    """The success of one algorithm minus another's, in points with its interval, and on how many seeds it is ahead. The file has one order of each pair."""
    found = {(one["a"], one["b"]): one for one in _recorded(file)["paired"] if one["split"] == split}
    sign = 1.0 if (first, second) in found else -1.0
    one = found.get((first, second)) or found[second, first]
    bounds = sorted(sign * bound for bound in one["ci95"])
    ahead = one["seeds_ahead"] if sign > 0 else one["seeds"] - one["seeds_ahead"]
    return _points(sign * one["difference"], bounds), f"{ahead} of {one['seeds']}"


def returns(file: str, *names: str) -> str:
    """Raw returns on test tasks, and how much more than the first algorithm's, with 95% intervals over seeds and tasks, beside the paper's raw returns.

    A name may have the paper's return behind an equals sign, such as "bc=-72.1".
    """
    from sweetrl_agent.algorithms.registry import titles

    recorded = _recorded(file)
    first = names[0].partition("=")[0]
    more = _more_than(first, recorded)
    rows = []
    for text in names:
        name, _, paper = text.partition("=")
        of = recorded["algorithms"][name]["test"]
        low, high = of["ci95"]["return"]
        gain = "" if name == first else "{:+.2f} ({:.2f} to {:.2f})".format(more[name]["difference"], *more[name]["ci95"])
        by_seed = ", ".join(f"{value:.2f}" for value in of["metric_by_seed"])
        rows.append((titles()[name], f"{of['return']:.2f} ({low:.2f} to {high:.2f})", by_seed, gain, paper))
    one = recorded["algorithms"][first]["test"]
    note = f"\n{one['n']} test tasks, {one['seeds']} seeds; 95% intervals over seeds and tasks."
    head = ("return", "mean", "by seed", f"more than {titles()[first]}", "paper")
    if not any(paper for *_, paper in rows):
        return table(head[:-1], [row[:-1] for row in rows]) + note + "\n"
    return table(head, rows) + note + " The paper's returns are of single runs.\n"


def samples(file: str) -> str:
    """Dialogues and turns until a return is reached, medians over the seeds that reach it, as `benchmarks/samples_to_return.py` recorded them."""
    from sweetrl_agent.algorithms.registry import titles

    found = _recorded(file)["algorithms"]
    levels = list(next(iter(found.values())))
    rows = [(titles()[name], *(needed_cell(of[level]) for level in levels)) for name, of in found.items()]
    return table(("dialogues (turns) until the return is", *levels), rows)


def credit(file: str, split: str) -> str:
    """Credit accuracy of every rule of a comparison, best first."""
    from sweetrl_agent.algorithms.critics import CRITICS
    from sweetrl_agent.algorithms.registry import titles

    found = {rule: of[split] for rule, of in _recorded(file)["credit_accuracy"].items()}
    names = {**titles(), **{name: kind.title for name, kind in CRITICS.items()}}
    best_first = sorted(found, key=lambda rule: -found[rule]["pair_accuracy"]["mean"])
    one = found[best_first[0]]
    has_marginal = any("marginal" in of for of in found.values())
    marginal = ("pairs, marginal",) if has_marginal else ()
    head = ("rule", "pairs, exact advantage", "by seed", *marginal, "rank correlation", "passes", "steps", "tokens")
    note = f"\n{one['n']} {split} tasks, {one['seeds']} seeds; 95% intervals over both. Costs of a candidate: passes of a model over a dialogue, environment steps, sampled tokens.\n"
    return table(head, [credit_row(names[rule], found[rule], has_marginal) for rule in best_first]) + note


def leaderboard() -> str:
    """A section for each entry in benchmarks/leaderboard: its algorithms, best first, with budgets, command and commit."""
    sections = []
    for path in sorted((ROOT / "benchmarks" / "leaderboard").glob("*.json")):
        one = json.loads(path.read_text(encoding="utf-8"))
        metric = one["metric"]
        splits = list(next(iter(one["algorithms"].values()))["scores"])
        best_first = sorted(one["algorithms"].values(), key=lambda of: -of["scores"][splits[0]][metric]["mean"])
        rows = [
            (
                of["title"],
                *(score_cell(of["scores"][split][metric], metric) for split in splits),
                *(f"{of['budget'][kind]:,}" for kind in ("dialogues", "generated_tokens", "trained_tokens")),
            )
            for of in best_first
        ]
        score = best_first[0]["scores"][splits[0]]
        head = ("algorithm", *(f"{metric}, {split}" for split in splits), "dialogues", "tokens sampled", "tokens trained")
        sections.append(
            f"\n### {one['environment']}: {path.stem}\n{table(head, rows)}\n{task_counts(best_first[0]['scores'])}, {score['seeds']} seeds, commit `{one['commit'][:9]}`."
            f" Tasks: `{one['tasks'][splits[0]]}`.\n\n<!-- test: {how_tested(one['command'])} -->\n```sh\n{one['command']}\n```\n"
        )
    return "".join(sections)


def games(*files: str) -> str:
    """Mean raw returns on the test tasks of several games, a row each; bold where the paired difference from BC has a 95% interval above 0.

    A file's name has the expert's return behind an equals sign, such as "lmrl_maze=-6.84".
    """
    from sweetrl_agent.algorithms.registry import ALGORITHMS, titles

    recorded = {text: _recorded(text.partition("=")[0]) for text in files}
    compared = {name for one in recorded.values() for name in one["algorithms"]}
    names = ["bc", *(name for name in ALGORITHMS if name in compared - {"bc"})]
    rows = []
    for text, one in recorded.items():
        file, _, expert = text.partition("=")
        above = {name for name, gain in _more_than("bc", one).items() if gain["ci95"][0] > 0}
        means = {name: f"{of['test']['return']:.2f}" for name, of in one["algorithms"].items()}
        cells = [f"**{means[name]}**" if name in above else means.get(name, "") for name in names]
        title = file.removeprefix("lmrl_").replace("_", " ").capitalize()
        page = "lmrl_chess.md" if file == "lmrl_endgames" else f"{file}.md"
        rows.append((f"[{title}]({page}#results)", expert, *cells))
    return table(("mean return", "expert", *(titles()[name] for name in names)), rows)


AGENTS = {
    "pretrained": "base model",
    "few_shot": "base model, two examples and the kinds of topics in its prompt",
    "initial": "after SFT",
    "trained": "after SWEET-RL",
    "single_turn": "base model (no question)",
    "told_everything": "base model (all wishes given)",
}
#: Differences beside that of tests passed, by their names in the file.
GAINS = {"wishes_heard": "points of wishes heard", "written": "of these written down"}


def recipe(file: str, *pairs: str) -> str:
    """Tests passed, success, and what was asked, heard and written down; then differences in points, paired by task, of tests passed and what of `GAINS` is recorded."""
    recorded, rows = _recorded(file), list[tuple[str, ...]]()
    for one in recorded["agents"]:
        if one["split"] == "all":
            asked = [f"{one['questions']:.1f}", f"{one['heard']:.0%}"] if "heard" in one else [""] * 2
            written = f"{one['written']:.0%}" if round(one.get("heard", 0.0), 2) else ""
            scores = (_share(one, name) for name in ("tests_passed", "success"))
            rows.append((AGENTS[one["agent"]], str(one["n"]), *scores, *asked, written))
    more = []
    for pair in pairs:
        to, start = pair.split("-")
        one = next(one for one in recorded["differences"] if (one["to"], one["from"], one["split"]) == (to, start, "all"))
        by_seed = ", ".join(f"{100 * value:+.1f}" for value in one["by_run"].values())
        gains = {name: _points(one[name]["difference"], one[name]["ci95"]) for name in GAINS if name in one}
        tested = _points(one["tests_passed"]["difference"], one["tests_passed"]["ci95"])
        more.append((f"{AGENTS[to]} minus {AGENTS[start]}", str(one["tasks"]), tested, by_seed, *gains.values()))
    agents = table(("agent", "episodes", "tests passed", "success", "questions", "wishes heard", "of these written down"), rows)
    further = list(GAINS.values())[: len(more[0]) - 4 if more else 0]
    return agents + table(("points of tests passed", "tasks", "difference", "by seed", *further), more)


SIDES = {
    "sampling/plain": "sampling, `transformers.generate`",
    "sampling/adapter": "sampling, the same with an unmerged adapter",
    "sampling/ours": "sampling, ours",
    "dpo/plain": "DPO, TRL",
    "dpo/ours": "DPO, ours",
    "dpo/upper_half": "DPO, ours with adapters in the upper half",
    "dpo/by_turn": "... and the pairs of a turn side by side",
}


def speeds(file: str) -> str:
    """Tokens a second, how many times the plain library's, and peak memory."""
    recorded, rows = _recorded(file), list[tuple[str, ...]]()
    for name, of in recorded["sides"].items():
        title, ratio = SIDES[name], recorded["ratios"].get(f"{name.replace('/', ': ')} / plain", 1.0)
        rows.append((title, f"{of['tokens_per_s']['median']:.1f}", f"{ratio:.2f}", f"{of['peak_mib']['median'] / 1024:.1f}"))
    return table(("what", "tokens a second", "times the library's", "peak GiB"), rows)


def families() -> str:
    """What works with each family of models: how its template is used, and whether every stage ran."""
    stages = ("sft", "sweet", "grpo", "rft", "mtdpo", "ilql", "evaluate", "resume")
    rows = []
    for one in json.loads((ROOT / "benchmarks" / "results" / "families.json").read_text(encoding="utf-8")):
        told = [
            one["family"],
            one["architecture"],
            one["instructions"],
            one["end_of_turn"].replace("|", "\\|"),
            "yes" if one["thinks"] else "",
        ]
        rows.append(
            (*told, "valid" if one["dry_run"] == "yes" else one["dry_run"].replace("|", "\\|"), *(one[name] for name in stages))
        )
    return table(("family", "class", "instructions in", "a turn ends at", "thinks", "dry run", *stages), rows)


def _more_than(first: str, recorded: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Paired differences of the metric from an algorithm on test tasks, by the other one's name."""
    return {one["a"]: one["of_metric"] for one in recorded["paired"] if one["b"] == first and one["split"] == "test"}


def _share(of: dict[str, Any], name: str) -> str:
    """A score in percent, with its 95% interval."""
    return "{:.1%} ({:.1%} to {:.1%})".format(of[name], *of["ci95"][name])


def _points(difference: float, bounds: Sequence[float]) -> str:
    """A difference in points, with its interval."""
    return "{:+.1f} ({:.1f} to {:.1f})".format(*(100 * value for value in (difference, *bounds)))


def _recorded(file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / f"{file}.json").read_text(encoding="utf-8"))
    return found


KINDS: dict[str, Callable[..., str]] = {
    "settings": settings,
    "stages": stages,
    "algorithms": algorithms,
    "results": results,
    "results_and_scripted": results_and_scripted,
    "result": result,
    "differences": differences,
    "returns": returns,
    "samples": samples,
    "credit": credit,
    "games": games,
    "leaderboard": leaderboard,
    "speeds": speeds,
    "recipe": recipe,
    "families": families,
}

if __name__ == "__main__":
    sys.exit(main())
