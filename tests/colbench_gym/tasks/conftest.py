"""What several tests of the embedded tasks need: what our own references return, run here, and tasks by family."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import permutations

import pytest

from colbench_gym.tasks.dial import PRESETS
from colbench_gym.tasks.embedded import SPLITS, embedded_tasks, family_of


@cache
def _compiled(source, mode):
    return compile(source, "<reference>", mode)


@cache
def _values(source, calls):
    values = []
    for call in calls:
        namespace = {}
        exec(_compiled(source, "exec"), namespace)
        try:
            values.append(eval(_compiled(call, "eval"), namespace))
        except Exception as error:
            values.append(type(error))
    return tuple(values)


@pytest.fixture(scope="session")
def values():
    """Function: source, calls -> what our own reference gives. It is trusted. An exception stands for itself, by its type."""
    return _values


@pytest.fixture(scope="session")
def everything():
    """Function: preset -> the tasks of all splits."""
    return lambda preset="standard": [task for place in SPLITS for task in embedded_tasks(f"{place}?preset={preset}")]


@pytest.fixture(scope="session")
def by_family():
    """Function: name of a source -> its tasks, by the name of their family."""

    def group(name):
        tasks = defaultdict(list)
        for task in embedded_tasks(name):
            tasks[family_of(task)[0].name].append(task)
        return tasks

    return group


@pytest.fixture(params=PRESETS)
def preset(request):
    """Every preset's name."""
    return request.param


def _sources(domain, base, code, before, after):
    """The function with its steps in any order that the sentences leave open, written anew from the steps."""
    for first in filter(_keeps_what_is_said, permutations(before)):
        for last in filter(_keeps_what_is_said, permutations(after)):
            steps = [[*(code[step.topic.name] for step in part)] for part in (first, last)]
            body = "\n".join([*domain.opening.splitlines(), *steps[0], base.core, *steps[1], f"return {domain.result}"])
            yield f"{base.signature}:\n" + "\n".join(f"    {line}" for line in body.split("\n"))


def _keeps_what_is_said(steps):
    return all(a.order <= b.order for i, a in enumerate(steps) for b in steps[i + 1 :])


@pytest.fixture(scope="session")
def readings():
    """Function: task of a composed family -> its function in every order of its wishes that a reader could have in mind."""

    def read(task):
        family, choice = family_of(task)
        domain, base = family.domain, family.base
        code = {
            topic.name: topic.options[option].code[topic.name]
            for topic, option in zip(family.topics, choice, strict=True)
            if option
        }
        before, after = ([step for step in side if step.topic.name in code] for side in (domain.before, domain.after))
        return list(_sources(domain, base, code, before, after))

    return read
