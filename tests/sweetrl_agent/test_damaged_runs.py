"""Files of a finished run that are missing, damaged or changed: made again from whole inputs with the same results, or refused by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from colbench_gym.digests import file_of
from colbench_gym.errors import ColBenchError
from colbench_gym.stage_records import StageRecords
from sweetrl_agent import evaluate, report
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.train import main
from tests.damages import DAMAGES, a_folder, a_pipe, cut_at_a_line_end, cut_mid_line, deleted, edited, one_bit_flipped, replaced
from tests.words import words

from .killed_runs import content, reopen_from

#: The packaged initial policy, which passes some tests by itself, so that every stage has something to do.
SETTINGS = {
    "num_tasks": 6, "trajectories_per_task": 4, "sweet.num_states": 6, "sweet.num_candidates": 2, "eval_tasks": 2, "unseen_tasks": "", "shown_dialogues": 1,
    "sandbox": "embedded", "threads": 1,
}  # fmt: skip
#: Files that every command writes again: copies of the records, and what the report makes of the other files.
ALWAYS = ("README.md", "config.yaml", "metrics.jsonl", "timings.jsonl", *STAGES["report"].files)
#: What the run started with; no result depends on it.
PROVENANCE = ("versions.json",)
DONE = list(STAGES)[:-1]


def _arguments(folder, **changes):
    return words({**SETTINGS, "output": folder, **changes})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged") / "run"
    assert main(_arguments(folder)) == 0
    return folder


@pytest.fixture
def copied(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def _files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _stage_of(name):
    return next((stage for stage in DONE for file in STAGES[stage].files if name == file or name.startswith(file)), "")


def test_every_damage_of_every_file_is_seen(finished):
    declared = {name: STAGES[name].writes for name in DONE}
    seen = {}
    for name in _files(finished):
        path = finished / name
        whole = path.read_bytes()
        for damage in (*DAMAGES, a_pipe):
            damage(path)
            try:
                seen[name, damage.__name__] = list(StageRecords(finished).find_invalid(declared))
            except ColBenchError as error:
                seen[name, damage.__name__] = str(error)
            path.unlink(missing_ok=True)
            path.write_bytes(whole)
    records = {key: found for key, found in seen.items() if key[0] == "stages.json" and key[1] != "deleted"}
    assert all(
        found.startswith(f"{finished}/stages.json {'must be a file' if damage == 'a_pipe' else 'is not as a command wrote it'}")
        for (_, damage), found in records.items()
    )
    assert "exists, and stages.json has no record of stage 'sft', which writes it" in seen["stages.json", "deleted"]
    others = {key: found for key, found in seen.items() if key[0] != "stages.json"}
    assert others == {key: [_stage_of(key[0])] if key[0] not in (*ALWAYS, *PROVENANCE) else [] for key in others}
    assert {_stage_of(name) for name in _files(finished)} == {*DONE, ""}


#: A file of every stage; that each damage of each file is seen is tested above.
CASES = [
    ("initial/model.safetensors", replaced), ("trajectories.jsonl", cut_at_a_line_end), ("outcome_pairs.jsonl", replaced),
    ("critic/model.safetensors", one_bit_flipped), ("candidates.jsonl", a_pipe), ("scores.jsonl", edited), ("policy/config.json", a_folder),
    ("evaluation.jsonl", deleted), ("turn_advantages.jsonl", edited),
]  # fmt: skip
#: Files that are always written.
WRITTEN_AGAIN = [
    ("README.md", deleted), ("config.yaml", cut_mid_line), ("metrics.jsonl", cut_at_a_line_end), ("timings.jsonl", edited),
    ("results.json", one_bit_flipped), ("failures.jsonl", cut_at_a_line_end), ("report.html", replaced),
]  # fmt: skip


@pytest.mark.parametrize(("name", "damage"), CASES, ids=[f"{name}-{damage.__name__}" for name, damage in CASES])
def test_a_damaged_file_is_made_again_and_nothing_else_changes(name, damage, finished, copied, caplog):
    damage(copied / name)
    with caplog.at_level("INFO"):
        assert main(_arguments(copied)) == 0
    again = [record.message for record in caplog.records if "is done again" in record.message]
    stage = _stage_of(name)
    file = next(file for file in STAGES[stage].files if name.startswith(file))
    assert again == [f"{stage}: is done again, since {file} is missing, changed or damaged"]
    one, two = content(finished), content(copied)
    assert list(one) == list(two) and [file for file in one if one[file] != two[file]] == []


def test_files_that_every_command_writes_are_written_again(finished, copied, caplog):
    for name, damage in WRITTEN_AGAIN:
        damage(copied / name)
    assert main(_arguments(copied)) == 0
    assert not [text for text in caplog.messages if "is done again" in text]
    assert content(copied) == content(finished)


@pytest.mark.parametrize("name", ["initial", "critic"])
def test_a_folder_that_is_gone_is_made_again(name, finished, copied):
    shutil.rmtree(copied / name)
    assert main(_arguments(copied)) == 0
    assert content(copied) == content(finished)


@pytest.mark.parametrize(
    ("pending", "name", "damage"),
    [("actor", "turn_pairs.jsonl", cut_at_a_line_end), ("evaluate", "policy/model.safetensors", cut_mid_line)],
)  # fmt: skip
def test_a_damaged_file_is_made_again_before_a_stage_reads_it(pending, name, damage, finished, copied):
    reopen_from(copied, pending)
    damage(copied / name)
    assert main(_arguments(copied)) == 0
    assert content(copied) == content(finished)


def test_a_single_stage_is_not_run_on_damaged_files(copied, capsys):
    reopen_from(copied, "actor")
    cut_at_a_line_end(copied / "turn_pairs.jsonl")
    assert main([*_arguments(copied), "--stage", "actor"]) == 2
    assert capsys.readouterr().err == (
        "error: Stage 'actor' needs the files of ['rank'] (turn_pairs.jsonl is missing, changed or damaged); run these first, or leave out "
        "`--stage`.\n"
    )


def test_a_dry_run_says_what_is_done_again_and_changes_nothing(copied, capsys):
    one_bit_flipped(copied / "critic" / "model.safetensors")
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    assert main([*_arguments(copied), "--dry_run"]) == 0
    assert "again      critic: critic/ is missing, changed or damaged\n" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before


def test_two_damaged_files_are_made_again_in_order(finished, copied, caplog):
    deleted(copied / "trajectories.jsonl")
    edited(copied / "candidates.jsonl")
    assert main(_arguments(copied)) == 0
    assert [text.split(":")[0] for text in caplog.messages if "is done again" in text] == ["collect", "candidates"]
    assert content(copied) == content(finished)


def test_redo_repeats_a_stage_and_what_follows(finished, copied, capsys, caplog):
    assert main([*_arguments(copied), "--redo", "rank"]) == 0
    assert [text.split(":")[0] for text in caplog.messages if "is done again" in text] == ["rank", "actor", "evaluate"]
    (copied / "earlier_results.json").unlink()
    assert content(copied) == content(finished)
    assert main([*_arguments(copied), "--redo", "ranks"]) == 2
    assert "error: `redo` must be one of the stages 'sft', 'collect'," in capsys.readouterr().err


def test_records_of_another_run_are_refused(copied, tmp_path, capsys):
    other = StageRecords(tmp_path / "other")
    other.settings = {**StageRecords(copied).settings, "seed": 7}
    other.stages = StageRecords(copied).stages
    (tmp_path / "other").mkdir()
    other.save()
    shutil.copy(tmp_path / "other" / "stages.json", copied / "stages.json")
    assert main(_arguments(copied)) == 2
    assert (
        f"error: {copied} has other settings, and files were made with them (seed: 7 there, 0 here)" in capsys.readouterr().err
    )


def test_missing_records_are_refused_and_nothing_is_lost(copied, capsys):
    deleted(copied / "stages.json")
    assert main(_arguments(copied)) == 2
    assert capsys.readouterr().err == (
        f"error: {copied / 'initial'} exists, and stages.json has no record of stage 'sft', which writes it; restore stages.json, give "
        "`--redo sft` to make the file again, or another `--output`.\n"
    )


def test_a_copied_run_is_whole(finished, copied, caplog):
    for path in copied.rglob("*"):
        path.touch()
    assert main(_arguments(copied)) == 0
    assert not [text for text in caplog.messages if "again" in text]


@pytest.mark.parametrize(
    "name",
    ["results.json", "evaluation.jsonl", "turn_advantages.jsonl", "metrics.jsonl", "failures.jsonl", "pairs_summary.json"],
)
def test_a_report_shows_no_changed_file(name, copied, capsys):
    edited(copied / name)
    with pytest.raises(SystemExit, match="2"):
        report.main([str(copied)])
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"error: {copied / name} is not " in said and said.endswith("again.")
    assert report.main([str(copied.parent)]) == 0  # the index of all runs
    index = (copied.parent / "index.html").read_text()
    assert ("results.json has changed" in index) == (name == "results.json")


@pytest.mark.parametrize(("name", "said"), [("policy/model.safetensors", "policy is not as stage 'actor' wrote it"), ("initial/model.safetensors", "initial is not as stage 'sft' wrote it"),
                                            ("config.yaml", "config.yaml is not as the run wrote it"), ("stages.json", "stages.json is not as a command wrote it")])  # fmt: skip
def test_an_evaluation_does_not_play_a_changed_policy(name, said, copied, tmp_path, capsys):
    (one_bit_flipped if name.endswith("safetensors") else edited)(copied / name)
    assert evaluate.main([str(copied), "--output", str(tmp_path / "e")]) == 2
    err = capsys.readouterr().err
    assert said in err and err.startswith("error: ") and err.count("\n") == 1
    assert not (tmp_path / "e").exists() or not (tmp_path / "e" / "evaluation.jsonl").exists()


def test_results_are_not_replaced_by_fewer(copied, capsys):
    found = json.loads((copied / "results.json").read_text())
    found["trained"]["test"]["n"] = 9
    (copied / "results.json").write_text(json.dumps(found))
    assert main(_arguments(copied)) == 2
    assert (
        "results.json has results of 9 episodes of 'trained' on 'test', and there are rows of 2, so it is kept"
        in capsys.readouterr().err
    )


def test_a_dry_run_fails_where_the_command_would(copied, capsys):
    edited(copied / "versions.json")
    cut_mid_line(copied / "versions.json")
    for more in (["--dry_run"], []):
        assert main([*_arguments(copied), *more]) == 2
        assert f"{copied / 'versions.json'}: expected a JSON object; restore the file" in capsys.readouterr().err


def test_an_evaluation_is_not_written_into_a_run(copied, capsys):
    before = (copied / "results.json").read_bytes()
    for more in (["--dry_run"], []):
        assert evaluate.main(["random", "--tasks", "embedded:test[:1]", "--output", str(copied), *more]) == 2
        assert f"{copied} is the folder of a run, and this command writes that of an evaluation" in capsys.readouterr().err
    assert (copied / "results.json").read_bytes() == before


def test_files_of_a_name():
    assert file_of('evaluation.jsonl {"agent": "rft"}') == "evaluation.jsonl" and file_of("policy/") == "policy/"
