"""Output folders: one process in a folder and all that is in it, no way out of it by a symbolic link, no secret in its files."""

from __future__ import annotations

import fcntl
import json
import os

import pytest

from colbench_gym.files import append_rows, locked, refuse_links_out, write_text
from sweetrl_agent import compare, report, train
from sweetrl_agent.algorithms.settings import make_config

pytestmark = pytest.mark.usefixtures("untimed")

TASKS = ["--tasks", "embedded:train[:10]", "--test_tasks", "embedded:test[:3]", "--unseen_tasks", "", "--sandbox", "embedded"]
SECRETS = (
    "http://user:hunter2@127.0.0.1:9/v1",
    "http://hunter2@127.0.0.1:9/v1",
    "http://127.0.0.1:9/v1?api_key=hunter2",
)


@pytest.mark.parametrize("inner", ["seed_0", "seed_0/scale_4"])
@pytest.mark.parametrize("is_outer_first", [True, False])
def test_a_folder_and_those_in_it_exclude_each_other(inner, is_outer_first, tmp_path):
    outer, inner = tmp_path / "compare", tmp_path / "compare" / inner
    first, second = (outer, inner) if is_outer_first else (inner, outer)
    with locked(first), pytest.raises(ValueError, match="^Another process is working in"), locked(second):
        pass
    with locked(second):
        pass


def test_folders_beside_each_other_do_not_exclude_each_other(tmp_path):
    with locked(tmp_path / "compare" / "seed_0"), locked(tmp_path / "compare" / "seed_1"):
        pass


def test_a_link_to_a_folder_is_that_folder(tmp_path):
    (tmp_path / "compare" / "seed_0").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "compare" / "seed_0")
    with locked(tmp_path / "compare"), pytest.raises(ValueError, match="^Another process"), locked(tmp_path / "link"):
        pass


def test_compare_and_a_run_in_one_of_its_seeds_folders(tmp_path, capsys):
    seed = tmp_path / "compare" / "seed_0"
    with locked(tmp_path / "compare"):
        assert train.main([*TASKS, "--output", str(seed)]) == 2
    assert f"error: Another process is working in {str(tmp_path / 'compare')!r}" in capsys.readouterr().err
    with locked(seed):
        assert compare.main([*TASKS, "--output", str(tmp_path / "compare")]) == 2
    assert "error: Another process is working in" in capsys.readouterr().err


def test_the_lock_is_shared_with_no_child(tmp_path):
    with locked(tmp_path / "run"):
        held = [fd for fd in map(int, os.listdir("/proc/self/fd")) if _points_into(fd, tmp_path)]
        assert held and not any(os.get_inheritable(fd) for fd in held)


def _points_into(fd, folder):
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith(str(folder))
    except FileNotFoundError:
        return False


def test_a_folder_that_somebody_else_locks_above_is_named(tmp_path):
    above = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(above, fcntl.LOCK_EX)
    try:
        with pytest.raises(ValueError) as refused, locked(tmp_path / "run"):
            pass
    finally:
        os.close(above)
    assert str(refused.value).startswith(f"Another process is working in {str(tmp_path)!r};")


def _plant(folder, name, target):
    """A run folder in which `name` is a link to `target`."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return folder


LINKS = [
    "config.yaml.part",
    "trajectories.jsonl",
    "policy",
    "critic/checkpoints",
    "report.html.part",
    "seed_0/log.txt",
    "results.json",
]


@pytest.mark.parametrize("name", LINKS)
def test_a_link_out_of_the_folder_is_refused_and_nothing_is_written(name, tmp_path, capsys):
    victim = tmp_path / "victim"
    if name in ("policy", "critic/checkpoints"):
        victim.mkdir()
    else:
        victim.write_text("precious")
    folder = _plant(tmp_path / "run", name, victim)
    for main in (train.main, compare.main):
        assert main([*TASKS, "--output", str(folder)]) == 2
        assert capsys.readouterr().err == f"error: {str(folder / name)!r} is a symbolic link that leads out of {str(folder)!r}, to {str(victim)!r}; remove it, or give another `--output`.\n"  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        report.main([str(folder)])
    assert ended.value.code == 2 and "is a symbolic link that leads out of" in capsys.readouterr().err
    assert list(victim.iterdir()) == [] if victim.is_dir() else victim.read_text() == "precious"
    assert not (folder / "report.html").exists() and not (folder / "versions.json").exists()


@pytest.mark.parametrize("target", ["/nowhere/at/all", "../../../nowhere", "loop"])
def test_links_that_lead_nowhere(target, tmp_path):
    folder = _plant(tmp_path / "run", "loop", target)
    if target == "loop":  # round and round, but inside
        refuse_links_out(folder)
    else:
        with pytest.raises(ValueError, match="is a symbolic link that leads out of"):
            refuse_links_out(folder)


def test_links_inside_the_folder_and_a_linked_folder_itself_stay(tmp_path):
    folder = _plant(tmp_path / "compare", "seed_0/scale_4/start", "../start")
    (folder / "seed_0" / "initial").mkdir()
    (tmp_path / "link").symlink_to(folder)
    for name in (folder, tmp_path / "link"):
        with locked(name):
            write_text(name / "a.txt", "a")
            append_rows(name / "rows.jsonl", [{"a": 1}])
    assert (folder / "rows.jsonl").read_text() == '{"a": 1}\n' * 2


@pytest.mark.parametrize("address", SECRETS)
@pytest.mark.parametrize("option", ["simulator", "server_urls", "ray_address"])
def test_a_password_in_a_setting_is_refused_and_said_nowhere(option, address, tmp_path, capsys):
    value = json.dumps({"name": "openai", "model": "m", "base_url": address}) if option == "simulator" else address
    engine = ["--engine", "server"] if option == "server_urls" else []
    for main in (train.main, compare.main):
        assert main([*TASKS, *engine, "--output", str(tmp_path / "run"), f"--{option}", value]) == 2
        printed = capsys.readouterr()
        assert printed.err.startswith(f"error: `{option}` must not contain a password or key") and printed.err.count("\n") == 1
        assert "hunter2" not in printed.out + printed.err
    assert not (tmp_path / "run").exists()


def test_a_key_among_the_arguments_of_the_human_is_refused_and_said_nowhere(tmp_path, capsys):
    human = json.dumps({"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key": "hunter2"})
    asked = [*TASKS, "--output", str(tmp_path / "run")]
    for main, option in ((train.main, "simulator"), (compare.main, "simulator"), (compare.main, "simulators")):
        assert main([*asked, f"--{option}", human]) == 2
        printed = capsys.readouterr()
        assert f"`{option}` must not contain a password or key" in printed.err and "hunter2" not in printed.out + printed.err


def test_the_name_of_the_variable_that_holds_the_key_may_be_said():
    human = {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "MY_KEY"}
    config = make_config({"simulator": json.dumps(human)})
    assert config.task.simulator_spec() == human
