"""Derive the word lists of LMRL-Wordle from SCOWL: ``colbench_gym/lmrl/wordle_words.json``.

    apt-get download scowl && dpkg-deb -x scowl_2020.12.07-2_all.deb FOLDER
    python benchmarks/wordle_words.py --scowl FOLDER/usr/share

American five-letter words of SCOWL's sizes 10 to 40 (the most common ones first; within a size in random order), without regular plurals, which Wordle's
own secrets are not either, and without slurs and sexual words. A list of n words is the first n. Sizes 80 and above are left out: their sources ask for more
than a notice. The package's copyright file is copied into the file as SCOWL's terms demand.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path

SIZES = (10, 20, 35, 40)
NUM_WORDS, WORDS_A_LINE = 2315, 20
OUT = Path("colbench_gym/lmrl/wordle_words.json")
UNWANTED = {
    "bitch", "boobs", "chink", "fagot", "gypsy", "horny", "penis", "prick", "pubic", "pussy", "queer", "raped", "semen", "sissy", "sperm", "spunk",
    "whore",
}  # fmt: skip


def words_of(folder: Path, size: int) -> set[str]:
    """Words of a SCOWL size, inflections included."""
    files = [folder / f"{kind}-words.{size}" for kind in ("english", "american")]
    return {line.strip() for file in files if file.exists() for line in file.read_text("latin-1").splitlines()}


def is_plural(word: str, words: set[str]) -> bool:
    """Whether a word is another one with "s" or "es"."""
    return word.endswith("s") and (word[:-1] in words or (word.endswith("es") and word[:-2] in words))


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--scowl", type=Path, required=True, help="folder with dict/scowl and doc/scowl of Debian's package scowl"
    )
    arguments = parser.parse_args()
    by_size = [words_of(arguments.scowl / "dict/scowl", size) for size in SIZES]
    known = set().union(*by_size)
    rng, kept = random.Random(0), dict[str, None]()
    for words in by_size:
        new = sorted(
            word
            for word in words
            if re.fullmatch("[a-z]{5}", word) and word not in kept and not is_plural(word, known) and word not in UNWANTED
        )
        rng.shuffle(new)
        kept.update(dict.fromkeys(new))
    words_kept = list(kept)[:NUM_WORDS]
    lines = [" ".join(words_kept[at : at + WORDS_A_LINE]) for at in range(0, NUM_WORDS, WORDS_A_LINE)]
    notices = (arguments.scowl / "doc/scowl/copyright").read_text("utf-8").splitlines()
    source = f"SCOWL 2020.12.07 (Debian package scowl), sizes {SIZES}, selected by benchmarks/wordle_words.py; a list of n words is the first n"
    OUT.write_text(json.dumps({"source": source, "words": lines, "copyright": notices}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
