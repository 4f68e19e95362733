"""The original LMRL-Gym as the other side of the parity tests, imported with stubs in place of its heavy dependencies.

COLBENCH_LMRL names the folder of a checkout of github.com/abdulhaim/LMRL-Gym (commit 911d726); without it these tests are skipped.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from pathlib import Path

import pytest

VARIABLE = "COLBENCH_LMRL"
#: Modules that the original imports and its environments do not need, with the names that it takes from them.
STUBS = {
    "tqdm.auto": ("tqdm",),
    "transformers": ("AutoTokenizer", "PreTrainedTokenizer"),
    "transformers.tokenization_utils": ("PreTrainedTokenizer",),
    "IPython": ("embed",),
    "skimage": (),
    "skimage.draw": ("disk", "random_shapes", "rectangle"),
    "termcolor": ("colored",),
}


def import_original(name: str, stubs: dict[str, tuple[str, ...]] | None = None) -> types.ModuleType:
    """Import a module of the original; skips the test where the original is absent.

    Args:
        name: Such as "llm_rl_scripts.maze.env.env".
        stubs: Further stubs, by module.
    """
    folder = os.environ.get(VARIABLE, "")
    if not folder or not (Path(folder) / "llm_rl_scripts").is_dir():
        pytest.skip(f"needs the original: set {VARIABLE} to a checkout of https://github.com/abdulhaim/LMRL-Gym")
    wanted = {**STUBS, **(stubs or {})}
    before = {key: sys.modules.get(key) for key in wanted}
    sys.path.insert(0, folder)
    try:
        for key, names in wanted.items():
            module = types.ModuleType(key)
            module.__path__ = []  # type: ignore[attr-defined]  # so that it may have submodules
            for one in names:
                setattr(module, one, type(one, (), {}))
            sys.modules[key] = module
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)
        for key, module in before.items():
            if module is None:
                sys.modules.pop(key, None)
            else:
                sys.modules[key] = module


@pytest.fixture(name="import_original", scope="session")
def _import_original():
    """The function `import_original`."""
    return import_original
