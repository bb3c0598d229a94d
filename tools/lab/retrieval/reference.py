"""The rankings of models that sentence-transformers runs, and the models that are made for that."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.retrieval.rank_fusion import fused_ranks

NUM_FUSED = 100
"""Passages of each kind that are fused, as in an index of Braid."""
RIDGE = 10.0


class ReadText(NamedTuple):
    """What the encoder gives for a text: its tokens' hidden states, float32[tokens, size], and its vector."""

    ids: list[int]
    states: NDArray[np.float32]
    vector: NDArray[np.float32]


class ReferenceModels:
    """A sentence-transformers encoder, a linear layer for sparse vectors beside it, and a cross-encoder."""

    def __init__(self, encoder: Path, ranker: Path) -> None:
        from sentence_transformers import CrossEncoder, SentenceTransformer

        self.encoder = SentenceTransformer(str(encoder), device="cpu")
        self.ranker = CrossEncoder(str(ranker), device="cpu")
        self.special = set(self.encoder.tokenizer.all_special_ids)
        self.row: NDArray[np.float32] = np.zeros(0, np.float32)

    def read(self, texts: Sequence[str]) -> list[ReadText]:
        """The vectors of texts, one pass of the encoder for all."""
        outputs = self.encoder.encode([*texts], output_value=None)
        ids = [self.encoder.tokenize([text])["input_ids"][0].tolist() for text in texts]
        return [
            ReadText(
                own, both["token_embeddings"][: len(own)].float().numpy(), both["sentence_embedding"].numpy()
            )
            for own, both in zip(ids, outputs, strict=True)
        ]

    def fit_sparse(self, texts: Sequence[ReadText]) -> None:
        """Make the row of weights, with its bias last, that gives the rarity of a token, by least squares."""
        counts: dict[int, int] = {}
        for text in texts:
            for token in set(text.ids):
                counts[token] = counts.get(token, 0) + 1
        hidden = np.concatenate([text.states for text in texts])
        rarity = [np.log(len(texts) / counts[token]) for text in texts for token in text.ids]
        inputs = np.hstack([hidden, np.ones((len(hidden), 1))])
        square = inputs.T @ inputs + RIDGE * np.eye(inputs.shape[1])
        self.row = np.linalg.solve(square, inputs.T @ np.array(rarity)).astype(np.float32)

    @staticmethod
    def dense_scores(queries: Sequence[ReadText], passages: Sequence[ReadText]) -> NDArray[np.float32]:
        """float32[queries, passages]: cosines."""
        sides = [np.stack([text.vector for text in texts]) for texts in (queries, passages)]
        sides = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides]
        scores: NDArray[np.float32] = sides[0] @ sides[1].T
        return scores

    def sparse_scores(self, queries: Sequence[ReadText], passages: Sequence[ReadText]) -> NDArray[np.float32]:
        """float32[queries, passages]: products of BGE-M3's lexical weights."""
        known = [self._weights(text) for text in passages]
        scores = [
            [sum(weight * own.get(token, 0.0) for token, weight in asked.items()) for own in known]
            for asked in map(self._weights, queries)
        ]
        return np.array(scores, np.float32)

    def ranked_again(self, query: str, passages: Mapping[str, str], first: Sequence[str]) -> list[str]:
        """These passages by the cross-encoder."""
        scores = self.ranker.predict([(query, passages[name]) for name in first])
        return [first[place] for place in np.argsort(-np.asarray(scores), kind="stable")]

    def _weights(self, text: ReadText) -> dict[int, float]:
        weights = np.maximum(text.states @ self.row[:-1] + self.row[-1], 0)
        largest: dict[int, float] = {}
        for token, weight in zip(text.ids, weights.tolist(), strict=True):
            if token not in self.special:
                largest[token] = max(weight, largest.get(token, 0.0))
        return largest


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
