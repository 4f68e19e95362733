"""A tiny tokenizer and random tiny models, for all tests of the learning half."""

from __future__ import annotations

import pytest
import torch

from sweetrl_agent.config.job import Config
from sweetrl_agent.data.run import Run
from sweetrl_agent.models.tiny import build_model, build_tokenizer

TEXTS = [
    "I need the total of my prices. Round the total to two decimals?",
    "What should happen for an empty list? For an empty list return nothing at all.",
    "I WANT TO ANSWER:\n```python\ndef total(prices):\n    return round(sum(prices), 2) if prices else None\n```",
    "The function that the person has in mind, which the agent cannot see:\n",
]


@pytest.fixture(scope="session")
def tiny_tokenizer():
    """A byte-level tokenizer of about 600 tokens at most, with a chat template."""
    return build_tokenizer(TEXTS, 600)


@pytest.fixture(scope="session")
def make_tiny_model(tiny_tokenizer):
    """Function: seed, scale -> a random Llama of one layer; a large scale makes its predictions far from uniform."""

    def make(seed=0, scale=4.0):
        model = build_model(tiny_tokenizer, 32, 1, seed).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.mul_(scale)
        return model

    return make


@pytest.fixture(scope="session")
def tiny_model_folder(tiny_tokenizer, make_tiny_model, tmp_path_factory):
    """A folder with the tiny model and its tokenizer, like any pretrained model's."""
    folder = tmp_path_factory.mktemp("tiny") / "model"
    make_tiny_model().save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def make_run(tmp_path):
    """Function: settings by name -> a run on ten embedded tasks, three to test and none unseen; the same folder each time."""
    given = {
        "output": str(tmp_path / "run"), "tasks": "embedded:train[:10]", "test_tasks": "embedded:test[:3]", "unseen_tasks": "",
        "sandbox": "embedded", "threads": 1,
    }  # fmt: skip
    return lambda **settings: Run(Config().with_settings({**given, **settings}))
