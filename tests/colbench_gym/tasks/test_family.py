"""The source of a family's reference, and the order in which its choices come, against slow plain loops."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from colbench_gym.tasks.dial import STANDARD
from colbench_gym.tasks.embedded import families
from colbench_gym.tasks.families.family import _fill

TEMPLATE = "\n\ndef f(x):\n    {before}\n  {after}  \n    y = [{inside}, {other}] # {inside}{none}\n\n    {none}\n{before}\n    return {y: 1}\n"


def _filled_line_by_line(template, slots):
    lines = []
    for line in template.strip("\n").split("\n"):
        if match := re.match(r"^(\s*)\{(\w+)\}\s*$", line):
            code = slots.get(match[2], "")
            lines += [match[1] + part for part in code.strip("\n").split("\n") if code.strip()]
        else:
            lines.append(re.sub(r"\{(\w+)\}", lambda match: slots.get(match[1], ""), line))
    return "\n".join(lines)


@pytest.mark.parametrize("template", [TEMPLATE, "{before}", "x", "", "{inside} {inside}", "{before}\n{after}"])
def test_a_template_is_filled_as_line_by_line(template):
    codes = ("", " \n ", "a", "\nif x:\n    a\n\n    b\n", "{inside}", "a\n{before}\n")
    for before, inside in itertools.product(codes, repeat=2):
        slots = {"before": before, "inside": inside, "after": "z\ny", "other": "2"}
        assert _fill(template, slots) == _filled_line_by_line(template, slots)
    assert _fill(template, {}) == _filled_line_by_line(template, {})


@pytest.mark.parametrize("split", ["train", "novel"])
def test_references_of_the_embedded_families_are_filled_as_line_by_line(split):
    for family in families(split)[::7]:
        choice = tuple(random.Random(family.name).randrange(len(topic.options)) for topic in family.topics)
        slots = {
            slot: code for topic, i in zip(family.topics, choice, strict=True) for slot, code in topic.options[i].code.items()
        }
        assert family.reference(choice) == _filled_line_by_line(family.template, {**family.defaults, **slots})


def test_choices_that_are_wanted_are_those_among_all_in_the_same_order():
    family = families("train")[0]

    def is_wanted(source):
        return sum(source.encode()) % 3 == 0

    wanted = [choice for choice in family.choices(STANDARD.wishes) if is_wanted(family.reference(choice))]
    assert list(family.choices(STANDARD.wishes, is_wanted)) == wanted and wanted
