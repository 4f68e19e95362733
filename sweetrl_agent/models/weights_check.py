"""Checks of safetensors files by their headers: the files are whole, and their tensors have the sizes that the configuration states.

No weights are read. Format: eight bytes with the header's length, the header (JSON: name -> dtype, shape, place), then the data.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
MAX_HEADER_BYTES = 100_000_000  # the format's own limit
_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16, "I8": 8, "U8": 8, "BOOL": 8,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_EMBEDDING = re.compile(r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in)\.weight$")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h)\.([0-9]{1,6})\.")

#: Dtype (as safetensors spells it) and shape of each tensor, by name.
Tensors = Mapping[str, tuple[str, tuple[int, ...]]]


def check_weights(folder: Path, vocab_size: int, num_layers: int) -> Tensors:
    """Check the weights of a model folder; returns their dtypes and shapes.

    Args:
        folder: The folder.
        vocab_size: Number of rows of the token embeddings, by the configuration.
        num_layers: Number of layers, by the configuration; 0 if it states none.

    Raises:
        ColBenchError: If there are none, if they are pickles, or if a file is torn or does not fit; the message names the file.
    """
    tensors = _sharded(folder / INDEX) if (folder / INDEX).exists() else header(_file(folder, WEIGHTS))
    if not tensors:
        raise ColBenchError(f"{WEIGHTS} holds no tensors")
    for name, (_, shape) in tensors.items():
        if _EMBEDDING.search(name) and "visual" not in name and shape and shape[0] != vocab_size:
            raise ColBenchError(
                f"its weights have {shape[0]} token embeddings ({name}), and config.json says {vocab_size} (`vocab_size`)"
            )
    layers = {
        int(found[1]) for name in tensors if "visual" not in name and "vision" not in name and (found := _LAYER.search(name))
    }
    if num_layers and layers and len(layers) < num_layers:
        raise ColBenchError(f"its weights have {len(layers)} layers, and config.json says {num_layers} (`num_hidden_layers`)")
    return tensors


def check_adapter_weights(folder: Path) -> None:
    """Check the weights of an adapter.

    Raises:
        ColBenchError: As `check_weights`.
    """
    if not header(_file(folder, ADAPTER_WEIGHTS)):
        raise ColBenchError(f"{ADAPTER_WEIGHTS} holds no tensors")


def _file(folder: Path, name: str) -> Path:
    """A file of weights that exists."""
    path = folder / name
    if path.is_symlink() and not path.exists():
        raise ColBenchError(f"{name} is a link to a file that does not exist")
    if path.is_file():
        return path
    if pickles := sorted(
        file.name for pattern in _PICKLES for file in folder.glob(pattern) if file.name != "training_args.bin"
    ):
        raise ColBenchError(
            f"its weights are a pickle ({pickles[0]}), which can run code when it is read: load it where you trust it, and save it with "
            "`save_pretrained(folder, safe_serialization=True)`"
        )
    raise ColBenchError(f"it has no weights ({name})")


def _sharded(index: Path) -> Tensors:
    """The tensors in all shards of an index."""
    found = read_json(index).get("weight_map")
    if not isinstance(found, dict) or not found or not all(isinstance(file, str) for file in found.values()):
        raise ColBenchError(f"{index.name} has no `weight_map` of tensors and their files")
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name in sorted({*found.values()}):
        if Path(name).name != name:
            raise ColBenchError(f"{index.name} names a file outside of the folder, {name[:100]!r}")
        own = header(_file(index.parent, name))
        if missing := [tensor for tensor, file in found.items() if file == name and tensor not in own]:
            raise ColBenchError(f"{name} lacks the tensor {missing[0][:100]!r}, which {index.name} places there")
        tensors |= own
    return tensors


def header(path: Path) -> Tensors:
    """Dtypes and shapes of the tensors of a safetensors file, by name.

    Raises:
        ColBenchError: If the header cannot be read, or the data has another size than it states.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER_BYTES):
            raise ColBenchError(f"{path.name} is torn or not a safetensors file: {size} bytes, and a header of {length}")
        entries = _parse(file.read(length), path.name)
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    end = 0
    for name, entry in entries.items():
        if name != "__metadata__":
            dtype, shape, last = _tensor(name, entry, path.name)
            tensors[name] = (dtype, shape)
            end = max(end, last)
    if size - 8 - length != end:
        raise ColBenchError(f"{path.name} is torn: its header describes {end} bytes of data, and it has {size - 8 - length}")
    return tensors


def _tensor(name: str, entry: Any, file: str) -> tuple[str, tuple[int, ...], int]:
    """Dtype and shape of a tensor, and where its data ends."""
    try:
        dtype, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        is_valid = isinstance(dtype, str) and all(type(side) is int and side >= 0 for side in (*shape, start, end))
        is_valid = is_valid and (dtype not in _BITS or (end - start) * 8 == math.prod(shape) * _BITS[dtype])
    except (KeyError, TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ColBenchError(f"the header of {file} is broken at the tensor {name[:100]!r}")
    return dtype, shape, end


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        ColBenchError: If it is none; the message names the file.
    """
    if path.exists() and not path.is_file():
        raise ColBenchError(f"{path.name} must be a file, got a folder, a pipe or a device")
    try:
        return _parse(path.read_bytes(), path.name)
    except OSError as error:
        raise ColBenchError(f"{path.name} cannot be read ({error.strerror})") from None


def _parse(content: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(content.decode("utf-8"))  # `json.loads` would take UTF-16 too, which transformers does not
    except (ValueError, RecursionError) as error:
        raise ColBenchError(f"{name} is not JSON ({type(error).__name__}: {str(error)[:100]})") from None
    if not isinstance(found, dict):
        raise ColBenchError(f"{name} must hold an object, got {type(found).__name__}")
    return found
