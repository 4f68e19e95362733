"""The paper's critic for pages: a vision-language model with a regression head on the mean over all image and text tokens.

Its inputs are the reference page (hidden information), the page after a turn, and the dialogue so far; its output is the turn's score. It is
trained like the text critic, by Bradley-Terry on the sum over turns (`trainers.vision`).

Source: arXiv:2503.15478, section 5.1 (there Qwen2-VL-7B-Instruct).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sandboxes.browser import Browser
from sandboxes.pages import Page, Rendering
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.critics.heads import ModelWithHead

if TYPE_CHECKING:
    from PIL.Image import Image

#: Longest side of the input images, in pixels; the model's processor may shrink them further.
MAX_SIDE = 896
#: Maximum number of characters of the dialogue after the request, see `transcript`.
MAX_CHARS = 20_000
_LED_BY_WANTED = "The first picture is the page that is wanted, the second the page that is shown.\n\n"
_ALONE = "The picture is the page that is shown.\n\n"
#: A dialogue up to and including an agent's turn, and the critic's hidden information: the source of the reference page, or "".
View = tuple[Messages, str]


class VisionHead(ModelWithHead):
    """A vision-language model's body and a linear head on the mean hidden state of all tokens of a view."""

    def forward(self, **views: Tensor) -> Tensor:
        """Score of every view encoded by `Views.encode`, shape (N,)."""
        output = self.model(**views, output_hidden_states=True, use_cache=False, logits_to_keep=1)
        is_token = views["attention_mask"][..., None].float()
        pooled = (output.hidden_states[-1].float() * is_token).sum(dim=1) / is_token.sum(dim=1)
        scores: Tensor = self.head(pooled.to(self.head.weight.dtype))[:, 0]
        return scores


class Views:
    """Encodes dialogues and images as tensors.

    Args:
        processor: The model's processor, from `AutoProcessor`.
        browser: Renders the pages; the caller closes it.
        record: The environment's record: gives the current page and the transcript of a dialogue.
    """

    def __init__(self, processor: Any, browser: Browser, record: EnvironmentRecord) -> None:
        self.processor, self.browser, self.record = processor, browser, record

    def encode(self, views: Sequence[View]) -> dict[str, Tensor]:
        """One row per view: the reference page (if it is given), the page after the turn, and the dialogue."""
        shown = [self.record.current_page(m["content"] for m in messages if m["role"] == "assistant") for messages, _ in views]
        pages = self.browser.render([Page(html) for html in shown])
        wanted = self.browser.render([Page(hidden) for _, hidden in views])
        conversations = []
        for (messages, hidden), page, reference in zip(views, pages, wanted, strict=True):
            pictures = [_picture(rendering) for rendering in ([reference, page] if hidden else [page])]
            text = (_LED_BY_WANTED if hidden else _ALONE) + self.record.transcript(messages, MAX_CHARS)
            content = [*({"type": "image", "image": picture} for picture in pictures), {"type": "text", "text": text}]
            conversations.append([{"role": "user", "content": content}])
        encoded: dict[str, Tensor] = dict(
            self.processor.apply_chat_template(
                conversations, tokenize=True, return_dict=True, processor_kwargs={"padding": True, "return_tensors": "pt"}
            )
        )
        return encoded


class VisionCritic:
    """Scores agent turns with a trained head; see `Critic`."""

    def __init__(self, scorer: VisionHead, views: Views, batch_size: int = 8) -> None:
        """Wrap a trained head; `batch_size` is the number of views per forward pass."""
        self.scorer, self.views, self.batch_size = scorer.eval(), views, batch_size

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """Scores of candidates for the next agent turn."""
        unique = list(dict.fromkeys(texts))
        scores = self._scores([([*messages, {"role": "assistant", "content": text}], hidden) for text in unique])
        by_text = dict(zip(unique, scores, strict=True))
        return [by_text[text] for text in texts]

    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """Score of every agent turn of a dialogue, in order."""
        return self._scores([(part, hidden) for part in turns_of(messages)])

    @torch.inference_mode()
    def _scores(self, views: Sequence[View]) -> list[float]:
        scores: list[float] = []
        for start in range(0, len(views), self.batch_size):
            encoded = self.views.encode(views[start : start + self.batch_size])
            device = self.scorer.head.weight.device
            scores += self.scorer(**{name: value.to(device) for name, value in encoded.items()}).tolist()
        return scores


def turns_of(messages: Messages) -> list[Messages]:
    """The dialogue up to and including each agent turn."""
    return [messages[: i + 1] for i, message in enumerate(messages) if message["role"] == "assistant"]


def _picture(rendering: Rendering) -> Image:
    from PIL import Image

    if not rendering.picture:
        return Image.new("RGB", (MAX_SIDE, MAX_SIDE))
    with Image.open(io.BytesIO(rendering.picture)) as image:
        picture = image.convert("RGB")
    picture.thumbnail((MAX_SIDE, MAX_SIDE))
    return picture
