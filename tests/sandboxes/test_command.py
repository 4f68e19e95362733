"""`python -m sandboxes`."""

from __future__ import annotations

import sys

import pytest

import sandboxes
from sandboxes.__main__ import main


def test_check_says_what_a_sandbox_guarantees(capsys):
    assert main(["check", "embedded"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "embedded (as asked for):"
    assert {line.split()[0] for line in lines[1:]} >= {"files", "network", "processes", "memory", "time"}


def test_without_the_docker_package_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sandboxes.docker", None)
    expected = "The Docker backend needs the docker package: `pip install docker`."
    assert main(["build"]) == 2
    assert main(["check", "docker"]) == 2
    assert capsys.readouterr().err == f"error: {expected}\n" * 2
    with pytest.raises(sandboxes.SandboxError, match=f"^{expected}$"):
        sandboxes.make("docker")


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["check", "nothing"])
    assert "invalid choice: 'nothing'" in capsys.readouterr().err
