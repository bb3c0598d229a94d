"""sentence-transformers on torch's CPU kernels: it sorts by length and batches by itself."""

from __future__ import annotations

from pathlib import Path

from sentence_transformers import SentenceTransformer

from tools.lab.bench.pooling.load import Embed, Vectors


def opened(folder: Path) -> Embed:
    model = SentenceTransformer(str(folder), device="cpu")

    def embed(texts: list[str]) -> Vectors:
        return model.encode(texts, show_progress_bar=False)  # type: ignore[no-any-return]

    return embed
