"""Threads of OpenMP do not spin beside other busy processes, unless the user says how they wait."""

from __future__ import annotations

import os
import platform
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


_FREES = """
from pathlib import Path
from resource import getpagesize
from sweetrl_agent.core.processes import return_freed_memory

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize() / 2**20

first = bytearray(b"x") * 2**24
del first  # from here on, blocks of up to its size come from the heap
blocks = [(bytearray(b"x") * 2**22, bytearray(b"x") * 100_000) for _ in range(100)]
kept = [small for _, small in blocks]  # the heap does not shrink below these, which are too large for gaps of before
full = resident_mib()
del blocks
freed = resident_mib()
return_freed_memory()
print(full, freed, resident_mib())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc only")
def test_freed_memory_goes_back_to_the_system():
    done = subprocess.run([sys.executable, "-c", _FREES], capture_output=True, text=True, check=True)
    full, freed, returned = map(float, done.stdout.split())
    assert full - freed < 100  # of 400: else there is nothing to return, and this test shows nothing
    assert full - returned > 300
