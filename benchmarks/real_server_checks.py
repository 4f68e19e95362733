"""What `real_servers.py` reads from run folders and servers: episodes, equal files, log-probabilities, speed."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_rows
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.models.loading import load_model, load_policy, load_tokenizer, speaker_of
from sweetrl_agent.policies.utterances import Speaker
from sweetrl_agent.trainers.preflight import check_server

Found = dict[str, Any]
DIALOGUES = [
    [{"role": "user", "content": f"Tell me {what} about {place}."}] for what in ("a story", "a fact", "a joke", "two numbers") for place in ("the sea", "Rome", "bees", "Go")
]  # fmt: skip
#: Arguments of vLLM's engine for a small model on a CPU.
SMALL = {"enforce_eager": True, "max_model_len": 2048}
#: Owners of models on servers that refuse a request which is too long; others would read it for minutes.
CHECKS_LENGTH = {"vllm", "me"}
#: Files of a run that hold times, memory, or what is drawn from them.
TIMED = ("timings.jsonl", "report.html", "stages.json", "results.json", "explanations.jsonl", "versions.json", "made_from.json")
LIMIT_S = 3600


def request(url: str, route: str, **body: Any) -> tuple[int, Any]:
    """Status and body of a response; a body that is no JSON is its text."""
    posted = urllib.request.Request(
        url + route, json.dumps(body).encode() if body else None, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(posted, timeout=600) as response:
            status, text = response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text


def names(url: str) -> list[str]:
    """Models that a server lists."""
    return [name for name, _ in _listed(url)]


def _listed(url: str) -> list[tuple[str, str]]:
    """Name and owner of the models that a server lists."""
    body = request(url, "/models")[1]
    return (
        [(model["id"], model.get("owned_by", "")) for model in body["data"]]
        if isinstance(body, dict) and "data" in body
        else []
    )


def episodes(folder: Path) -> Found:
    """Counts of an evaluation's rows."""
    path = folder / "evaluation.jsonl"
    rows = read_rows(path) if path.exists() else []
    turns = [turn for row in rows for turn in row.get("agent_turns", ())]
    return {
        "episodes": len(rows),
        "void": sum("void_reason" in row for row in rows),
        "answered": sum(bool(row.get("answered")) for row in rows),
        "cut turns": sum(row.get("cut_turns", 0) for row in rows),
        "thoughts": sum(bool(turn.get("thought")) for turn in turns),
    }


def training(folder: Path) -> Found:
    """What a training run has made."""
    made = sorted(path.name for path in folder.rglob("adapter_model.safetensors"))
    results = json.loads((folder / "results.json").read_text()) if (folder / "results.json").exists() else {}
    return {"results": bool(results), "adapters": len(made)}


def said(folder: Path) -> list[Any]:
    """The dialogues of an evaluation."""
    return [row["dialogue_history"] for row in read_rows(folder / "evaluation.jsonl")]


def compared(first: Path, second: Path) -> Found:
    """Which files of two runs are the same, bytes for bytes but for the name of the folder."""
    contents = [
        {
            str(path.relative_to(folder)): path.read_bytes().replace(bytes(folder), b".")
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in TIMED
        }
        for folder in (first, second)
    ]
    every = sorted({*contents[0], *contents[1]})
    differing = [name for name in every if contents[0].get(name) != contents[1].get(name)]
    return {"files": len(every), "equal": len(every) - len(differing), "differing": differing}


def wait_for(moment: str, folder: Path, job: subprocess.Popen[bytes]) -> str:
    """Wait until a path that fits `moment` stands in the folder of a job."""
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit and job.poll() is None:
        if paths := sorted(folder.glob(moment)):
            return str(paths[0].relative_to(folder))
        time.sleep(0.05)
    return f"never: {moment} (exit status {job.poll()})"


# ---- Log-probabilities ----------------------------------------------------------------------------------------------------


