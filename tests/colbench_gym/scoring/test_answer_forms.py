"""Answers as people write them: every honest form passes, and forms that a person would call wrong fail with a reason."""

from __future__ import annotations

import pytest

import sandboxes
from colbench_gym.scoring.answer import extract_program
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import load_tasks

from .answer_forms import FORMS

TASKS = load_tasks("embedded:train[:10]")


def test_every_honest_form_of_ten_tasks_passes():
    assert len(FORMS) >= 150
    answers = [(task, form(task.hidden.reference, task.function_name)) for form in FORMS.values() for task in TASKS]
    with sandboxes.make("embedded", workers=2) as sandbox:
        scores = UnitTests(sandbox).score_many(answers)
    names = [name for name in FORMS for _ in TASKS]
    failed = {}
    for name, (task, answer), score in zip(names, answers, scores, strict=True):
        if not score.success and name not in failed:
            failed[name] = score.outcome
    assert failed == {}
