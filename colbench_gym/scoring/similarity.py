"""Similarity of a page to the reference page, in [0, 1]: by boxes, or by embeddings of a vision model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from colbench_gym.scoring.blocks import compare
from sandboxes.pages import Rendering


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
