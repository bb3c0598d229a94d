"""The rankings of models that sentence-transformers runs, and the models that are made for that."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.retrieval.rank_fusion import fused_ranks

NUM_FUSED = 100
"""Passages of each kind that are fused, as in an index of Braid."""
RIDGE = 10.0


class ReferenceModels:
    """A sentence-transformers encoder, a linear layer for sparse vectors beside it, and a cross-encoder."""

    def __init__(self, encoder: Path, ranker: Path) -> None:
        from sentence_transformers import CrossEncoder, SentenceTransformer

        self.encoder = SentenceTransformer(str(encoder), device="cpu")
        self.ranker = CrossEncoder(str(ranker), device="cpu")
        self.special = set(self.encoder.tokenizer.all_special_ids)
        self.row: NDArray[np.float32] = np.zeros(0, np.float32)

    def fit_sparse(self, texts: Sequence[str]) -> None:
        """Make the row of weights, with its bias last, that gives the rarity of a token, by least squares."""
        tokens = self._tokens(texts)
        counts: dict[int, int] = {}
        for ids, _ in tokens:
            for token in set(ids):
                counts[token] = counts.get(token, 0) + 1
        hidden = np.concatenate([states for _, states in tokens])
        rarity = [np.log(len(texts) / counts[token]) for ids, _ in tokens for token in ids]
        inputs = np.hstack([hidden, np.ones((len(hidden), 1))])
        square = inputs.T @ inputs + RIDGE * np.eye(inputs.shape[1])
        self.row = np.linalg.solve(square, inputs.T @ np.array(rarity)).astype(np.float32)

    def dense_scores(self, queries: Sequence[str], passages: Sequence[str]) -> NDArray[np.float32]:
        """float32[queries, passages]: cosines."""
        sides = [self.encoder.encode([*texts], normalize_embeddings=True) for texts in (queries, passages)]
        scores: NDArray[np.float32] = sides[0] @ sides[1].T
        return scores

    def sparse_scores(self, queries: Sequence[str], passages: Sequence[str]) -> NDArray[np.float32]:
        """float32[queries, passages]: products of BGE-M3's lexical weights."""
        known = [self._weights(text) for text in self._tokens(passages)]
        scores = [
            [sum(weight * own.get(token, 0.0) for token, weight in asked.items()) for own in known]
            for asked in map(self._weights, self._tokens(queries))
        ]
        return np.array(scores, np.float32)

    def ranked_again(self, query: str, passages: Mapping[str, str], first: Sequence[str]) -> list[str]:
        """These passages by the cross-encoder."""
        scores = self.ranker.predict([(query, passages[name]) for name in first])
        return [first[place] for place in np.argsort(-np.asarray(scores), kind="stable")]

    def _weights(self, text: tuple[list[int], NDArray[np.float32]]) -> dict[int, float]:
        ids, states = text
        weights = np.maximum(states @ self.row[:-1] + self.row[-1], 0)
        largest: dict[int, float] = {}
        for token, weight in zip(ids, weights.tolist(), strict=True):
            if token not in self.special:
                largest[token] = max(weight, largest.get(token, 0.0))
        return largest

    def _tokens(self, texts: Sequence[str]) -> list[tuple[list[int], NDArray[np.float32]]]:
        """(ids, hidden states) of each text."""
        states = self.encoder.encode([*texts], output_value="token_embeddings")
        ids = [self.encoder.tokenize([text])["input_ids"][0].tolist() for text in texts]
        return [(own, vectors.float().numpy()) for own, vectors in zip(ids, states, strict=True)]


def ranking(scores: NDArray[np.float32], names: Sequence[str], fewest: float = -np.inf) -> list[str]:
    """The names by their scores, the best first, of those with more than `fewest`."""
    return [names[place] for place in np.argsort(-scores, kind="stable") if scores[place] > fewest]


def fused(rankings: Sequence[Sequence[str]]) -> list[str]:
    """Rankings joined by reciprocal ranks."""
    scores = fused_ranks([list(names[:NUM_FUSED]) for names in rankings], [1.0] * len(rankings))
    return sorted(scores, key=lambda name: -scores[name])


def write_ranker(source: Path, folder: Path) -> None:
    """A cross-encoder with the layers of an encoder and a random head: it ranks by no meaning, but surely."""
    import torch
    from transformers import AutoTokenizer, BertForSequenceClassification

    torch.manual_seed(0)
    BertForSequenceClassification.from_pretrained(source, num_labels=1).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)


def write_with_sparse(source: Path, folder: Path, row: NDArray[Any]) -> None:
    """The encoder's folder with a linear layer for sparse vectors beside it, as BGE-M3 has it."""
    from safetensors.numpy import save_file

    shutil.copytree(source, folder)
    layer = {"weight": np.ascontiguousarray(row[None, :-1]), "bias": row[-1:].copy()}
    save_file(layer, folder / "sparse_linear.safetensors")
