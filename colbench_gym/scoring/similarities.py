"""Similarity scorers by name."""

from __future__ import annotations

from pathlib import Path

from colbench_gym.scoring.pictures import CLIP, ClipSimilarity, EncoderSimilarity
from colbench_gym.scoring.similarity import BlockSimilarity, Similarity
from sandboxes.named import nearest

NAMES = ("blocks", "encoder", "clip")


def make_similarity(spec: str | Similarity, folder: str | Path | None = None) -> Similarity:
    """Build a scorer by name. A `Similarity` is returned unchanged.

    Args:
        spec: "blocks"; "encoder", with weights from a package; "clip" for the benchmark's model from the hub; "clip:FOLDER".
        folder: Folder of the embedding cache; None to cache in memory only.

    Raises:
        ValueError: If the name is unknown.
    """
    if isinstance(spec, Similarity):
        return spec
    name, _, model = spec.partition(":")
    if name == "blocks" and not model:
        return BlockSimilarity()
    if name in ("encoder", "clip"):
        if name == "clip":
            return ClipSimilarity(model or CLIP, folder)
        if not model:
            return EncoderSimilarity(folder)
    raise ValueError(
        f"`similarity` must be 'blocks', 'encoder', 'clip', 'clip:FOLDER' or a Similarity, got {spec!r}.{nearest(spec, NAMES)}"
    )
