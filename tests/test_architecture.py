"""The rules of the architecture that a machine can check, on the source alone."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "sandboxes": set(),
    "colbench_gym": {"sandboxes"},
    "sweetrl_agent": {"sandboxes", "colbench_gym"},
}
MAX_LINES = 400
#: Heavy libraries that colbench_gym imports inside functions or not at all.
NOT_AT_IMPORT = {
    "torch",
    "transformers",
    "datasets",
    "scipy",
    "openai",
    "huggingface_hub",
    "PIL",
    "docker",
    "trl",
    "peft",
    "stable_baselines3",
}
#: Constructors of generators, and what saves and restores the hidden global one, on which everything else in these modules works.
ALLOWED_RANDOM = {
    "random": {"Random", "SystemRandom", "getstate", "setstate"},
    "numpy.random": {
        "RandomState",
        "default_rng",
        "Generator",
        "SeedSequence",
        "BitGenerator",
        "MT19937",
        "PCG64",
        "Philox",
        "get_state",
        "set_state",
    },
}
#: The runner of a sandbox seeds the generators of the program that it runs, and nobody else's.
SEEDS_GLOBALS = {"sandboxes.runner.program", "sandboxes.runner.program_process", "sandboxes.runner.supervisor"}
#: Folders of the trainer: a module imports from those before its own, the commands from all.
FOLDERS = (
    "core", "envs", "config", "data", "policies", "models", "rollouts", "critics", "trainers", "reporting", "algorithms", "evaluation",
    "bridges",
)  # fmt: skip
#: What the trainer takes from `colbench_gym` outside of its records: the error that voids an episode, and helpers that know no task.
SHARED_WITH_COLBENCH = {
    "colbench_gym.digests", "colbench_gym.errors", "colbench_gym.files", "colbench_gym.generators", "colbench_gym.outside_text", "colbench_gym.progress", "colbench_gym.reasoning", "colbench_gym.seeds",
    "colbench_gym.scoring.intervals", "colbench_gym.spaces", "colbench_gym.stage_records", "colbench_gym.task_ids", "colbench_gym.user_file",
    *(f"colbench_gym.agents.{name}" for name in ("agent", "chat", "menu", "person", "prompts")),
    *(f"colbench_gym.servers.{name}" for name in ("chat_server", "completion", "errors", "usage")),
    *(f"colbench_gym.evaluation.{name}" for name in ("evaluation", "folder", "names", "policies", "prices", "rows", "summary", "table", "trial")),
}  # fmt: skip
#: An object of a module, as a text.
_OBJECT = re.compile(r"[a-z_]+(\.\w+)+:\w+")
#: The modules that need the docker package, which is an extra.
DOCKER_BACKEND = {"sandboxes.docker", "sandboxes.containers", "sandboxes.images"}


def _module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {_module_name(path): path for package in MAY_IMPORT for path in sorted((ROOT / package).rglob("*.py"))}


@cache
def _tree(name):
    return ast.parse(FILES[name].read_text("utf-8"))


def _imports(name, top_level_only=False, at_run_time=False):
    """Absolute names of the modules that a module imports; of `from package import module`, the module.

    All of them, or those outside of functions, or all but those for type checkers alone.
    """
    nodes = _executed(_tree(name), not top_level_only) if top_level_only or at_run_time else ast.walk(_tree(name))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name if FILES[name].name == "__init__.py" else name.rpartition(".")[0]
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *filter(None, [node.module])])
            for alias in node.names:
                yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in FILES else base
    yield from () if top_level_only else _named(_tree(name))


def _named(tree):
    """Our modules that code names in texts: as "module:NAME", and in calls of `import_module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        else:
            texts = (
                [node.value.partition(":")[0]] if isinstance(node, ast.Constant) and _OBJECT.fullmatch(str(node.value)) else []
            )
        yield from (text for text in texts if text in FILES)


def _executed(tree, also_in_functions):
    """Nodes that run: not under `if TYPE_CHECKING`, and inside functions only where asked for."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        is_for_checkers = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not is_for_checkers and (also_in_functions or not is_function):
            waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.ExceptHandler)]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_from_those_above(package):
    others = set(MAY_IMPORT) - {package} - MAY_IMPORT[package]
    wrong = [
        f"{name} imports {target}"
        for name in FILES
        if name.split(".")[0] == package
        for target in _imports(name)
        if target.split(".")[0] in others
    ]
    assert not wrong


def test_colbench_gym_and_sandboxes_import_nothing_heavy_at_import():
    wrong = [
        f"{name} imports {target}"
        for name in FILES
        if not name.startswith("sweetrl_agent")
        for target in _imports(name, top_level_only=True)
        if target.split(".")[0] in NOT_AT_IMPORT and not (name in DOCKER_BACKEND and target.split(".")[0] == "docker")
    ]
    assert not wrong


def test_the_docker_backend_is_imported_by_itself_and_on_demand_alone():
    importers = {name for name in FILES if DOCKER_BACKEND & set(_imports(name, top_level_only=True))}
    assert importers <= DOCKER_BACKEND


def test_only_the_records_of_environments_know_colbench():
    wrong = [
        f"{name} imports {target}"
        for name in FILES
        if name.startswith("sweetrl_agent.") and not name.startswith("sweetrl_agent.envs.")
        for target in _imports(name)
        if target.split(".")[0] == "colbench_gym" and target not in SHARED_WITH_COLBENCH
    ]
    assert not wrong


def test_a_folder_of_the_trainer_imports_only_from_those_before_it():
    def place(name):
        folder = name.split(".")[1] if name.count(".") and not name.endswith(".__main__") else ""  # a command imports from all
        return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)

    assert {path.name for path in (ROOT / "sweetrl_agent").iterdir() if (path / "__init__.py").exists()} == {*FOLDERS}
    wrong = [
        f"{name} imports {target}"
        for name in FILES
        if name.startswith("sweetrl_agent")
        for target in _imports(name, at_run_time=True)
        if target.startswith("sweetrl_agent.") and place(target) > place(name)
    ]
    assert not wrong


def test_modules_import_each_other_in_no_circle():
    edges = {name: {target for target in _imports(name) if target in FILES and target != name} for name in FILES}
    done, path = set(), []

    def visit(name):
        if name in path:
            raise AssertionError("circle: " + " -> ".join([*path[path.index(name) :], name]))
        if name not in done:
            path.append(name)
            for target in sorted(edges[name]):
                visit(target)
            path.pop()
            done.add(name)

    for name in edges:
        visit(name)


def test_the_trainer_imports_none_of_its_modules_by_name():
    """But for the names that `sweetrl_agent` exports lazily: a name would hide an import from the other tests."""
    named = {name: [*_named(_tree(name))] for name in FILES if name.startswith("sweetrl_agent.")}
    assert not {name: targets for name, targets in named.items() if targets}
    calls = {name for name in FILES if name.startswith("sweetrl_agent.") and "import_module(" in FILES[name].read_text("utf-8")}
    assert not calls


def test_no_file_is_long():
    paths = [*FILES.values(), *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in paths}
    assert not {path: length for path, length in lengths.items() if length > MAX_LINES}


def _aliases(tree):
    """Local name -> the random module it stands for."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in ALLOWED_RANDOM and (alias.asname or "." not in alias.name):
                    names[alias.asname or alias.name] = alias.name
                elif alias.name.split(".")[0] == "numpy":
                    name = alias.asname if alias.asname and alias.name == "numpy" else "numpy"
                    names[f"{name}.random"] = "numpy.random"
        elif isinstance(node, ast.ImportFrom) and node.module == "numpy":
            names.update({alias.asname or alias.name: "numpy.random" for alias in node.names if alias.name == "random"})
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_global_generator_is_used(package):
    wrong = []
    for name in FILES:
        if name.split(".")[0] != package or name in SEEDS_GLOBALS:
            continue
        aliases = _aliases(_tree(name))
        for node in ast.walk(_tree(name)):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in aliases:
                if node.attr not in ALLOWED_RANDOM[aliases[ast.unparse(node.value)]]:
                    wrong.append(f"{name}, line {node.lineno}: {ast.unparse(node)}")
            elif isinstance(node, ast.ImportFrom) and node.module in ALLOWED_RANDOM:
                wrong += [
                    f"{name}, line {node.lineno}: from {node.module} import {alias.name}"
                    for alias in node.names
                    if alias.name not in ALLOWED_RANDOM[node.module]
                ]
    assert not wrong


def test_the_checks_see_what_they_look_for():
    code = "import numpy as np\nimport random as r\nfrom numpy import random as q\nnp.random.seed(0)"
    assert _aliases(ast.parse(code)) == {"np.random": "numpy.random", "r": "random", "q": "numpy.random"}
    tree = ast.parse("try:\n    import a\nexcept E:\n    import b\ndef f():\n    import c\nif TYPE_CHECKING:\n    import d")
    assert sorted(ast.unparse(node) for node in _executed(tree, False) if isinstance(node, ast.Import)) == [
        "import a",
        "import b",
    ]
    every = sorted(ast.unparse(node) for node in _executed(tree, True) if isinstance(node, ast.Import))
    assert every == ["import a", "import b", "import c"]
    assert "colbench_gym.tasks.rows" in _imports("colbench_gym.grade")
    by_name = (
        "import_module('sandboxes.named')\nwork = 'colbench_gym.grade:main'\nlog = 'colbench_gym.play'\nother = 'not.ours:x'"
    )
    assert sorted(_named(ast.parse(by_name))) == ["colbench_gym.grade", "sandboxes.named"]
