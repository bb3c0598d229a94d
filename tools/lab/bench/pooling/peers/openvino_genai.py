"""openvino_genai's TextEmbeddingPipeline.  It pads whatever it is given to one length: so it is given little.

Texts are sorted by length and go in batches of BATCH, which is the best that a caller can do.
"""

from __future__ import annotations

from pathlib import Path

import openvino_genai

from tools.lab.bench.pooling.load import Embed, Vectors

BATCH = 32


def opened(folder: Path) -> Embed:
    config = openvino_genai.TextEmbeddingPipeline.Config()
    config.pooling_type = openvino_genai.TextEmbeddingPipeline.PoolingType.MEAN
    config.normalize = True
    pipeline = openvino_genai.TextEmbeddingPipeline(str(folder), "CPU", config)

    def embed(texts: list[str]) -> Vectors:
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        vectors: Vectors = [[] for _ in texts]
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            for at, vector in zip(some, pipeline.embed_documents([texts[at] for at in some]), strict=True):
                vectors[at] = vector
        return vectors

    return embed
