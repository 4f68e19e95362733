"""Functions of other projects' code, to compare with: read from a folder that an environment variable names, and never written to this one."""

from __future__ import annotations

import ast
import copy
import os
import subprocess
from pathlib import Path

import pytest
import torch


def original_functions(variable, file, names, **namespace):
    """Functions of a file, by their names, wherever in the file they are; skips the test where the folder is absent.

    Args:
        variable: Environment variable with the folder: a checkout, or a bare git repository of which the newest commit is read.
        file: Path in the folder.
        names: Names of functions and methods.
        **namespace: What they find beside torch and copy.
    """
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"needs the original code: set {variable} to a checkout of it, or to its bare git repository")
    path = Path(folder) / file
    if path.is_file():
        text = path.read_text(encoding="utf-8")
    else:
        shown = ["git", f"--git-dir={folder}", "show", f"HEAD:{file}"]
        text = subprocess.run(shown, capture_output=True, check=True, text=True).stdout
    scope = {"torch": torch, "copy": copy, "Tuple": tuple, **namespace}
    wanted = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name in names]
    exec(compile(ast.Module(wanted, type_ignores=[]), file, "exec"), scope)
    return [scope[name] for name in names]
