"""Both evaluators and the comparison: changed inputs are refused by name, and damaged files are made again with the same results."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

import colbench_gym.evaluate
from colbench_gym.files import read_rows, write_rows
from colbench_gym.stage_records import StageRecords
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.rows import row_from_task
from sweetrl_agent import compare, evaluate, train
from tests.damages import DAMAGES, a_folder, a_pipe, deleted, edited
from tests.words import words

POLICIES = ("random", "oracle")
BOTH = pytest.mark.parametrize("command", [colbench_gym.evaluate, evaluate], ids=["colbench_gym", "sweetrl_agent"])
#: Files that every command writes again; no result depends on `versions.json`.
ALWAYS = (
    "config.yaml",
    "settings.json",
    "results.json",
    "report.html",
    "failures.jsonl",
    "explanations.jsonl",
    "versions.json",
)


def _rows(count=4):
    return [row_from_task(task) for task in load_tasks(f"embedded:test[:{count}]")]


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    """The current folder, with a file of tasks and a policy of the user's own."""
    folder = tmp_path_factory.mktemp("place")
    write_rows(folder / "rows.jsonl", _rows())
    (folder / "own_policy_for_damage.py").write_text("def asks(messages):\n    return 'What about an empty list?'\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        yield folder
    sys.modules.pop("own_policy_for_damage", None)


@pytest.fixture(autouse=True)
def whole(place):
    before = {name: (place / name).read_bytes() for name in ("rows.jsonl", "own_policy_for_damage.py")}
    yield
    for name, data in before.items():
        (place / name).write_bytes(data)


def _words(folder, *more):
    return [*POLICIES, "--tasks", "rows.jsonl", "--sandbox", "embedded", "--seeds", "0", "1", "--output", str(folder), *more]


@pytest.fixture(scope="module")
def finished(place):
    """The folders of finished evaluations, by command."""
    folders = {}
    for command in (colbench_gym.evaluate, evaluate):
        folders[command] = place / command.__name__
        assert command.main(_words(folders[command])) == 0
    return folders


@pytest.fixture
def copied(finished, tmp_path):
    return lambda command: Path(shutil.copytree(finished[command], tmp_path / "e"))


def _sorted(folder):
    return sorted((folder / "evaluation.jsonl").read_bytes().splitlines())


#: That every damage of a file is seen, test_damaged_runs.py holds for the records that all commands share.
CASES = [(colbench_gym.evaluate, "evaluation.jsonl", damage) for damage in (*DAMAGES, a_folder, a_pipe)]
CASES += [
    (command, name, edited)
    for command in (colbench_gym.evaluate, evaluate)
    for name in ("stages.json", "settings.json", "results.json")
]
CASES += [
    (evaluate, "evaluation.jsonl", deleted),
    (evaluate, "stages.json", deleted),
    (colbench_gym.evaluate, "results.json", deleted),
]


@pytest.mark.parametrize(
    ("command", "name", "damage"), CASES, ids=[f"{c.__name__}-{name}-{damage.__name__}" for c, name, damage in CASES]
)
def test_a_damaged_file_is_made_again_or_refused(command, name, damage, finished, copied, capsys):
    folder = copied(command)
    damage(folder / name)
    planned = command.main([*_words(folder), "--dry_run"])
    before = (folder / "results.json").read_bytes() if name != "results.json" else b""
    status = command.main(_words(folder))
    said = capsys.readouterr()
    assert "Traceback" not in said.err and planned == status
    if name == "stages.json":
        (error,) = {line for line in said.err.splitlines() if line.startswith("error: ")}
        assert status == 2 and "stages.json" in error and (folder / "results.json").read_bytes() == before
        return
    assert status == 0
    assert (folder / "results.json").read_bytes() == (finished[command] / "results.json").read_bytes()
    assert (folder / "settings.json").read_bytes() == (finished[command] / "settings.json").read_bytes()
    assert _sorted(folder) == _sorted(finished[command])
    assert ("is played again, since evaluation.jsonl is missing, changed or damaged" in said.out + said.err) == (
        name == "evaluation.jsonl"
    )


@pytest.mark.parametrize("name", [name for name in ALWAYS if name not in ("results.json", "settings.json")])
def test_what_an_evaluation_makes_of_its_rows_is_made_again(name, finished, copied):
    for damage in (deleted, edited):
        folder = copied(evaluate)
        if not (folder / name).exists():
            return  # single answers are explained for one seed only
        damage(folder / name)
        assert evaluate.main(_words(folder)) == 0
        assert (folder / name).exists()
        assert (folder / "results.json").read_bytes() == (finished[evaluate] / "results.json").read_bytes()
        shutil.rmtree(folder)


def _reworded(rows):
    return [{**row, "problem_description": f"Please: {row['problem_description']}"} for row in rows]


def _other_reference(rows):
    return [{**row, "ground_truth": row["ground_truth"].replace("return ", "return not ")} for row in rows]


@BOTH
@pytest.mark.parametrize("change", [_reworded, _other_reference, lambda rows: rows[:2], lambda rows: _rows(5)])
def test_changed_tasks_are_refused_and_redo_is_the_way_out(command, change, place, copied, capsys):
    folder = copied(command)
    before = (folder / "results.json").read_bytes()
    changed = change(_rows())
    write_rows(place / "rows.jsonl", changed)
    assert command.main(_words(folder)) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"error: rows.jsonl has changed since stage 'random / rows / seed 0' of {folder} read it; restore it, give `--redo 'random / rows / seed 0'` to do "
        "that stage and what follows from it again, or another `--output`."
    )
    assert (folder / "results.json").read_bytes() == before
    advised = ["--redo", "random / rows / seed 0"]
    assert command.main(_words(folder, *advised)) == 0  # the oracle has read the same file
    results = json.loads((folder / "results.json").read_text())
    assert {results[name]["rows"]["n"] for name in POLICIES} == {2 * len(changed)} == {results["differences"][0]["n"]}
    assert len(read_rows(folder / "evaluation.jsonl")) == 4 * len(changed)


