"""First code of a runner, passed to a clean interpreter with `-c`. It loads the other modules from standard input.

The modules arrive as text, so the runner needs no file of the project, and no such file is readable from inside.
"""

import sys

sys.path[:] = filter(None, sys.path)  # "" is the directory in which the runner was started, with arbitrary files

import os  # noqa: E402
import types  # noqa: E402


def _read_exactly(count: int) -> bytes:
    data = b""
    while len(data) < count:
        # os.read, because a buffered reader would consume the frames that follow.
        chunk = os.read(0, count - len(data))
        if not chunk:
            raise SystemExit("The host closed the pipe before the runner had started.")
        data += chunk
    return data


def _new_module(name: str) -> types.ModuleType:
    module = sys.modules[name] = types.ModuleType(name)
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules.get(parent) or _new_module(parent), leaf, module)
    return module


def main() -> None:
    """Load the modules in the order sent, and call `main` of the last one."""
    # The host is trusted and sends code, so a Python literal is fine. An imported json module would slow down every fork.
    boot = eval(_read_exactly(int.from_bytes(_read_exactly(4), "big")))
    for name, source in boot["modules"].items():
        module = _new_module(name)
        exec(compile(source, f"<{name}>", "exec", dont_inherit=True), module.__dict__)
    module.main(boot["settings"])


main()
