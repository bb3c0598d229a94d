"""ONNX Runtime's CUDA provider for paged decoders: what is lowered for it, and how a session is opened.

Knows provider options; knows nothing of steps, caches or buckets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import onnx_ir as ir
import onnxruntime as ort

from pipelines.backends.errors import ModelError
from pipelines.backends.onnx.decoder import Decoder
from pipelines.backends.onnx.lowering_cuda import (
    CACHE_TYPES,
    QUANTIZED_RANGE,
    block_tokens_for,
    choose_cache,
    lower_for_cuda,
)
from pipelines.backends.onnx.runtime import CPU, CUDA, open_session

log = logging.getLogger(__name__)

ENTRIES = {"session.use_device_allocator_for_initializers": "1"}
"""Weights are allocated by themselves, not from the arena, which would round them up."""
UNCAPTURABLE = frozenset({"GatherND", "ScatterND", "NonZero", "Unique", "Compress"})
"""Operators whose CUDA kernels copy numbers from memory that is gone by the time a graph is replayed, or wait
for numbers from the device.  ONNX Runtime captures them all the same; the replay computes something else."""
NO_CAPTURE = "graph capture"
"""What ONNX Runtime's words contain when it opens a model only without CUDA graphs."""


@dataclass(frozen=True)
class Lowered:
    """A model as a session computes it.

    `gathers`: prompt chunks copy the whole context of all their sequences into one buffer, as those over a
    quantized cache do.
    """

    model: ir.Model
    block_tokens: int
    element: ir.DataType  # of the cache
    kv_cache: str
    gathers: bool


class Runtime(Protocol):
    """Where a session computes.  `memory` and `number` name it to ONNX Runtime's bindings."""

    memory: str
    number: int

    def lower(self, decoder: Decoder, kv_cache: str | None) -> Lowered:
        """Raises `ModelError`."""

    def open(self, lowered: Lowered, folder: Path) -> tuple[ort.InferenceSession, bool]:
        """The session, and whether it captures graphs.  Raises `ModelError`."""


class CudaRuntime:
    """One NVIDIA GPU.  Everything computes on `stream`, in order, and nothing waits for it."""

    memory = "cuda"

    def __init__(self, number: int, stream: int) -> None:
        self.number = number
        self._stream = stream

    def lower(self, decoder: Decoder, kv_cache: str | None) -> Lowered:
        cache = choose_cache(decoder, kv_cache)
        tokens = block_tokens_for(decoder.layers, cache)
        model = lower_for_cuda(decoder, tokens, cache)
        return Lowered(model, tokens, CACHE_TYPES[cache], cache, cache in QUANTIZED_RANGE)

    def open(self, lowered: Lowered, folder: Path) -> tuple[ort.InferenceSession, bool]:
        """With graphs where ONNX Runtime can; a node it has only on the CPU forbids them for all."""
        model = ir.to_proto(lowered.model).SerializeToString()
        found = uncapturable(lowered.model)
        if found:
            log.warning("decode steps run without CUDA graphs: the model has %s", ", ".join(found))
            return self._open(model, folder, graphs=False), False
        try:
            return self._open(model, folder, graphs=True), True
        except ModelError as error:
            if NO_CAPTURE not in str(error):
                raise
            log.warning("decode steps run without CUDA graphs: %s", error)
            return self._open(model, folder, graphs=False), False

    def _open(self, model: bytes, folder: Path, *, graphs: bool) -> ort.InferenceSession:
        cuda = (CUDA, self.options(graphs))
        return open_session(model, folder, [cuda, CPU], threads=1, entries=ENTRIES)

    def options(self, graphs: bool) -> Mapping[str, str]:
        """The provider's.

        kSameAsRequested: the arena grows by what is asked for, not to the next power of two, and leaves the
        rest to the cache.  use_tf32: the angles of rotary embedding are a float32 product in every export,
        and ten bits cannot tell position 4096 from 4097.
        """
        return {
            "device_id": str(self.number),
            "user_compute_stream": str(self._stream),
            "enable_cuda_graph": str(int(graphs)),
            "arena_extend_strategy": "kSameAsRequested",
            "use_tf32": "0",
        }


def uncapturable(model: ir.Model) -> list[str]:
    """The operators of a model that a CUDA graph would not replay, by name."""
    return sorted({node.op_type for node in model.graph if not node.domain} & UNCAPTURABLE)