@BOTH
def test_a_changed_file_is_noticed_while_the_evaluation_is_unfinished(command, place, copied, capsys):
    folder = copied(command)
    records = StageRecords(folder)
    for name in records.stages:
        records.reopen(name)
    records.save()
    write_rows(folder / "evaluation.jsonl", read_rows(folder / "evaluation.jsonl")[:3])
    write_rows(place / "rows.jsonl", _reworded(_rows()))
    assert command.main(_words(folder)) == 2
    assert "error: rows.jsonl has changed since stage 'random / rows / seed 0'" in capsys.readouterr().err


@BOTH
def test_rows_of_other_policies_count_too(command, place, copied, capsys):
    folder = copied(command)
    write_rows(place / "rows.jsonl", _rows()[:2])
    words = [word for word in _words(folder) if word != "oracle"]
    assert command.main(words) == 2
    assert "error: rows.jsonl has changed since stage 'random / rows / seed 0'" in capsys.readouterr().err


@BOTH
def test_a_changed_policy_of_the_users_own_is_refused(command, place, tmp_path, capsys):
    words = ["own_policy_for_damage:asks", "--tasks", "rows.jsonl", "--sandbox", "embedded", "--output", str(tmp_path / "e")]
    assert command.main(words) == 0
    (place / "own_policy_for_damage.py").write_text("def asks(messages):\n    return 'Other?'\n")
    assert command.main(words) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"error: {place / 'own_policy_for_damage.py'} has changed since stage 'asks / rows / seed 0'")


