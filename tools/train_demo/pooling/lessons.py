"""Trains each demo: first the vocabulary and word embeddings of the teacher, then its own steps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from ..split import Draw
from . import embed, rerank, sentiment
from .corpus.facts import question
from .corpus.reviews import review
from .corpus.topics import topic_text
from .sizes import SIZE
from .teacher import Teacher
from .training import Plan
from .words import small_tokenizer, word_vectors

NUM_TEXTS = 12_000  # that the vocabulary is chosen from
WORDS_SEED = 99


def teach(demo: str, teacher_folder: Path, out: Path, steps: int | None, seed: int) -> float:
    """Trains embed, rerank or sentiment into `out`; returns the minutes of its steps."""
    teacher, tokenizer, vectors = beginning(teacher_folder)
    if demo == "embed":
        return embed.train(Plan(steps or embed.STEPS, seed), tokenizer, vectors, teacher, out)
    chosen = {"rerank": rerank, "sentiment": sentiment}[demo]
    return chosen.train(Plan(steps or chosen.STEPS, seed), tokenizer, vectors, out)


@cache
def beginning(teacher_folder: Path) -> tuple[Teacher, Tokenizer, np.ndarray]:
    """The common start of all demos: the teacher, a vocabulary and its word embeddings."""
    torch.set_num_threads(1)
    teacher = Teacher(teacher_folder)
    tokenizer = small_tokenizer(teacher, sample())
    return teacher, tokenizer, word_vectors(teacher, tokenizer, SIZE)


def sample() -> Iterator[str]:
    """Texts of all corpora that are trained on."""
    draw = Draw(WORDS_SEED)
    for _ in range(NUM_TEXTS // 4):
        asked = question(draw, 0)
        yield from (asked.text, asked.answer, review(draw).text, topic_text(draw).text)
