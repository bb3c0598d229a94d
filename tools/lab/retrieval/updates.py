"""What an update of an index writes and takes (`python -m tools.lab.retrieval.updates`).

An index of made passages with random vectors is written, dense ones and sparse ones; then documents are
added, changed and removed, each by an update of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import click
import numpy as np

from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, remove, update
from pipelines.values.node_values import SparseVectors, Vectors
from tools.lab.bench.pooling.texts import make_texts
from tools.lab.retrieval.took import took

SIZE, VOCABULARY, TERMS = 384, 30_000, 100
TEXTS_OF_A_PASSAGE = 5
"""Made texts, of which one has 35 words in the mean, of a made passage."""


@click.command()
@click.option("--passages", default=20_000, show_default=True, help="Of the index.")
@click.option("--new", default=10, show_default=True, help="Documents of one passage that an update adds.")
@click.option("--rounds", default=20, show_default=True, help="Updates of each kind.")
def main(passages: int, new: int, rounds: int) -> None:
    """Print the figures."""
    draw = np.random.default_rng(0)
    texts = make_texts(TEXTS_OF_A_PASSAGE * passages, seed=0)
    settings = IndexSettings(
        "made", lambda group: drawn(draw, len(group)), Cutting(100_000), kinds=("dense", "sparse")
    )

    def documents(first: int, count: int, version: int = 0) -> list[SourceDocument]:
        return [
            SourceDocument.of_text(f"d{number}", f"{version} {text}")
            for number in range(first, first + count)
            for text in [" ".join(texts[number % passages :: passages])]
        ]

    with tempfile.TemporaryDirectory() as place:
        folder = IndexFolder(Path(place) / "index")
        _, used_s = took(lambda: update(folder, documents(0, passages), settings))
        print(
            f"{passages} passages: {size_of(folder) / 1e6:.1f} MB, {used_s:.1f} s of processor time",
            flush=True,
        )
        works: dict[str, Callable[[int], object]] = {
            "added": lambda turn: update(
                folder, documents(passages + turn * new, new), settings, keeps_others=True
            ),
            "changed": lambda turn: update(
                folder, documents(turn * new, new, version=1), settings, keeps_others=True
            ),
            "removed": lambda turn: remove(
                folder, [f"d{number}" for number in range(turn * new, turn * new + new)], settings
            ),
        }
        for name, work in works.items():
            turns = [measured(folder, partial(work, turn)) for turn in range(rounds)]
            written, used = ([turn[kind] for turn in turns] for kind in (0, 1))
            print(
                f"{new} {name}: {median(written) / 1e3:.0f} kB written, {max(written) / 1e3:.0f} at most; "
                f"{1e3 * median(used):.0f} ms of processor time, {1e3 * max(used):.0f} at most",
                flush=True,
            )


def drawn(draw: np.random.Generator, count: int) -> dict[str, Vectors]:
    """Vectors of this many texts."""
    ids = draw.integers(VOCABULARY // TERMS, size=(count, TERMS)) + np.arange(TERMS) * (VOCABULARY // TERMS)
    weights = draw.random(count * TERMS, np.float32) + 0.1
    lengths = np.full(count, TERMS, np.int32)
    return {
        "dense": draw.standard_normal((count, SIZE), np.float32),
        "sparse": SparseVectors(ids.astype(np.int32).ravel(), weights, lengths, VOCABULARY),
    }


def measured(folder: IndexFolder, work: Callable[[], object]) -> tuple[int, float]:
    """(bytes of the new version's own files, processor seconds) of an update."""
    _, used_s = took(work)
    return size_of(folder), used_s


def size_of(folder: IndexFolder) -> int:
    """The bytes of files that the current version shares with no other."""
    number = folder.number()
    assert number is not None
    files = [file.stat() for file in folder.version(number).iterdir()]
    return sum(file.st_size for file in files if file.st_nlink == 1)


if __name__ == "__main__":
    main()
