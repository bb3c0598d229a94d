"""A decoder in Braid's ONNX form on an NVIDIA GPU, run one packed step at a time.

Only ids and tables go up and only what the sampler chose comes back; model, cache and logits stay on the
device, on one stream.  Knows nothing of scheduling or sampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnxruntime as ort

from ops.cuda.device import Array, Device, DeviceError
from ops.cuda.sampling import CudaSamplingOps
from ops.cuda.step_inputs import StepInputBuffers, StepInputs, new_step_inputs
from pipelines.host.backends.decoder_contract import NO_STEP_TIMES
from pipelines.host.backends.device_errors import ModelError
from pipelines.host.backends.onnxruntime.cuda.bindings import SessionBinding, SessionBindings
from pipelines.host.backends.onnxruntime.cuda.cuda_graphs import (
    CAPTURE_LOCK,
    MAX_BATCH,
    MAX_PADDING,
    NO_GRAPH,
    RUNS_TO_CAPTURE,
    GraphBucket,
    GraphBuckets,
    GraphShape,
    padded_batch,
    padded_columns,
)
from pipelines.host.backends.onnxruntime.cuda.device_faults import raise_if_lost
from pipelines.host.backends.onnxruntime.cuda.kv_cache import OnnxCudaCache, OnnxCudaCacheLayout
from pipelines.host.backends.onnxruntime.cuda.lowered_decoder import LoweredDecoder
from pipelines.host.backends.onnxruntime.cuda.provider import DecoderRuntime
from pipelines.host.backends.onnxruntime.cuda.step_parts import PartLimits, StepPart, split_step
from pipelines.host.backends.onnxruntime.cuda.warmup_steps import attention_bounds, largest_steps, warmup_step
from pipelines.host.backends.onnxruntime.runtime import RUNTIME_ERRORS, version, words
from pipelines.host.engine.step import Step

CACHE_SHARE = 0.9
"""Of the memory that is free once the largest steps have run; the rest is for graphs and fragmentation."""


class OnnxCudaSession:
    """One decoder, its cache and its decode graphs (`DecoderSession`).  Raises `ModelError`.

    A step that only decodes is padded to a bucket, and from the second of its kind on it is a replayed
    graph.  Any other is computed as it is, in one call: so weights are read once for prompt chunks and
    decoding sequences alike.

    A step that raises takes nothing with it but the blocks that it wrote to; a fault that the device does
    not get over is a `DeviceLost`.  Loading may be one thread's and running another's: ONNX Runtime keeps
    captured graphs per thread, so all runs are one's, and `warm` is that thread's too.
    """

    can_swap = True
    step_times_s = NO_STEP_TIMES
    ops: CudaSamplingOps
    _session: ort.InferenceSession
    _steps: StepInputBuffers  # from here on: since `reserve`
    _logits: Array  # float32[most rows, vocab]
    _bindings: SessionBindings
    _eager: SessionBinding

    def __init__(self, lowered: LoweredDecoder, device: Device, runtime: DecoderRuntime) -> None:
        self.vocab_size, self.max_context = lowered.vocab_size, lowered.max_context
        self.block_tokens = lowered.block_tokens
        self._layout = OnnxCudaCacheLayout(lowered.layers, lowered.block_tokens, lowered.element)
        self.block_bytes = self._layout.block_bytes
        self._columns = padded_columns(-(-self.max_context // self.block_tokens))
        self._limits = PartLimits(MAX_BATCH, self._columns * self.block_tokens if lowered.gathers else None)
        self._device, self._runtime = device, runtime
        with CAPTURE_LOCK.calls():
            self._session, graphs = runtime.open(lowered)
            self.ops = CudaSamplingOps(device)
        self._buckets = GraphBuckets(enabled=graphs)
        self._bound: dict[GraphShape, SessionBinding] = {}
        self._facts = self._read_facts(lowered)

    # Memory

    def reserve(self, max_tokens: int, max_sequences: int, max_scored: int = 0) -> int:
        """Compute the largest steps over a cache of one block: ONNX Runtime keeps the workspaces it took.

        Raises `ModelError` where they cannot be computed, above all for want of memory.
        """
        self._max_sequences = max_sequences
        rows = max_sequences + MAX_PADDING
        with (
            CAPTURE_LOCK.calls(),
            self._loading(f"a step of {max_tokens} tokens and {max_sequences} sequences"),
        ):
            self._steps = StepInputBuffers(self._device, max_tokens, rows, self._columns)
            self._logits = self._device.empty((rows + max_scored + 1, self.vocab_size), np.float32)
            self._place(0)
            sizes = max_tokens, max_sequences, max_scored
            for step in largest_steps(*sizes, self.max_context, self._columns):
                for part in split_step(step, self._limits):
                    self._compute(part)
            self.ops.reserve(rows + max_scored, self.vocab_size)
            self._device.synchronize()
            free, _ = self._device.free_bytes()
        return int(free * CACHE_SHARE)

    def allocate(self, num_blocks: int, num_host_blocks: int = 0) -> None:
        with (
            CAPTURE_LOCK.calls(),
            self._loading(f"a cache of {num_blocks} blocks, {num_host_blocks} on the host"),
        ):
            self._place(num_blocks, num_host_blocks)
            self._device.synchronize()

    def _place(self, num_blocks: int, num_host_blocks: int = 0) -> None:
        self._forget("_bindings", "_eager")  # with their cache, before the next is made
        cache = OnnxCudaCache(self._device, self._layout, num_blocks, num_host_blocks)
        self._bindings = SessionBindings(self._session, self._runtime, self._device, cache)
        self._eager = self._bindings.new()

    # Steps

    def run(self, step: Step) -> Any:
        try:
            self._bindings.cache.move(step)
            for part in split_step(step, self._limits):
                if part.decodes and part.first_logit % MAX_BATCH == 0:
                    self._decode(part.step, self._shape_of(part))
                else:
                    self._compute(part)
        except Exception as error:
            raise_if_lost(self._device, error)
            raise
        return self._logits[: step.num_logits]

    def warm(self) -> bool:
        """Capture the graph of one more common shape; whether there are more.

        For the thread that runs steps, while it has none: a shape's first step takes some times as long as
        its others.
        """
        missing = self._buckets.missing(self._max_sequences, self._columns)
        if missing:
            step = warmup_step(missing[0], self._bindings.cache.scratch)
            for _ in range(RUNS_TO_CAPTURE):
                self._decode(step, missing[0])
            self._device.synchronize()
        return len(missing) > 1

    def _shape_of(self, part: StepPart) -> GraphShape:
        step = part.step
        return GraphShape(
            padded_batch(step.num_seqs), padded_columns(self._num_columns(step)), part.first_logit
        )

    def _decode(self, step: Step, shape: GraphShape) -> None:
        """One row of logits for each sequence, by way of its bucket."""
        bound = self._bound.get(shape) or self._bind(shape)
        self._fill(step, shape.batch, shape.batch, shape.columns, bound.feed)
        self._replay(bound, self._buckets.of(shape))

    def _bind(self, shape: GraphShape) -> SessionBinding:
        """The shape's own arrays and bindings, at the same addresses for ever."""
        batch, columns, first_row = shape
        bound = self._bindings.new()
        bound.bounds[:] = attention_bounds(shape, self.block_tokens)
        feed = new_step_inputs(self._device, batch, batch, columns, batch)
        self._bindings.fill(bound, feed, self._logits[first_row : first_row + batch])
        self._bound[shape] = bound
        return bound

    def _replay(self, bound: SessionBinding, bucket: GraphBucket) -> None:
        """Replay the bucket's graph, or capture it, or compute without when it cannot be captured (now)."""
        if not bucket.captures:
            self._bindings.run(bound, bucket.graph_id)
            return
        with CAPTURE_LOCK.capture() as granted:
            if granted:
                self._capture(bound, bucket)
            else:
                self._bindings.run(bound, NO_GRAPH)

    def _capture(self, bound: SessionBinding, bucket: GraphBucket) -> None:
        try:
            self._bindings.run(bound, bucket.graph_id)
            bucket.runs += 1
        except Exception as error:
            raise_if_lost(self._device, error)
            self._bindings.run(bound, NO_GRAPH)  # what fails here too is no fault of the capture
            bucket.give_up(error)

    def _compute(self, part: StepPart) -> None:
        """Any sequences, as they are.  The head wants a row even when none is sampled; nobody reads it."""
        step, columns = part.step, self._num_columns(part.step)
        feed = self._fill(step, step.num_tokens, step.num_seqs, padded_columns(columns), None)
        longest = 1 << (int(np.diff(step.starts).max()) - 1).bit_length()
        self._eager.bounds[:] = longest, columns * self.block_tokens, step.max_context
        rows = self._logits[part.first_logit : part.first_logit + max(step.num_logits, 1)]
        self._bindings.fill(self._eager, feed, rows)
        self._bindings.run(self._eager, NO_GRAPH)

    def _num_columns(self, step: Step) -> int:
        """Blocks of the longest context; a table may be wider than its sequences reach yet."""
        return -(-step.max_context // self.block_tokens)

    def _fill(
        self, step: Step, tokens: int, sequences: int, columns: int, into: StepInputs | None
    ) -> StepInputs:
        scratch = self._bindings.cache.scratch
        return self._steps.bind(step, self.block_tokens, tokens, sequences, columns, scratch, into=into)

    # Faults and facts

    @contextmanager
    def _loading(self, what: str) -> Iterator[None]:
        try:
            yield
        except (DeviceError, *RUNTIME_ERRORS) as error:
            raise_if_lost(self._device, error)
            raise ModelError(f"{self._device.name} cannot take {what}: {words(error)}") from error

    def describe(self) -> Mapping[str, str]:
        return self._facts | {"graphs": str(self._buckets.num_captured)}

    def _read_facts(self, lowered: LoweredDecoder) -> dict[str, str]:
        return {
            "engine": f"onnxruntime {version()}",
            "device": self._device.name,
            "precision": lowered.element_type,
            "kv_cache": lowered.kv_cache,
            "block_tokens": str(self.block_tokens),
            "block_bytes": str(self.block_bytes),
        }

    def close(self) -> None:
        """Free the model, its graphs and the cache; a second call, by a sharer, does nothing."""
        with CAPTURE_LOCK.calls():
            self._bound.clear()
            self._forget("_eager", "_bindings", "_session", "_steps", "_logits", "ops", "_device")

    def _forget(self, *names: str) -> None:
        for name in names:
            vars(self).pop(name, None)
