"""`python -m sandboxes`."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from pathlib import Path

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
    assert main(["check", "dockr"]) == 2
    assert capsys.readouterr().err == (
        "error: `sandbox` must be one of ('auto', 'embedded', 'docker', 'unsafe-no-isolation'), or 'package.module:Class', got 'dockr'. "
        "Did you mean 'docker'?\n"
    )


def test_the_guarantees_of_a_sandbox_of_ones_own_are_its_own(capsys):
    assert main(["check", "tests.sandboxes.test_named:Echo"]) == 0
    assert capsys.readouterr().out == (
        "tests.sandboxes.test_named:Echo (a class of your own: it gives its own guarantees):\n  isolation     nothing runs\n"
    )


README = Path(sandboxes.__file__).with_name("README.md").read_text("utf-8")


def readme_code(start):
    """The indented block of the README that starts with a line, as a program."""
    block = README[README.index(f"    {start}") :]
    return textwrap.dedent(re.split(r"\n(?=\S)", block)[0])


def test_the_readmes_example_gives_what_it_says():
    names = {}
    exec(readme_code("from sandboxes import Program, make"), names)
    first, second = names["result"].calls
    assert (first.outcome.name, first.value, first.fingerprint) == ("OK", {"set": [1, 2]}, names["fingerprint_of"]({1, 2}))
    assert (second.outcome.name, second.error) == ("EXCEPTION", "TypeError")


def test_the_readmes_backend_keeps_its_walls():
    names = {}
    exec(readme_code("from sandboxes.channel import PipeChannel"), names)
    with names["NiceSandbox"](workers=1) as sandbox:
        programs = [
            sandboxes.Program("import os", ("os.getpriority(os.PRIO_PROCESS, 0)",)),
            sandboxes.Program("import numpy", ("open('/etc/passwd')",)),
        ]
        nice, denied = sandbox.run(programs)
        assert nice.calls[0].value == min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
        assert denied.calls[0].outcome is sandboxes.Outcome.FORBIDDEN