@torch.inference_mode()
def differences(utterances: Sequence[Utterance], prompts: Sequence[list[int]], model: Any, temperature: float) -> Found:
    """How far an engine's log-probabilities are from those of `transformers` on the same tokens, in nats."""
    absolute: list[float] = []
    for utterance, prompt in zip(utterances, prompts, strict=True):
        ids = torch.tensor([prompt + utterance.token_ids])
        logits = model(ids).logits[0, len(prompt) - 1 : -1].float() / temperature
        expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(utterance.token_ids)[:, None])[:, 0]
        absolute += (torch.tensor(utterance.log_probs) - expected).abs().tolist()
    return {"tokens": len(absolute), "max": round(max(absolute), 6), "mean": round(statistics.mean(absolute), 7)}


def agreement(url: str, model: Path, dtype: str, temperature: float) -> Found:
    """Differences of utterances that a server samples."""
    arguments = ModelArguments(
        model=str(model), dtype=dtype, temperature=temperature, max_new_tokens=48, engine="server", server_urls=[url]
    )
    policy: Any = load_policy(str(model), str(model), arguments)
    utterances = policy.generate(DIALOGUES, range(len(DIALOGUES)))
    prompts = [policy.speaker.prompt(list(dialogue)) for dialogue in DIALOGUES]
    return differences(utterances, prompts, load_model(str(model), str(model), arguments, is_trained=False).eval(), temperature)


def thinking_model(model: Path, folder: Path) -> Path:
    """A copy of a model whose template opens a thought; the model closes it where it would end a turn, half of the time."""
    tokenizer = load_tokenizer(str(model), ModelArguments())
    loaded = load_model(str(model), str(model), ModelArguments(dtype="float32"))
    tokenizer.add_special_tokens({"additional_special_tokens": ["<think>", "</think>"]})
    loaded.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        weights = loaded.get_input_embeddings().weight
        weights[tokenizer.convert_tokens_to_ids("<think>")] = 0.0
        weights[tokenizer.convert_tokens_to_ids("</think>")] = weights[tokenizer.eos_token_id]
    tokenizer.chat_template += "{% if add_generation_prompt %}<think>{% endif %}"
    loaded.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def refusal_of_training(url: str) -> str:
    """Why on-policy training at temperature 0.8 is refused on a server; "" if it is not."""
    try:
        check_server(url, "OPENAI_API_KEY", needs_tokens=True, temperature=0.8)
    except ColBenchError as error:
        return str(error).replace(url, "URL")
    return ""


# ---- Speed ----------------------------------------------------------------------------------------------------------------


def speeds(policies: dict[str, Any], dialogues: Sequence[Any], rounds: int) -> Found:
    """Sampled tokens a second of every policy on the same dialogues: medians of rounds in turn, after one that is not counted."""
    rates: dict[str, list[float]] = {name: [] for name in policies}
    for number in range(rounds + 1):
        for name, policy in policies.items():
            begin = time.monotonic()
            tokens = sum(
                len(utterance.token_ids)
                for utterance in policy.generate(dialogues, [number * 1000 + i for i in range(len(dialogues))])
            )
            if number:
                rates[name].append(tokens / (time.monotonic() - begin))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ours = medians["ours"]
    return {
        name: {"rounds": rounds, "tokens a second": round(median, 1), "range": [round(min(rates[name]), 1), round(max(rates[name]), 1)],
               "times ours": round(median / ours, 2)}
        for name, median in medians.items()
    }  # fmt: skip


# ---- Facts of a server ----------------------------------------------------------------------------------------------------


