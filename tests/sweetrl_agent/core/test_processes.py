"""Threads of OpenMP do not spin beside other busy processes, unless the user says how they wait."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sweetrl_agent.core.processes import PATIENCE, yield_idle_threads

NAMES = ("OMP_WAIT_POLICY", *PATIENCE)
LOOKS = "import os, sys; from sweetrl_agent.config.command_line import prepare_process; before = 'torch' in sys.modules; prepare_process(); print(before, *(os.environ.get(n) for n in {}))"


@pytest.fixture
def unset(monkeypatch):
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that it is as it was afterwards
        monkeypatch.delenv(name)


def test_idle_threads_yield(unset):
    yield_idle_threads()
    assert {name: os.environ.get(name) for name in NAMES} == {"OMP_WAIT_POLICY": None, **PATIENCE}


@pytest.mark.parametrize("name", NAMES)
def test_what_the_user_has_set_stays(unset, monkeypatch, name):
    monkeypatch.setenv(name, "active")
    yield_idle_threads()
    assert {other: os.environ[other] for other in NAMES if other in os.environ} == {name: "active"}


def test_the_entry_point_sets_it_before_torch_is_loaded():
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run([sys.executable, "-c", LOOKS.format(NAMES)], env=clean, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "None", *PATIENCE.values()]