@BOTH
def test_a_changed_file_that_a_module_says_it_reads_is_refused(command, place, tmp_path, capsys):
    """Its path is relative to the module. A folder counts with all its files."""
    (place / "weights").mkdir(exist_ok=True)
    for name in ("words.txt", "weights/one"):
        (place / name).write_text("What about an empty list?")
    (place / "own_policy_for_damage.py").write_text(
        "COLBENCH_FILES = ['words.txt', 'weights']\n\ndef asks(messages):\n    return open('words.txt').read()\n"
    )
    words = ["own_policy_for_damage:asks", "--tasks", "rows.jsonl", "--sandbox", "embedded", "--output", str(tmp_path / "e")]
    assert command.main(words) == 0
    assert command.main(words) == 0
    for name, shown in (("weights/one", "weights"), ("words.txt", "words.txt")):
        before = (place / name).read_text()
        (place / name).write_text("Other?")
        assert command.main(words) == 2
        assert (
            capsys.readouterr()
            .err.splitlines()[-1]
            .startswith(f"error: {place / shown} has changed since stage 'asks / rows / seed 0'")
        )
        (place / name).write_text(before)
        assert command.main(words) == 0
    for files in ("sorted(['words.txt'])", "'words.txt'", "[1]"):
        (place / "own_policy_for_damage.py").write_text(f"COLBENCH_FILES = {files}\n\ndef asks(messages):\n    return '?'\n")
        assert command.main(words) == 2
        expected = f'error: COLBENCH_FILES in {place / "own_policy_for_damage.py"} must be a list of file names, written out, such as ["weights.npz"].'
        assert capsys.readouterr().err.splitlines()[-1] == expected, files


@BOTH
def test_a_missing_file_of_tasks_is_no_change(command, place, copied, capsys):
    folder = copied(command)
    (place / "rows.jsonl").rename(place / "away.jsonl")
    try:
        assert command.main(_words(folder)) == 2
    finally:
        (place / "away.jsonl").rename(place / "rows.jsonl")
    assert "has changed" not in capsys.readouterr().err


def test_a_changed_model_folder_is_refused(tiny_model_folder, tmp_path, capsys):
    model = Path(shutil.copytree(tiny_model_folder, tmp_path / "model"))
    words = [
        str(model),
        "--tasks",
        "rows.jsonl[:1]",
        "--sandbox",
        "embedded",
        "--max_new_tokens",
        "4",
        "--output",
        str(tmp_path / "e"),
    ]
    assert evaluate.main(words) == 0
    edited(model / "generation_config.json")
    assert evaluate.main(words) == 2
    assert (
        f"error: {model} has changed since stage 'model / rows / seed 0' of {tmp_path / 'e'} read it; "
        in capsys.readouterr().err
    )


SMALL = {
    "tasks": "train.jsonl", "test_tasks": "rows.jsonl", "unseen_tasks": "", "num_tasks": 2, "trajectories_per_task": 2, "shown_dialogues": 1,
    "initial_policy": "sft", "sft_dialogues": 0, "max_new_tokens": 8, "max_turns": 2, "sandbox": "embedded", "threads": 1, "min_best": 0.0,
}  # fmt: skip


def _settings(folder, model, **more):
    return words({**SMALL, "model": model, "output": folder, **more})


@pytest.fixture(scope="module")
def compared(place, tiny_model_folder):
    """A comparison of one seed, and its words."""
    write_rows(place / "train.jsonl", [row_from_task(task) for task in load_tasks("embedded:train[:3]")])
    asked = [
        "--algorithms",
        "initial",
        "single_turn",
        "--seeds",
        "1",
        "--credit_tasks",
        "0",
        "--simulators",
        "terse",
        "--simulator_tasks",
        "2",
    ]
    folder = place / "compare"
    words = [*_settings(folder, tiny_model_folder), *asked]
    assert compare.main(words) == 0
    return folder, words


def _compare_again(compared, tmp_path, damage):
    folder, words = compared
    copy = Path(shutil.copytree(folder, tmp_path / "compare", dirs_exist_ok=True))
    damage(copy)
    status = compare.main([word if word != str(folder) else str(copy) for word in words])
    return copy, status


