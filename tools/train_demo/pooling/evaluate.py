"""Measures how often the served models are right on the held-out examples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import held_out
from .serving import Served
from .sizes import DIMENSIONS

RANKED = 10  # passages that a reranker orders


@dataclass(frozen=True)
class Figure:
    """`num_right <= num_asked`."""

    what: str
    num_right: int
    num_asked: int

    @property
    def share(self) -> float:
        return self.num_right / self.num_asked


QUESTIONS = {"questions": "", "questions_about_new_names": ", in trained phrasings"}
"""File of questions → suffix of its row in the table."""


def of_rerank(served: Served, limit: int | None = None) -> list[Figure]:
    """Counts how often the right passage is first of ten, for `limit` questions of each file or all."""
    return [_ranked(served, file, said, limit) for file, said in QUESTIONS.items()]


def _ranked(served: Served, file: str, said: str, limit: int | None) -> Figure:
    asked = held_out.load(file)[:limit]
    right = 0
    for one in asked:
        passages = [one["answer"], *one["others"]][:RANKED]
        right += int(served.scores("braid-rerank", one["text"], passages).argmax() == 0)
    return Figure(f"right passage first of {RANKED}{said}", right, len(asked))


def of_embed(served: Served, limit: int | None = None) -> list[Figure]:
    """Counts how often the right passage is first of twenty, for embeddings of each size."""
    sizes = reversed(DIMENSIONS)
    return [_nearest(served, file, said, size, limit) for size in sizes for file, said in QUESTIONS.items()]


def _nearest(served: Served, file: str, said: str, size: int, limit: int | None) -> Figure:
    asked = held_out.load(file)[:limit]
    passages = [passage for one in asked for passage in (one["answer"], *one["others"])]
    queries = served.vectors("braid-embed", [one["text"] for one in asked], size, purpose="query")
    documents = served.vectors("braid-embed", passages, size, purpose="document")
    nearness = (queries[:, None] * documents.reshape(len(asked), -1, size)).sum(2)
    what = f"{size} numbers: right passage first of {nearness.shape[1]}{said}"
    return Figure(what, int((nearness.argmax(1) == 0).sum()), len(asked))


def of_sentiment(served: Served, limit: int | None = None) -> list[Figure]:
    """Counts the right classes, per class and in total, with trained words; then in total with new words."""
    *_, all_new = _of_classes(served, "braid-sentiment", "reviews_in_new_words", limit)
    known = _of_classes(served, "braid-sentiment", "reviews", limit)
    return [*known, Figure("all, in new words", all_new.num_right, all_new.num_asked)]


def of_topics(served: Served, limit: int | None = None) -> list[Figure]:
    """Counts the right classes, per class and in total."""
    return _of_classes(served, "braid-topics", "texts", limit)


def _of_classes(served: Served, model: str, file: str, limit: int | None) -> list[Figure]:
    examples = held_out.load(file)[:limit]
    probabilities, labels = served.classes(model, [one["text"] for one in examples])
    told = [labels[number] for number in probabilities.argmax(1)]
    pairs = [(one["label"], label) for one, label in zip(examples, told, strict=True)]
    figures = [
        Figure(wanted, pairs.count((wanted, wanted)), sum(pair[0] == wanted for pair in pairs))
        for wanted in labels
        if any(pair[0] == wanted for pair in pairs)
    ]
    return [*figures, Figure("all", sum(one == other for one, other in pairs), len(pairs))]


FIGURES = {"rerank": of_rerank, "embed": of_embed, "sentiment": of_sentiment, "topics": of_topics}
"""Demo → its evaluation."""


def measure(demo: str, repository: Path) -> list[Figure]:
    """The figures of the committed model, on this machine's CPU."""
    names = {f"braid-{demo}"} | ({"braid-embed"} if demo == "topics" else set())
    with Served(repository, names) as served:
        return FIGURES[demo](served)
