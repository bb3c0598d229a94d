"""Runs a decoder that reads embeddings of images as an encoder: the states after its last layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ops import pooling
from ops.contract import PoolingOps
from pipelines.adapters.weights import AdapterWeights
from pipelines.inference.backends.model_config import read_config
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.embedded_tokens import TABLE
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import CPU_BATCH_TOKENS, Columns, EncoderSettings
from pipelines.inference.engine.packed_parts import PromptPart, packed_step

FILE = "openvino_language_model.xml"
ROUNDED_TOKENS = 1 << 20
"""Calls of less tokens have one of few numbers of them, for each of which OpenVINO compiles kernels."""


def reads_rows(path: Path) -> bool:
    """Whether an .xml is the language model of a vision model, whose table of embeddings is another file."""
    return path.name == FILE and path.with_name(TABLE).is_file()


class HeadlessDecoder:
    """One compiled decoder without its head (`EncoderSession`).  Raises `ModelError`.

    Each call is one step of whole texts, side by side without padding.  Its cache has the keys and values of
    one call, and grows with the largest one.
    """

    ops: PoolingOps = pooling
    per_token = True
    columns: Columns | None = None
    good_batch_tokens = CPU_BATCH_TOKENS

    def __init__(self, path: Path, settings: EncoderSettings) -> None:
        words = OpenVINOSettings(
            settings.device,
            precision=settings.precision,
            threads=settings.threads,
            targets=settings.targets,
            headless=True,
        )
        self._session = OpenVINOSession(path, words)
        self.linears = self._session.linears
        self._session.reserve(ROUNDED_TOKENS, 1)
        self._num_blocks = 0
        shape = self._session.shape
        self.max_tokens, self.size = shape.max_context, shape.vocab_size
        self.embeds_size, self.mrope_axes = shape.inputs_embeds_size, shape.mrope_axes
        self.vocab_size = int(read_config(path.parent / "config.json")["vocab_size"])

    def run(self, batch: TokenBatch) -> NDArray[np.float32]:
        size = self._session.shape.block_tokens
        counts = -(-batch.lengths // size)
        ends = np.cumsum(counts)
        self._allocate(int(ends[-1]))
        blocks = np.split(np.arange(ends[-1], dtype=np.int32), ends[:-1])
        images = batch.images or [None] * len(blocks)
        parts = [
            PromptPart(ids[:length], 0, own, np.arange(length), images=rows)
            for ids, length, own, rows in zip(batch.ids, batch.lengths, blocks, images, strict=True)
        ]
        values = np.zeros((*batch.ids.shape, self.size), np.float32)
        step = replace(packed_step(parts, size), adapters=batch.adapters)
        values[batch.mask.astype(bool)] = self._session.run(step)
        return values

    def _allocate(self, num_blocks: int) -> None:
        if num_blocks > self._num_blocks:
            self._session.allocate(num_blocks)
            self._num_blocks = num_blocks

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        self._session.put_adapter(number, weights)

    def drop_adapter(self, number: int) -> None:
        self._session.drop_adapter(number)

    def warm(self) -> bool:
        return False

    def describe(self) -> Mapping[str, str]:
        return self._session.describe()

    def close(self) -> None:
        self._session.close()
