"""Single charts as files, from the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sweetrl_agent import report

from .made_up import write_run_folder

ROOT = Path(__file__).resolve().parents[3]
STANDARD = ROOT / "benchmarks" / "results" / "compare_standard.json"
#: The command of the README's picture.
PICTURE = [
    str(STANDARD), "--chart", "scores", "--algorithms", "initial", "reinforce", "rft", "mtdpo", "no_hidden", "sweet",
    "--title", "Success on held-out tasks, 5 seeds",
]  # fmt: skip


def texts(path):
    return [element.text for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def refused(capsys, *arguments):
    with pytest.raises(SystemExit, match="2"):
        report.main([*map(str, arguments)])
    return capsys.readouterr().err


def test_the_pictures_of_the_docs_are_what_their_commands_make(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "reports.md").read_text().replace("\\\n", " ")
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("python -m") and "docs/images" in line]
    assert len(commands) == 3
    for i, command in enumerate(commands):
        assert report.main([*command[3:-1], str(tmp_path / f"{i}.svg")]) == 0
        assert texts(tmp_path / f"{i}.svg") == texts(ROOT / command[-1])


def test_the_picture_of_the_readme_has_the_numbers_of_the_results(tmp_path):
    assert report.main([*PICTURE, "--output", str(tmp_path / "results.svg")]) == 0
    results = json.loads(STANDARD.read_text())["algorithms"]["sweet"]
    found = texts(tmp_path / "results.svg")
    assert {"Success on held-out tasks, 5 seeds", "test", "unseen", "SWEET-RL"} <= {*found}
    assert {f"{100 * results[split]['success']:.1f}%" for split in ("test", "unseen")} <= {*found}


@pytest.mark.parametrize("name", ["scores", "paired", "scaling", "best_of_n", "dials", "simulators", "curves", "curves_sft"])
def test_every_chart_of_a_comparison_is_written(comparison, name, capsys):
    assert report.main([str(comparison), "--chart", name]) == 0
    path = comparison / "charts" / f"{name}.svg"
    assert capsys.readouterr().out == f"{path}\n" and ElementTree.parse(path).getroot().get("class") == "marks"


def test_curves_are_drawn_of_the_metric_and_over_the_axis_that_are_asked_for(comparison, tmp_path):
    out = tmp_path / "curve.svg"
    assert (
        report.main([str(comparison), "--chart", "curves_grpo", "--metric", "success", "--x", "seconds", "--output", str(out)])
        == 0
    )
    assert {"GRPO: success", "grpo: success"} & {*texts(out)} and "wall time in s" in texts(out)


def test_curves_are_those_of_the_algorithms_that_are_asked_for(comparison):
    names = list(json.loads((comparison / "results.json").read_text())["algorithms"])
    stages = {json.loads(line)["stage"] for line in (comparison / "seed_0" / "metrics.jsonl").read_text().splitlines()}
    shown, other = [name for name in names if name in stages][:2]
    for stage in (shown, "sft"):  # a stage that is no algorithm stays
        assert report.main([str(comparison), "--chart", f"curves_{stage}", "--algorithms", shown]) == 0
    with pytest.raises(SystemExit, match="2"):
        report.main([str(comparison), "--chart", f"curves_{other}", "--algorithms", shown])


def test_a_run_has_its_scores_and_curves(tmp_path):
    folder = write_run_folder(tmp_path / "run")
    for name in ("scores", "curves_grpo"):
        assert report.main([str(folder), "--chart", name]) == 0
    assert {"initial", "trained", "40.0%"} <= {*texts(folder / "charts" / "scores.svg")}


def test_algorithms_are_chosen_and_ordered(comparison, tmp_path):
    out = tmp_path / "chart.svg"
    assert report.main([str(comparison), "--chart", "scores", "--algorithms", "sweet", "initial", "--output", str(out)]) == 0
    assert [text for text in texts(out) if text in ("SWEET-RL", "Initial policy", "Rejection fine-tuning")] == [
        "SWEET-RL",
        "Initial policy",
    ] * 2


def test_what_cannot_be_drawn_is_said_in_a_sentence(comparison, capsys):
    said = refused(capsys, comparison, "--chart", "pie")
    assert (
        "`chart` must be one of scores, paired, wins, dials, credit, best_of_n, scaling, simulators, curves, " in said
        and "got 'pie'" in said
    )
    assert "`algorithms` must be of this comparison, initial, rft" in refused(
        capsys, comparison, "--chart", "scores", "--algorithms", "x"
    )
    assert "`output` must end in .svg or .png, got 'a.gif'" in refused(
        capsys, comparison, "--chart", "scores", "--output", "a.gif"
    )
    assert "`metric` and `x` are for learning curves" in refused(capsys, comparison, "--chart", "scores", "--x", "seconds")
    assert "`x` must be one of step, episodes" in refused(capsys, comparison, "--chart", "curves", "--x", "epochs")
    assert "are for --chart; name a chart, or leave them out" in refused(capsys, comparison, "--output", "a.svg")
    assert "and " in refused(capsys, comparison / "seed_0", "--chart", "curves", "--algorithms", "sweet")
    assert "which is not a folder" in refused(capsys, comparison / "nowhere", "--chart", "scores")


def test_a_chart_is_not_written_through_a_link(comparison, tmp_path, capsys):
    (tmp_path / "outside").mkdir()
    (comparison / "charts").symlink_to(tmp_path / "outside")
    assert "is a symbolic link that leads out of" in refused(capsys, comparison, "--chart", "scores")
    assert not list((tmp_path / "outside").iterdir())


def test_a_picture_is_drawn_at_twice_the_size(comparison, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    out = tmp_path / "charts" / "scores.png"
    assert report.main([str(comparison), "--chart", "scores", "--output", str(out)]) == 0
    with Image.open(out) as picture:
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20)}
        assert picture.width > 1000 and picture.height > 500 and {(0xFF, 0xFF, 0xFF), (0x74, 0x7C, 0x87)} <= colours
