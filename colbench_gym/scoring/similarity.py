"""How much a page looks like the one in mind, in [0, 1]: by boxes, or by a vision model's view of the pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from colbench_gym.scoring.blocks import compare
from sandboxes.pages import Rendering


class Similarity(ABC):
    """Scores pages against what they should look like. Used by several threads at once.

    Attributes:
        name: As it is asked for.
        needs_pictures: True where it looks at pictures, not at boxes alone.
    """

    name: str = ""
    needs_pictures: bool = True

    @abstractmethod
    def score(self, pages: Sequence[Rendering], references: Sequence[Rendering]) -> list[float]:
        """Similarity of each page with its reference; a page without a picture counts as the scorer says.

        Returns:
            Numbers in [0, 1], 1 for pages that look the same.
        """


class BlockSimilarity(Similarity):
    """The mean of the five numbers of `scoring.blocks`; needs no weights, and a page without a picture is an empty one."""

    name = "blocks"
    needs_pictures = False

    def score(self, pages: Sequence[Rendering], references: Sequence[Rendering]) -> list[float]:
        """See `Similarity.score`."""
        return [compare(page, reference).score.total for page, reference in zip(pages, references, strict=True)]
