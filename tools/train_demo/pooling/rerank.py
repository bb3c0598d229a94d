"""Trains `braid-rerank`: scores how well a passage answers a question."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import BertForSequenceClassification

from ..split import Draw
from .corpus.facts import question
from .encoder import begin, config, inputs
from .sizes import MAX_TOKENS
from .training import Plan, run
from .words import save_tokenizer

STEPS = 2000
QUESTIONS = 12  # of one step
OTHERS = 4  # passages beside the right one
LAYERS = 3
MATCHING_HEADS = 2
BINARY_SHARE = 0.3  # weight of the loss of absolute scores


def train(plan: Plan, tokenizer: Tokenizer, vectors: np.ndarray, folder: Path) -> float:
    """Trains into `folder`, in transformers' format; returns the minutes that it took."""
    torch.manual_seed(plan.seed)
    model = BertForSequenceClassification(config(LAYERS, len(vectors), num_labels=1))
    begin(model.bert, vectors, MATCHING_HEADS)
    draw = Draw(plan.seed)
    minutes = run(plan, model, lambda: _loss(model, tokenizer, draw))
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder, MAX_TOKENS)
    return minutes


def _loss(model: BertForSequenceClassification, tokenizer: Tokenizer, draw: Draw) -> Tensor:
    """The right passage must have the best score of its question, and the sigmoid of it be near 1."""
    asked = [question(draw, OTHERS) for _ in range(QUESTIONS)]
    pairs = [(one.text, passage) for one in asked for passage in (one.answer, *one.others)]
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(**inputs(tokenizer, pairs)).logits.float().view(QUESTIONS, OTHERS + 1)
    right = torch.zeros(QUESTIONS, dtype=torch.long)
    wanted = functional.one_hot(right, OTHERS + 1).float()
    binary = functional.binary_cross_entropy_with_logits(logits, wanted)
    return functional.cross_entropy(logits, right) + BINARY_SHARE * binary
