"""Checks an installation without extras: what it requires, an episode, and the commands. Runs in its environment, from another folder."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions, requires
from pathlib import Path

CORE = {"gymnasium", "numpy", "markdown-it-py"}
#: What an empty environment, gymnasium and markdown-it-py bring.
BROUGHT = {
    "cloudpickle",
    "markdown_it_py",
    "mdurl",
    "typing_extensions",
    "farama_notifications",
    "pip",
    "setuptools",
    "colbench_gym",
}
SCRIPTS = {
    "colbench-grade": 0, "colbench-play": 0, "colbench-evaluate": 0, "sweetrl-report": 0, "sweetrl-train": 2, "sweetrl-compare": 2,
    "sweetrl-evaluate": 2,
}  # fmt: skip


def main() -> None:
    """Run the checks; the first that fails raises."""
    required = {
        line.split(";")[0].split("<")[0].split(">")[0].strip()
        for line in requires("colbench-gym") or ()
        if "extra ==" not in line
    }
    assert required == CORE, required
    installed = {one.name.replace("-", "_").lower() for one in distributions()}
    assert installed <= CORE | BROUGHT, installed - CORE - BROUGHT
    _episode()
    _games()
    for script, status in SCRIPTS.items():
        _help(script, status)
    for package, expected in (("colbench_gym", "ColBench-Backend-v0"), ("sweetrl_agent", "python -m sweetrl_agent.train")):
        said = subprocess.run([sys.executable, "-m", package], capture_output=True, text=True, check=True).stdout
        assert expected in said, said
    print(f"without extras: {', '.join(sorted(installed))}; an episode and {len(SCRIPTS)} scripts ran")


def _episode() -> None:
    import gymnasium as gym

    import colbench_gym

    assert "site-packages" in str(colbench_gym.__file__), colbench_gym.__file__
    env = gym.make("ColBench-Backend-v0", tasks="embedded:test", sandbox="embedded")
    env.reset(seed=0)
    env.step("How should the result be rounded?")
    *_, info = env.step("I WANT TO ANSWER:\ndef f(): pass")
    assert info["metrics"]["outcome"].startswith("exception:"), info
    env.close()


def _games() -> None:
    """Every game of LMRL-Gym plays a turn; chess says in one sentence what it needs."""
    import gymnasium as gym

    import colbench_gym

    for name in colbench_gym.LMRL_GAMES:
        try:
            env = gym.make(f"LMRL-{name}-v0")
        except ImportError as error:
            assert name in ("Chess", "Endgames") and "[chess]" in str(error), error
            continue
        env.reset(seed=0)
        env.step(env.unwrapped.expert_action())  # type: ignore[attr-defined]
        env.close()


def _help(script: str, status: int) -> None:
    """Commands without torch print their usage; the others say in one line what they need."""
    done = subprocess.run([str(Path(sys.executable).with_name(script)), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == status, (script, done)
    if status:
        assert done.stderr.count("\n") == 1 and "[train]" in done.stderr, (script, done.stderr)
    else:
        assert done.stdout.startswith(f"usage: {script} "), (script, done.stdout[:200])


if __name__ == "__main__":
    main()
