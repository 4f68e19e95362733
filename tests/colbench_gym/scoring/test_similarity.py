"""Similarity of pictures: 1 for the same, less for others, as the benchmark computes it."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("torch")
import torch
from PIL import Image

from colbench_gym.errors import ScoringError
from colbench_gym.scoring.similarity import BlockSimilarity, ClipSimilarity
from colbench_gym.scoring.similarity import make_similarity as make
from sandboxes.pages import PageOutcome, Rendering


def _picture(colour, width=640, height=480):
    pixels = np.full((height, width, 3), 255, np.uint8)
    pixels[: height // 2] = colour
    pixels[height // 3 : height // 2, ::7] = 0
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    return Rendering(PageOutcome.OK, buffer.getvalue(), width, height, height)


PAGES = [_picture(colour) for colour in ((200, 30, 30), (30, 30, 200), (20, 160, 60))]
NOTHING = Rendering(PageOutcome.CRASH)


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory):
    """A tiny CLIP with random weights, in a folder as the hub's."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    folder = tmp_path_factory.mktemp("clip")
    small = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = CLIPConfig(vision_config={**small, "image_size": 224, "patch_size": 32}, text_config=small, projection_dim=16)
    torch.manual_seed(0)
    CLIPModel(config).save_pretrained(folder)
    CLIPImageProcessor().save_pretrained(folder)
    return folder


@pytest.fixture(params=["encoder", "clip"])
def scorer(request, clip_folder):
    if request.param == "encoder":
        pytest.importorskip("efficientnet_lite_pytorch")
    return make("encoder" if request.param == "encoder" else f"clip:{clip_folder}")


def test_the_same_picture_is_wholly_similar_and_others_are_less(scorer):
    assert scorer.score(PAGES, PAGES) == pytest.approx([1.0] * 3, abs=1e-6)
    for other in scorer.score(PAGES, [PAGES[1], PAGES[2], PAGES[0]]):
        assert 0 <= other < 1 - 1e-4


def test_no_picture_counts_as_a_black_square(scorer):
    black = Rendering(PageOutcome.OK, _png(np.zeros((224, 224, 3), np.uint8)), 224, 224, 224)
    assert scorer.score([NOTHING], PAGES[:1]) == pytest.approx(scorer.score([black], PAGES[:1]), abs=1e-6)


def test_a_picture_is_embedded_once_and_in_batches_as_alone(scorer):
    together = scorer.embed(PAGES * 10)
    assert together.shape[0] == 30 and len(scorer._known) <= 4
    fresh = pickle.loads(pickle.dumps(scorer))
    assert not fresh._known
    np.testing.assert_allclose(np.concatenate([fresh.embed([page]) for page in PAGES]), together[:3], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


def test_clip_sees_the_square_in_the_middle_of_the_scaled_picture(clip_folder):
    """The benchmark's own preprocessing: of a page twice as high as wide, top and bottom do not count."""
    from transformers import CLIPModel

    rng = np.random.default_rng(0)
    middle = rng.integers(0, 255, (224, 224, 3), dtype=np.uint8)
    pages = [
        np.concatenate([np.full((112, 224, 3), shade, np.uint8), middle, np.full((112, 224, 3), shade, np.uint8)])
        for shade in (0, 255)
    ]
    renderings = [Rendering(PageOutcome.OK, _png(page), 224, 448, 448) for page in pages]
    scorer = ClipSimilarity(str(clip_folder))
    assert scorer.score(renderings[:1], renderings[1:]) == pytest.approx([1.0], abs=1e-5)
    mean, std = np.array([0.48145466, 0.4578275, 0.40821073]), np.array([0.26862954, 0.26130258, 0.27577711])
    pixels = torch.tensor((middle / 255 - mean) / std, dtype=torch.float32).permute(2, 0, 1)[None]
    with torch.inference_mode():
        found = CLIPModel.from_pretrained(clip_folder).eval().get_image_features(pixel_values=pixels)
    wanted = getattr(found, "pooler_output", found)[0].numpy()
    np.testing.assert_allclose(scorer.embed(renderings[:1])[0], wanted / np.linalg.norm(wanted), atol=1e-4)


def test_a_model_that_is_not_there_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(ScoringError, match="CLIP cannot be loaded from .*'encoder' or 'blocks'"):
        make(f"clip:{tmp_path}").score(PAGES[:1], PAGES[:1])


def test_scorers_have_names():
    with pytest.raises(ScoringError, match=r"^`clip:` names no folder: '/no/such'\. Give one that holds a CLIP model"):
        make("clip:/no/such")
    assert isinstance(make("blocks"), BlockSimilarity) and make("clip").model == "openai/clip-vit-base-patch32"
    scorer = BlockSimilarity()
    assert make(scorer) is scorer
    for wrong in ("blocks:x", "encoder:x", "eyes", ""):
        with pytest.raises(ValueError, match="`similarity` must be"):
            make(wrong)


def _png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()
