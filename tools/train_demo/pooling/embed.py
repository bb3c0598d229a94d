"""Trains `braid-embed`: embeddings of texts, whose first numbers also form an embedding.

A question must be near the passage that answers it (in-batch negatives, at each of `DIMENSIONS`), and texts
as similar as in the teacher's embeddings.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import BertModel

from ..split import Draw
from .corpus.facts import Question, passage, question
from .corpus.reviews import review
from .corpus.topics import topic_text
from .encoder import begin, config, hush, inputs
from .sizes import DIMENSIONS, MAX_TOKENS, PROMPTS, SIZE
from .teacher import Teacher
from .training import Plan, run
from .words import save_tokenizer

STEPS = 500
QUESTIONS = 48  # of one step
ALIKE = 32  # texts per step whose similarities are trained to match the teacher's
TAUGHT = 3000  # texts that the teacher reads
LAYERS = 2
LAYERS_SHARE = 0.1  # initial scale of the layers' outputs
TEMPERATURE = 0.05
TEACHER_SHARE = 20.0


def train(plan: Plan, tokenizer: Tokenizer, vectors: np.ndarray, teacher: Teacher, folder: Path) -> float:
    """Trains into `folder`, in sentence-transformers' format; returns the minutes that it took."""
    torch.manual_seed(plan.seed)
    model = BertModel(config(LAYERS, len(vectors)), add_pooling_layer=False)
    begin(model, vectors)
    hush(model, LAYERS_SHARE)
    lesson = Lesson(Draw(plan.seed), teacher)
    minutes = run(plan, model, lambda: _loss(model, tokenizer, lesson))
    model.config.is_matryoshka = True
    model.config.matryoshka_dimensions = list(DIMENSIONS)
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder, MAX_TOKENS)
    write_modules(folder)
    return minutes


class Lesson:
    """An endless stream of questions with passages, and texts with the teacher's embeddings."""

    def __init__(self, draw: Draw, teacher: Teacher) -> None:
        self.draw = draw
        self._texts = [_some_text(draw) for _ in range(TAUGHT)]
        self._vectors = torch.from_numpy(teacher.vectors(self._texts))

    def questions(self) -> list[Question]:
        return [question(self.draw, 1) for _ in range(QUESTIONS)]

    def alike(self) -> tuple[list[str], Tensor]:
        """Texts, and the teacher's similarity of each pair: float32[ALIKE, ALIKE]."""
        chosen = self.draw.some(range(TAUGHT), ALIKE)
        vectors = self._vectors[chosen]
        return [self._texts[index] for index in chosen], vectors @ vectors.T


def _some_text(draw: Draw) -> str:
    kind = draw.number(1, 10)
    if kind <= 5:
        return topic_text(draw).text
    if kind <= 6:
        return review(draw).text
    return question(draw, 0).text if kind <= 8 else passage(draw)


def embed(model: BertModel, tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    """float32[len(texts), SIZE]: the mean over each text's tokens."""
    read = inputs(tokenizer, texts)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model(**read).last_hidden_state.float()
    mask = read["attention_mask"][:, :, None]
    return (hidden * mask).sum(1) / mask.sum(1)


def _loss(model: BertModel, tokenizer: Tokenizer, lesson: Lesson) -> Tensor:
    asked = lesson.questions()
    texts, nearness = lesson.alike()
    queries, documents = PROMPTS.values() if lesson.draw.chance(0.5) else ("", "")
    passages = [one.answer for one in asked] + [one.others[0] for one in asked]
    groups = [[queries + one.text for one in asked], [documents + one for one in passages], texts]
    vectors = torch.cat([embed(model, tokenizer, group) for group in groups])
    same = torch.tensor([[one.meaning == other.meaning for other in asked] for one in asked])
    loss = torch.zeros(())
    for size in DIMENSIONS:
        unit = functional.normalize(vectors[:, :size], dim=1)
        loss = loss + _contrast(unit[: 3 * QUESTIONS], same)
        loss = loss + TEACHER_SHARE * functional.mse_loss(unit[-ALIKE:] @ unit[-ALIKE:].T, nearness)
    return loss / len(DIMENSIONS)


def _contrast(unit: Tensor, same: Tensor) -> Tensor:
    """The loss of each question against all passages, except others that also answer it."""
    queries, answers, others = unit.split(QUESTIONS)
    scores = queries @ torch.cat([answers, others]).T / TEMPERATURE
    excused = same & ~torch.eye(QUESTIONS, dtype=torch.bool)
    scores[:, :QUESTIONS] = scores[:, :QUESTIONS].masked_fill(excused, -torch.inf)
    return functional.cross_entropy(scores, torch.arange(QUESTIONS))


def write_modules(folder: Path) -> None:
    """Writes the files of sentence-transformers: pooling, length 1, prompts."""
    modules = [
        ("", "Transformer", None),
        ("1_Pooling", "Pooling", {"word_embedding_dimension": SIZE, "pooling_mode_mean_tokens": True}),
        ("2_Normalize", "Normalize", {}),
    ]
    rows = []
    for index, (path, name, settings) in enumerate(modules):
        rows.append(
            {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{name}"}
        )
        if settings is not None:
            (folder / path).mkdir(exist_ok=True)
        if settings:
            _write(folder / path / "config.json", settings)
    _write(folder / "modules.json", rows)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": MAX_TOKENS, "do_lower_case": False})
    prompts = {"prompts": PROMPTS, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    _write(folder / "config_sentence_transformers.json", prompts)


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
