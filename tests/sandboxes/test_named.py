"""Objects by name: what is found, and the sentence for each thing that can be wrong with a name."""

from __future__ import annotations

import re

import pytest

import sandboxes
from sandboxes import Sandbox
from sandboxes.browser import Browser, make_browser
from sandboxes.named import build, load_class, load_named, name_and_arguments, nearest, spec_of, unknown

HERE = __name__


class Echo(Sandbox):
    """A sandbox that runs nothing."""

    name = "echo"

    def __init__(self, workers: int = 1, tone: str = "plain"):
        self.workers, self.tone = workers, tone

    def run(self, programs):
        return [None for _ in programs]

    def guarantees(self):
        return {"isolation": "nothing runs"}

    def close(self):
        pass


class Lone(Echo):
    def __init__(self, tone="plain"):
        self.tone = tone


class Unfinished(Sandbox):
    def run(self, programs):
        return []


class NoSandbox:
    def run(self, programs):
        return []

    def guarantees(self):
        return {}

    def close(self):
        pass


class Broken(Echo):
    def __init__(self, workers):
        raise KeyError("tone")


def a_function():
    return None


def test_a_sandbox_of_somebody_elses_is_made_by_its_class_with_arguments():
    with sandboxes.make(f"{HERE}:Echo", workers=3) as made:
        assert (made.workers, made.tone, made.run([1])) == (3, "plain", [None])
    assert sandboxes.make({"name": f"{HERE}:Echo", "tone": "loud"}).tone == "loud"
    assert sandboxes.make({"name": f"{HERE}:Lone", "tone": "low"}, workers=3).tone == "low"  # does not take `workers`
    assert sandboxes.resolve({"name": f"{HERE}:Echo"}) == (f"{HERE}:Echo", "a class of your own: it gives its own guarantees")


class Window(Browser):
    """A user-defined browser."""


def test_a_browser_of_somebody_elses_is_made_by_its_class():
    made = make_browser({"name": f"{HERE}:Window", "workers": 3}, pictures=False)
    assert type(made) is Window and (made.workers, made.pictures) == (3, False)
    with pytest.raises(
        ValueError, match="^`sandbox` must name a `Browser` of `sandboxes.browser`, got .*, which has no method 'render'"
    ):
        make_browser(f"{HERE}:Echo")


def test_a_named_backend_takes_arguments():
    with sandboxes.make({"name": "embedded", "workers": 1}, workers=2) as made:
        assert (made.name, made._workers) == ("embedded", 1)
    with pytest.raises(
        ValueError, match=r"^The 'embedded' sandbox takes workers, packages, bubblewrap; got .*'worker'\. Did you"
    ):
        sandboxes.make({"name": "embedded", "worker": 1})


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("dockr", ", or 'package.module:Class', got 'dockr'. Did you mean 'docker'?"),
        ("no_such_module:Echo", "`sandbox` names a module that does not exist: 'no_such_module'."),
        (f"{HERE}:Ecko", f"`sandbox`: the module {HERE!r} has no 'Ecko'. Did you mean 'Echo'?"),
        (f"{HERE}:a_function", f"got '{HERE}:a_function', which is no class but a function."),
        (f"{HERE}:Unfinished", f"got '{HERE}:Unfinished', which has no method 'guarantees' and no 'close'."),
        (f"{HERE}:NoSandbox", f"must name a `Sandbox` of `sandboxes`, got '{HERE}:NoSandbox', which is not derived from it."),
        ({"tone": "loud"}, '`sandbox` as a mapping needs a "name", such as {"name": "package.module:Class"}, got None.'),
        ({"name": f"{HERE}:Echo", "tune": 1}, "got an unexpected keyword argument 'tune'. Did you mean 'tone'?"),
        (f"{HERE}:Broken", f"`sandbox` '{HERE}:Broken' cannot be made ("),
    ],
)
def test_each_wrong_name_has_a_sentence(name, error):
    with pytest.raises(ValueError, match=re.escape(error)) as caught:
        sandboxes.make(name)
    assert "\n" not in str(caught.value)


def test_a_module_that_fails_is_named_with_file_and_line(tmp_path, monkeypatch):
    (tmp_path / "fails_at_import.py").write_text("\n1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"'fails_at_import' cannot be imported \(.*fails_at_import.py, line 2: ZeroDivision"):
        load_named("critic", "fails_at_import:X")


def test_specifications():
    assert spec_of("simulator", "scripted") == "scripted"
    assert spec_of("simulator", ' {"name": "m:C", "a": 1}') == {"name": "m:C", "a": 1}
    assert name_and_arguments("simulator", {"name": "m:C", "a": 1}) == ("m:C", {"a": 1})
    with pytest.raises(ValueError, match="^`simulator` must be a name or valid JSON: ") as caught:
        spec_of("simulator", '{"password": "secret"')
    assert "secret" not in str(caught.value)


def test_near_names():
    assert nearest("GRPO", ["grpo", "rft"]) == " Did you mean 'grpo'?"
    assert nearest("something", ["grpo", "rft"]) == ""
    assert str(unknown("engine", "vlm", ("vllm", "server"), "")) == (
        "`engine` must be one of ('vllm', 'server'), got 'vlm'. Did you mean 'vllm'?"
    )


def test_methods_are_enough_where_no_base_is_asked_for():
    assert load_class("critic", f"{HERE}:NoSandbox", "a thing", ("run", "close")) is NoSandbox
    with pytest.raises(ValueError, match="must name a thing, got .* which has no method 'walk'"):
        load_class("critic", f"{HERE}:NoSandbox", "a thing", ("run", "walk"))


def test_errors_of_our_own_constructors_are_not_changed():
    with pytest.raises(KeyError):
        build("sandbox", "ours", Broken, {"workers": 1})
