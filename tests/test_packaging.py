"""What the package says of itself, and that all files and commands are in it. `.ci/packages` builds and installs it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import setuptools  # noqa: F401  (provides distutils)
import yaml
from packaging.requirements import Requirement

from sandboxes.extras import pip_install
from sandboxes.programs import program_name
from sweetrl_agent.__main__ import COMMANDS, main

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("sandboxes", "colbench_gym", "sweetrl_agent")
#: Extras that `all` leaves out: what is for developers, what needs a GPU, and what is under the GPL.
NOT_IN_ALL = {"dev", "deepspeed", "chess", "all"}
#: Modules with a command that has no script.
WITHOUT_SCRIPT = {"sandboxes.__main__", "colbench_gym.__main__", "sweetrl_agent.__main__"}


@pytest.fixture(scope="module")
def distribution():
    """The distribution of setup.py; nothing is built."""
    from distutils.core import run_setup

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        made = run_setup("setup.py", stop_after="init")
        build = made.get_command_obj("build_py")
        build.ensure_finalized()
        made.files = {str(Path(folder, name)) for _, folder, _, names in build.data_files for name in names}
        made.files |= {str(Path(path)) for _, _, path in build.find_all_modules()}
    return made


def _tracked(*folders):
    """Files of the repository; in an unpacked sdist, which is none, the files that are there."""
    done = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}
    found = (path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path) for path in found if "__pycache__" not in path.parts}


def _with_main(package):
    """Modules directly in a package that define `main`."""
    for path in (ROOT / package).glob("*.py"):
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in ast.parse(path.read_text("utf-8")).body):
            yield f"{package}.{path.stem}"


def test_all_files_of_the_packages_are_in_the_distribution(distribution):
    tracked = _tracked(*PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= tracked
    assert sorted(tracked - distribution.files) == [], "name their ending in DATA of setup.py"


def test_the_core_needs_three_packages_alone(distribution):
    assert {Requirement(line).name for line in distribution.install_requires} == {"gymnasium", "numpy", "markdown-it-py"}


def test_all_has_every_extra_that_runs_without_a_gpu(distribution):
    extras = distribution.extras_require
    expected = {str(Requirement(line)) for name in extras.keys() - NOT_IN_ALL for line in extras[name]}
    assert {str(Requirement(line)) for line in extras["all"]} == expected


def test_every_extra_and_script_is_documented(distribution):
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([\w-]+)`", page, flags=re.MULTILINE))
    scripts = {line.split(" = ")[0] for line in distribution.entry_points["console_scripts"]}
    assert rows == {*distribution.extras_require, *scripts}


def test_every_command_has_a_script_named_after_its_module(distribution):
    scripts = dict(line.split(" = ") for line in distribution.entry_points["console_scripts"])
    commands = {module for package in PACKAGES for module in _with_main(package)} - WITHOUT_SCRIPT
    assert {target.removesuffix(":main") for target in scripts.values()} == commands
    with pytest.MonkeyPatch.context() as patch:
        for script, target in scripts.items():
            patch.setattr(sys, "argv", [f"/somewhere/bin/{script}"])
            assert program_name(target.removesuffix(":main")) == script


@pytest.mark.parametrize("started", ["/a/colbench_gym/grade.py", "pytest", "/a/colbench-play", "-c"])
def test_a_command_that_its_script_did_not_start_is_named_by_its_module(started, monkeypatch):
    monkeypatch.setattr(sys, "argv", [started])
    assert program_name("colbench_gym.grade") == "python -m colbench_gym.grade"


def test_a_script_shows_its_own_name_in_its_usage():
    code = "import sys; sys.argv = ['/bin/sweetrl-report', '--help']; from sweetrl_agent.report import main; main()"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert said.startswith("usage: sweetrl-report [-h]")


@pytest.mark.parametrize("command", COMMANDS)
def test_without_extras_a_command_prints_its_usage_or_one_sentence(command):
    lacking = "torch trl transformers datasets accelerate peft scipy tqdm yaml pydantic jinja2 vl_convert safetensors tokenizers docker httpx"
    code = (
        f"import sys\nfor name in {lacking.split()}: sys.modules[name] = None\nsys.argv = ['/bin/sweetrl-{command}', '--help']\n"
        f"from sweetrl_agent.{command} import main; raise SystemExit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "[train]" in done.stderr, done.stderr
    else:
        assert done.stdout.startswith(f"usage: sweetrl-{command} ")


def test_the_package_lists_its_commands_without_torch():
    code = (
        "import runpy, sys\ntry: runpy.run_module('sweetrl_agent', run_name='__main__')\nfinally: print('torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    listed = dict(re.findall(r"^  python -m sweetrl_agent\.(\w+) +sweetrl-\w+ +(\S.*)$", said, flags=re.MULTILINE))
    assert listed == COMMANDS and said.endswith("\nFalse\n")
    assert {f"sweetrl_agent.{name}" for name in listed} == {*_with_main("sweetrl_agent")} - WITHOUT_SCRIPT


def test_a_word_after_the_package_is_answered_with_the_module(capsys):
    assert main(["compare", "--seeds", "2"]) == 2
    assert capsys.readouterr().err == (
        "error: a command is a module: `python -m sweetrl_agent.compare`, or `sweetrl-compare`.\n"
    )


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_command_without_the_packages_for_training_says_how_to_get_them(command):
    code = (
        "import sys; sys.modules['datasets'] = None\n"
        f"from sweetrl_agent.{command} import main; sys.exit(main(['--output', '/nobody']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr == f"error: this command needs datasets: `{pip_install('[train]')}`\n"


def test_the_citation_is_of_this_version(distribution):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == distribution.metadata.version
    assert citation["license"] == distribution.metadata.license_expression
    assert [author["name"] for author in citation["authors"]] == [distribution.metadata.author]


def _pins(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_both_lists_of_tested_versions_lie_in_the_allowed_ranges(distribution):
    newest, oldest = _pins("constraints.txt"), _pins("constraints-oldest.txt")
    required = [*distribution.install_requires, *distribution.extras_require["train"]]
    for requirement in map(Requirement, required):
        names = {name.lower(): name for name in newest}
        assert requirement.specifier.contains(newest[names[requirement.name.lower()]]), requirement
    for requirement in map(Requirement, required):
        floor = [one.version for one in requirement.specifier if one.operator == ">="]
        if floor:
            names = {name.lower(): name for name in oldest}
            tested = oldest[names[requirement.name.lower()]]
            assert tested.split(".")[: len(floor[0].split("."))] == floor[0].split("."), f"{requirement}: tested with {tested}"


def test_trl_transformers_and_gymnasium_are_tested_in_two_minor_versions():
    newest, oldest = _pins("constraints.txt"), _pins("constraints-oldest.txt")
    for name in ("trl", "transformers", "gymnasium"):
        assert newest[name].split(".")[:2] != oldest[name].split(".")[:2], name


@pytest.mark.parametrize(
    "script", [*sorted((ROOT / ".ci").iterdir()), *sorted((ROOT / "benchmarks").glob("*.py"))], ids=lambda path: path.name
)
def test_the_tests_that_a_script_runs_exist(script):
    paths = re.findall(r"(?<![\w/.])tests/[\w/{},.]+\.py", script.read_text())
    expanded = [f"{start}{name}{end}" for start, names, end in map(_braces, paths) for name in names.split(",")]
    assert [path for path in expanded if not (ROOT / path).exists()] == []


def _braces(path):
    """A path in three parts, the second the alternatives between its braces; "" where it has none."""
    start, brace, rest = path.partition("{")
    return (start, *rest.split("}")) if brace else (start, "", "")


#: What takes seconds to import, and only a model that is loaded or trained needs.
HEAVY = (
    "datasets",
    "pandas",
    "peft",
    "scipy",
    "transformers.modeling_utils",
    "transformers.trainer",
    "trl.trainer.dpo_trainer",
)


@pytest.mark.parametrize("module", ["evaluation.main_job", "evaluation.comparison_job", "evaluation.evaluation_job"])
def test_reading_the_settings_imports_no_trainer(module):
    """`--help`, refusals and scripted policies take half the time."""
    code = f"import sys, sweetrl_agent.{module}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"
