"""What a run needs of this machine and of the world around it, looked for before anything is computed.

`--dry_run` asks for all of it and names everything that is missing; a run asks for what can be seen without a connection. Nobody can see ahead
whether the weights of a model fit into memory, and whether a server that answers now will answer tomorrow.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colbench_gym.errors import ColBenchError
from sandboxes import SandboxError
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.stage import Need

if TYPE_CHECKING:
    from sweetrl_agent.config.job import Config
    from sweetrl_agent.data.run import Run

Check = Callable[[], object]
#: A module, and what pip installs for it.
Package = tuple[str, str]
#: Errors of what is missing; any other is a mistake in the program.
MISSING = (ColBenchError, SandboxError, ImportError, OSError, ValueError)
#: Seconds that a server may take to answer at all.
ANSWER_S = 10.0
_WEIGHTS = ("*.safetensors", "*.bin")


def troubles(run: Run, stages: Collection[str], others: Collection[Package] = (), more: Iterable[Check] = ()) -> list[str]:
    """One sentence for everything that stages of a run would miss.

    Args:
        run: The run; its tasks are loaded.
        stages: What is left to do.
        others: More packages that are needed, such as those of other algorithms.
        more: More checks, which raise an error of `MISSING`.
    """
    found: list[str] = []
    checks: list[Check] = [partial(check_packages, run.config, stages, others), *_checks(run, stages), *more]
    for check in checks:
        try:
            check()
        except MISSING as error:
            found.append(" ".join(str(error).split()))
    return found


def _any(stages: Collection[str], *needs: Need) -> bool:
    """Whether one of the stages has one of the needs; a stage of an algorithm's own may have all."""
    return any(name not in STAGES or STAGES[name].needs & {*needs} for name in stages)


def check_packages(config: Config, stages: Collection[str], others: Collection[Package] = ()) -> None:
    """Look for the packages, and for vLLM the GPU, that stages need.

    Args:
        config: The settings.
        stages: What is left to do.
        others: More packages that are needed.

    Raises:
        ColBenchError: Names all that is missing.
    """
    import torch

    needed = {*others, *_packages(config, {*stages})}
    missing = [f"{name} (`pip install {how}`)" for name, how in sorted(needed) if importlib.util.find_spec(name) is None]
    if config.model.engine == "vllm" and _any(stages, "samples") and not torch.cuda.is_available():
        missing.append("a GPU that CUDA finds, for `--engine vllm`")
    if missing:
        raise ColBenchError(f"This machine lacks {' and '.join(missing)}.")


def _packages(config: Config, stages: set[str]) -> Iterator[Package]:
    """Packages that are extras, by name of the module and what pip installs."""
    engine = config.model.engine
    if _any(stages, "samples") and engine in ("vllm", "server"):
        yield ("vllm", "vllm") if engine == "vllm" else ("openai", "'colbench-gym[train]'")
    if config.model.lora and _any(stages, "samples", "training"):
        yield "peft", "'colbench-gym[train]'"
    if config.run.ray_workers and (_any(stages, "samples") or "rank" in stages):
        yield "ray", "'colbench-gym[ray]'"
    if config.record.has_pages and _any(stages, "episodes"):
        yield "playwright", "'colbench-gym[frontend]'"


def _checks(run: Run, stages: Collection[str]) -> Iterator[Check]:
    config, left = run.config, {*stages}
    if _any(left, "samples", "training") and not config.is_tiny:
        yield partial(check_model, "model", config.model.model, config.model)
    if _any(left, "samples"):
        for url in config.model.server_urls:
            yield partial(check_server, url, "OPENAI_API_KEY")
    if _any(left, "episodes"):
        yield partial(_check_environment, run)
    if config.run.ray_workers and config.run.ray_address:
        from sweetrl_agent.rollouts.workers import check_cluster

        yield partial(check_cluster, config.run.ray_address)


def check_model(setting: str, path: str, arguments: Any) -> None:
    """Read a model's configuration and tokenizer, and look for its weights where it is a folder; they are not loaded.

    Raises:
        ColBenchError: If it is none, or cannot be had from the hub.
    """
    from transformers import AutoConfig, AutoTokenizer

    try:
        AutoConfig.from_pretrained(path, revision=arguments.revision)
        if setting != "vision_model":
            AutoTokenizer.from_pretrained(path, revision=arguments.revision)
    except Exception as error:  # transformers and the hub raise dozens of unrelated types for files that are missing or broken
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise ColBenchError(f"`{setting}` must be a folder or hub name of a chat model, got {path!r} ({reason}).") from None
    folder = Path(path).expanduser()
    if folder.is_dir() and not any(file for pattern in _WEIGHTS for file in folder.glob(pattern)):
        raise ColBenchError(f"`{setting}` names a folder without weights ({' or '.join(_WEIGHTS)}): {path!r}.")


def check_server(url: str | None, key_variable: str) -> None:
    """Ask an OpenAI-compatible server for its models. Any answer will do, but one that the key is wrong.

    Raises:
        ColBenchError: If nobody answers, or the key is refused.
    """
    import openai

    client = openai.OpenAI(base_url=url, api_key=os.environ.get(key_variable) or "none", timeout=ANSWER_S, max_retries=0)
    with closing(client):
        address = client.base_url
        try:
            client.models.with_raw_response.list()
        except openai.APIConnectionError as error:
            raise ColBenchError(
                f"No server answers at {address} ({error.__cause__ or error}); start it, or correct its address."
            ) from None
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise ColBenchError(
                f"The server at {address} refuses the key in {key_variable} (status {error.status_code})."
            ) from None
        except openai.APIError:
            return  # not every server lists its models


def check_human(record: EnvironmentRecord, human: Any) -> None:
    """Ask whether the server of a simulated human is there, where it has one.

    Raises:
        ColBenchError: As `check_server`.
    """
    if server := record.human_server(human):
        check_server(*server)


def _check_environment(run: Run) -> None:
    """Make the environment as a stage makes it, ask for the human's server, and start what grades."""
    with closing(run.environment(run.tasks[:1], 1)) as env:
        check_human(run.record, getattr(env.envs[0], "simulator", None))
        env.envs[0].prepare()