def test_a_number_of_tasks_is_work_of_its_own(compared, tmp_path):
    folder, words = compared
    copy = Path(shutil.copytree(folder, tmp_path / "compare"))
    words = [word if word != str(folder) else str(copy) for word in words]
    fewer = [*words[:-1], "1"]
    assert compare.main(fewer) == 0
    assert {cell["n"] for cell in _results(copy)["simulators"]["cells"]} == {1}
    rows = read_rows(copy / "seed_0" / "simulators.jsonl")
    assert [row for row in rows if row["tasks"] == 2] == read_rows(folder / "seed_0" / "simulators.jsonl")
    assert compare.main(words) == 0 and _results(copy) == _results(folder)


def test_a_run_is_not_written_into_a_comparison(compared, tiny_model_folder, capsys):
    before = (compared[0] / "results.json").read_bytes()
    assert train.main(_settings(compared[0], tiny_model_folder)) == 2
    assert "is the folder of a comparison, and this command writes that of a run" in capsys.readouterr().err
    assert (compared[0] / "results.json").read_bytes() == before


def _results(folder):
    found = json.loads((folder / "results.json").read_text())
    return {name: value for name, value in found.items() if name not in ("ledger", "versions")}


OF_COMPARE = [
    ("seed_0/evaluation.jsonl", edited), ("seed_0/simulators.jsonl", deleted), ("seed_0/config.yaml", edited), ("results.json", deleted),
    ("config.yaml", deleted), ("report.html", edited), ("stages.json", edited), ("seed_0/failures.jsonl", deleted), ("seed_0/stages.json", edited),
]  # fmt: skip


@pytest.mark.parametrize(("name", "damage"), OF_COMPARE)
def test_a_damaged_file_of_a_comparison_is_made_again_or_refused(name, damage, compared, tmp_path, capsys):
    copy, status = _compare_again(compared, tmp_path, lambda folder: damage(folder / name))
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    if name == "seed_0/stages.json":
        assert status == 2 and str(copy / "seed_0") in said.err and "stages.json" in said.err
        return
    assert status == 0 and _results(copy) == _results(compared[0])
    assert _sorted(copy / "seed_0") == _sorted(compared[0] / "seed_0")


@pytest.mark.parametrize("file", ["rows.jsonl", "train.jsonl"])
def test_changed_tasks_of_a_comparison_are_refused(file, place, compared, tmp_path, capsys):
    before = (place / file).read_bytes()

    def change(folder):
        write_rows(place / file, _reworded(read_rows(place / file)))

    try:
        _, status = _compare_again(compared, tmp_path, change)
        said = capsys.readouterr().err
    finally:
        (place / file).write_bytes(before)
    stage = {"rows.jsonl": "evaluate initial", "train.jsonl": "sft"}[file]
    assert status == 2 and f"{file} has changed since stage '{stage}' of " in said


def test_changed_inputs_of_a_run_are_refused(place, tiny_model_folder, tmp_path, capsys):
    model, folder = Path(shutil.copytree(tiny_model_folder, tmp_path / "model")), tmp_path / "run"
    words = [*_settings(folder, model), "--stage", "collect"]
    assert train.main(words) == 0
    one = (model / "model.safetensors").read_bytes()
    edited(model / "model.safetensors")
    assert train.main(words) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"error: {model} has changed since stage 'collect' of {folder} read it; restore it, give `--redo collect` to do that stage and what follows "
        "from it again, or another `--output`."
    )
    (model / "model.safetensors").write_bytes(one)
    assert train.main(words) == 0
    write_rows(place / "train.jsonl", _reworded(read_rows(place / "train.jsonl")))
    assert train.main(words) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: train.jsonl has changed since stage 'collect' of ")
    assert train.main([*words, "--redo", "collect"]) == 0
    assert "Please: " in (folder / "trajectories.jsonl").read_text()
