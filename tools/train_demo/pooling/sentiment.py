"""Trains `braid-sentiment`: classifies a short review as negative, neutral or positive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import BertForSequenceClassification

from ..split import Draw
from .corpus.reviews import LABELS, review
from .encoder import begin, config, inputs
from .sizes import MAX_TOKENS
from .training import Plan, run
from .words import save_tokenizer

STEPS = 2000
REVIEWS = 64  # of one step
LAYERS = 2
CERTAINTY = 0.05  # label smoothing


def train(plan: Plan, tokenizer: Tokenizer, vectors: np.ndarray, folder: Path) -> float:
    """Trains into `folder`, in transformers' format; returns the minutes that it took."""
    torch.manual_seed(plan.seed)
    names = dict(enumerate(LABELS))
    numbers = {label: number for number, label in names.items()}
    model = BertForSequenceClassification(config(LAYERS, len(vectors), id2label=names, label2id=numbers))
    begin(model.bert, vectors)
    draw = Draw(plan.seed)
    minutes = run(plan, model, lambda: _loss(model, tokenizer, draw))
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder, MAX_TOKENS)
    return minutes


def _loss(model: BertForSequenceClassification, tokenizer: Tokenizer, draw: Draw) -> Tensor:
    reviews = [review(draw) for _ in range(REVIEWS)]
    wanted = torch.tensor([LABELS.index(one.label) for one in reviews])
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(**inputs(tokenizer, [one.text for one in reviews])).logits
    return functional.cross_entropy(logits.float(), wanted, label_smoothing=CERTAINTY)