def facts(url: str, model: str) -> Found:
    """What a server does with requests in which servers differ: status, and what came back."""
    hello = [{"role": "user", "content": "Write one sentence about the sea."}]
    usual = {"model": model, "messages": hello, "max_tokens": 6, "temperature": 0.8, "seed": 1}
    asked = {
        "usual": usual,
        "the same again": usual,
        "another seed": usual | {"seed": 2},
        "max_completion_tokens": {**{k: v for k, v in usual.items() if k != "max_tokens"}, "max_completion_tokens": 3},
        "an unknown parameter": usual | {"made_up": 1},
        "names of vLLM": usual | {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
        "names of llama.cpp": usual | {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
        "generation_config": usual | {"generation_config": json.dumps({"top_k": 0})},
        "chat_template_kwargs": usual | {"chat_template_kwargs": {"enable_thinking": False}},
        "a system message": usual | {"messages": [{"role": "system", "content": "Be brief."}, *hello]},
        "two user messages": usual | {"messages": [*hello, *hello]},
        "an empty message": usual | {"messages": [*hello, {"role": "assistant", "content": ""}, *hello]},
        "another model": usual | {"model": "another"},
        "a prompt that is too long": usual | {"messages": [{"role": "user", "content": "word " * 9000}]},
        "more tokens than the context": usual | {"max_tokens": 9000},
    }
    owners = {owner for _, owner in _listed(url)}
    left_out = set() if owners & CHECKS_LENGTH else {"a prompt that is too long", "more tokens than the context"}
    answers = {name: request(url, "/chat/completions", **body) for name, body in asked.items() if name not in left_out}
    messages = [_message(*answers[name]) for name in ("usual", "the same again", "another seed")]
    texts = [message.get("content") for message in messages]
    return {
        "owned_by": sorted(owners),
        "fields of a message": sorted(messages[0]),
        "same seed, same text": texts[0] == texts[1],
        "another seed, another text": texts[0] != texts[2],
        **{name: _short(*answer) for name, answer in answers.items()},
    }


def _message(status: int, body: Any) -> dict[str, Any]:
    return dict(body["choices"][0]["message"]) if status == 200 else {}


def _short(status: int, body: Any) -> str:
    """What matters of a response."""
    if status != 200 or not isinstance(body, dict) or not body.get("choices"):
        return f"status {status}: {body if isinstance(body, str) else json.dumps(body)}"[:300]
    tokens = (body.get("usage") or {}).get("completion_tokens")
    return f"{body['choices'][0].get('finish_reason')}, {tokens} tokens"


def _speed(model: str, url: str) -> Found:
    """Speed of the three engines, in vLLM's environment."""
    from sweetrl_agent.policies.vllm import VLLMPolicy

    usual = ModelArguments(model=model, dtype="float32", temperature=1.0, max_new_tokens=48, server_urls=[url])
    policies = {
        "ours": load_policy(model, model, usual),
        "vLLM's server": load_policy(model, model, replace(usual, engine="server")),
        "vLLM in process": VLLMPolicy(model, model, speaker_of(load_tokenizer(model, usual), usual), dtype="float32", **SMALL),
    }
    return speeds(policies, DIALOGUES, 3)


def _engine(model: str, folder: str) -> Found:
    """Log-probabilities of vLLM in this process, before and after all weights and an adapter are renewed."""
    from peft import LoraConfig, get_peft_model

    from sweetrl_agent.policies.vllm import VLLMPolicy

    arguments, results = ModelArguments(model=model, dtype="float32"), {}
    loaded, other = load_model(model, model, arguments).eval(), str(Path(folder) / "other")
    speaker = Speaker(load_tokenizer(model, arguments), 24, 0.7)
    policy = VLLMPolicy(model, model, speaker, dtype="float32", **SMALL)
    results["all weights"] = _agreement(policy, loaded)
    _move(loaded)
    loaded.save_pretrained(other)
    policy.load_weights(other)
    results["all weights, renewed"] = _agreement(policy, loaded)
    del policy
    adapted = get_peft_model(loaded, LoraConfig(r=12, target_modules="all-linear")).eval()
    for number in (1, 2):
        _move(adapted)
        adapted.save_pretrained(str(Path(folder) / f"adapter_{number}"))
        if number == 1:
            load_tokenizer(model, arguments).save_pretrained(other)
            policy = VLLMPolicy(str(Path(folder) / "adapter_1"), other, speaker, dtype="float32", **SMALL)
        else:
            policy.load_weights(str(Path(folder) / "adapter_2"))
        results[f"adapter {number}, rank 12"] = _agreement(policy, adapted)
    return results


def _agreement(policy: Any, model: Any) -> Found:
    prompts = [policy.speaker.prompt(list(dialogue)) for dialogue in DIALOGUES]
    return differences(policy.generate(DIALOGUES, range(len(DIALOGUES))), prompts, model, 0.7)


@torch.no_grad()
def _move(model: Any) -> None:
    """Move the trainable weights, by the same steps each time."""
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        if weight.requires_grad:
            weight += 0.02 * torch.randn(weight.shape, generator=generator)


if __name__ == "__main__":
    what, given_model, given, result = sys.argv[1:]
    Path(result).write_text(json.dumps((_speed if what == "speed" else _engine)(given_model, given)))
