"""A tiny tokenizer and random tiny models, for all tests of the learning half."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from transformers import LogitsProcessorList

from sweetrl_agent.algorithms.settings import make_algorithms, make_config
from sweetrl_agent.models.tiny import build_model, build_tokenizer
from sweetrl_agent.policies.transformers import SeededSampling
from sweetrl_agent.trainers.run import Run

TEXTS = [
    "I need the total of my prices. Round the total to two decimals?",
    "What should happen for an empty list? For an empty list return nothing at all.",
    "I WANT TO ANSWER:\n```python\ndef total(prices):\n    return round(sum(prices), 2) if prices else None\n```",
    "The function that the person has in mind, which the agent cannot see:\n",
]


@pytest.fixture(scope="session", autouse=True)
def _untimed_runs(untimed):
    """Runs of these tests time no model; `tests/sweetrl_agent/trainers/test_forecast.py` does."""


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


class Algorithms(dict):
    """The algorithms of a run; others have the settings that the test gives, and are made when it asks for them."""

    def __init__(self, made, settings):
        super().__init__(made)
        self.settings = settings

    def __missing__(self, name):
        return make_algorithms([name], self.settings)[name]


@pytest.fixture
def make_run(tmp_path):
    """Function: settings by name -> a run on ten embedded tasks, three to test and none unseen; the same folder each time."""
    given = {
        "output": str(tmp_path / "run"), "tasks": "embedded:train[:10]", "test_tasks": "embedded:test[:3]", "unseen_tasks": "",
        "sandbox": "embedded", "threads": 1,
    }  # fmt: skip

    def make(**settings):
        config = make_config({**given, **settings})
        return Run(replace(config, algorithms=Algorithms(config.algorithms, settings)))

    return make


class _Handler(BaseHTTPRequestHandler):
    """Speaks the documented protocol of vLLM's server, and samples as the policy of this process does."""

    def do_GET(self):
        names = [{"id": name, "object": "model", "created": 0, "owned_by": self.server.kind} for name in self.server.names]
        self._say(200, {"object": "list", "data": names})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, asked))
        if self.path == "/v1/unload_lora_adapter":
            return self._say(200, "Success")
        if self.path == "/v1/load_lora_adapter":
            if self.server.is_beside_another:  # which has loaded it just now
                self.server.names += (asked["lora_name"],)
                return self._say(400, {"message": "already loaded"})
            return self._say(200, "Success") if self.server.takes_adapters else self._say(404, {"message": "no such route"})
        if asked["model"] not in self.server.names and not any(
            path == "/v1/load_lora_adapter" for path, _ in self.server.asked
        ):
            return self._say(404, {"message": "no such model"})
        return self._say(
            200, {"object": "text_completion", "choices": [self._choice(asked)], "id": "", "created": 0, "model": ""}
        )

    def _choice(self, asked):
        is_vllm, tokenizer = self.server.kind == "vllm", self.server.tokenizer
        assert self.path == ("/v1/completions" if is_vllm else "/v1/chat/completions")
        ids = (
            asked["prompt"]
            if is_vllm
            else tokenizer.apply_chat_template(asked["messages"], add_generation_prompt=True, return_dict=True)["input_ids"]
        )
        sampling = SeededSampling([asked["seed"]], asked["max_tokens"], asked["temperature"])
        with self.server.lock:
            out = self.server.model.generate(
                torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), max_new_tokens=asked["max_tokens"],
                do_sample=False, logits_processor=LogitsProcessorList([sampling]),
            )  # fmt: skip
        new = out[0, len(ids) :].tolist()
        text = tokenizer.decode(new, skip_special_tokens=True)
        choice = {
            "finish_reason": "stop",
            **({"text": text} if is_vllm else {"message": {"role": "assistant", "content": text}}),
        }
        if is_vllm:
            assert asked["return_token_ids"] is True
            assert (asked["top_p"], asked["top_k"], asked["repetition_penalty"]) == (1, -1, 1)
            choice |= {"token_ids": new, "logprobs": {"token_logprobs": [float(value) for value in sampling.log_probs]}}
        return choice

    def _say(self, status, body):
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *args):
        pass


@pytest.fixture
def serve(make_tiny_model, tiny_tokenizer, monkeypatch):
    """Function: names of models, kind of server -> a running server with `url` and what it was `asked`."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = []

    def start(*names, kind="vllm", takes_adapters=True, is_beside_another=False):
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        server.names, server.kind, server.takes_adapters = names, kind, takes_adapters
        server.asked, server.lock = [], threading.Lock()
        server.model, server.tokenizer, server.is_beside_another = make_tiny_model(1), tiny_tokenizer, is_beside_another
        server.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        thread.join()


#: A run of SWEET-RL with the untrained critic that takes seconds.
SMALL = {
    "sft_dialogues": 60, "sft_epochs": 3, "num_tasks": 3, "trajectories_per_task": 3, "max_turns": 3, "max_new_tokens": 24, "eval_tasks": 1,
    "tiny_hidden_size": 32, "tiny_layers": 1, "tiny_vocab_size": 600, "sandbox": "embedded", "sweet.num_states": 4, "sweet.num_candidates": 2,
}  # fmt: skip


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    """Folder of a finished run with collected dialogues, which tests only read."""
    from sweetrl_agent import train

    folder = tmp_path_factory.mktemp("small") / "run"
    train.run_train(**SMALL, critic="untrained", output=str(folder))
    return folder
