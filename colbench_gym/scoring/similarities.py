"""Similarity scorers by name."""

from __future__ import annotations

from pathlib import Path

from colbench_gym.scoring.pictures import CLIP, ClipSimilarity, EncoderSimilarity
from colbench_gym.scoring.similarity import BlockSimilarity, Similarity


def make_similarity(spec: str | Similarity, folder: str | Path | None = None) -> Similarity:
    """A scorer by name, or a ready one, passed through.

    Args:
        spec: "blocks"; "encoder", whose weights come inside a package; "clip" for the benchmark's from the hub; "clip:FOLDER".
        folder: Where embeddings of pictures are kept; None for memory alone.

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
    raise ValueError(f"`similarity` must be 'blocks', 'encoder', 'clip', 'clip:FOLDER' or a Similarity, got {spec!r}.")
