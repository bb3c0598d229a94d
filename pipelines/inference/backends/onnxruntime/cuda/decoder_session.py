"""Runs a decoder in Braid's ONNX format on an NVIDIA GPU, one packed step at a time.

Only ids and tables are uploaded, only the chosen tokens are downloaded; model, cache and logits stay on the
device, on one stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ops.cuda.device import Array, Device, DeviceError
from ops.cuda.sampling import CudaSamplingOps
from ops.cuda.step_inputs import StepInputBuffers, StepInputs, new_step_inputs
from pipelines.adapters.weights import BASE, AdapterRoom, AdapterWeights, LinearShape
from pipelines.inference.backends.onnxruntime.cuda.adapter_pools import EVERY, AdapterPools
from pipelines.inference.backends.onnxruntime.cuda.bindings import (
    CallInputs,
    SessionBinding,
    SessionBindings,
    SessionPools,
)
from pipelines.inference.backends.onnxruntime.cuda.cuda_graphs import (
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
from pipelines.inference.backends.onnxruntime.cuda.device_faults import raise_if_lost
from pipelines.inference.backends.onnxruntime.cuda.kv_cache import OnnxCudaCache, OnnxCudaCacheLayout
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import LoweredDecoder
from pipelines.inference.backends.onnxruntime.cuda.provider import DecoderRuntime
from pipelines.inference.backends.onnxruntime.cuda.state_library import state_library
from pipelines.inference.backends.onnxruntime.cuda.states import OnnxCudaStates, StateKernels
from pipelines.inference.backends.onnxruntime.cuda.step_parts import PartLimits, StepPart, split_step
from pipelines.inference.backends.onnxruntime.cuda.warmup_steps import (
    attention_bounds,
    largest_steps,
    warmup_step,
)
from pipelines.inference.backends.onnxruntime.runtime import RUNTIME_ERRORS, error_text, version
from pipelines.inference.contracts.decoder_contract import NO_STEP_TIMES
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.contracts.step import Step

CACHE_SHARE = 0.9
"""The cache's part of the memory that is free after the largest steps; the rest is for CUDA graphs and
fragmentation.
"""


class OnnxCudaSession:
    """One decoder, its cache, its adapters and its CUDA graphs (`DecoderSession`).  Raises `ModelError`.

    A step that only decodes is padded to a bucket; once the bucket's graph is captured, the step replays it.
    Any other step is computed in one call, so that weights are read once for prompt chunks and decoding
    sequences.

    A step that raises invalidates only the blocks that it wrote to; a fault from which the device does not
    recover is a `DeviceLost`.  One thread may load and another run: ONNX Runtime stores captured graphs per
    thread, so all runs, and `warm`, are on the same thread.
    """

    can_swap = True
    step_times_s = NO_STEP_TIMES
    shape_change_s = 0.0
    ops: CudaSamplingOps
    _session: ort.InferenceSession
    _step_inputs: StepInputBuffers  # from here on: since `reserve`
    _logits: Array  # float32[most rows, vocab]
    _pools: AdapterPools
    _bindings: SessionBindings
    _eager: SessionBinding

    def __init__(
        self,
        lowered: LoweredDecoder,
        device: Device,
        runtime: DecoderRuntime,
        room: AdapterRoom | None = None,
    ) -> None:
        """`room`: where linear layers of the graph have room for adapters, for how many."""
        self._layout = OnnxCudaCacheLayout(lowered.layers, lowered.block_tokens, lowered.element)
        self.shape = ModelShape(
            vocab_size=lowered.vocab_size,
            max_context=lowered.max_context,
            block_tokens=lowered.block_tokens,
            block_bytes=self._layout.block_bytes,
            state_bytes=sum(4 * math.prod(shape) for shape in lowered.state_shapes),
        )
        self._state_shapes = lowered.state_shapes
        self._columns = padded_columns(-(-lowered.max_context // lowered.block_tokens))
        self._limits = PartLimits(
            MAX_BATCH, self._columns * lowered.block_tokens if lowered.gathers else None
        )
        self._adapted, self._room = lowered.adapted, room
        self.linears = {
            linear.name: LinearShape(linear.size_in, linear.size_out) for linear in lowered.adapted
        }
        self._device, self._runtime = device, runtime
        with CAPTURE_LOCK.device_calls():
            self._session, graphs = runtime.open(lowered)
            self.ops = CudaSamplingOps(device)
            self._kernels = StateKernels(device, state_library()) if self._state_shapes else None
        self._buckets = GraphBuckets(enabled=graphs)
        self._bound: dict[GraphShape, SessionBinding] = {}
        self._facts = self._read_facts(lowered)

    # Memory

    def reserve(self, max_tokens: int, max_sequences: int, max_scored: int = 0) -> int:
        """Compute the largest steps over a cache of one block: ONNX Runtime retains the workspaces it
        allocates.

        Raises `ModelError` when they cannot be computed, usually for lack of memory.
        """
        self._max_sequences = max_sequences
        rows = max_sequences + MAX_PADDING
        what = f"a step of {max_tokens} tokens and {max_sequences} sequences"
        if self._room is not None:
            what += f", and {self._room.max_loaded} adapters of rank {self._room.max_rank} (`adapters`)"
        with CAPTURE_LOCK.device_calls(), self._loading(what):
            self._step_inputs = StepInputBuffers(self._device, max_tokens, rows, self._columns)
            self._logits = self._device.empty((rows + max_scored + 1, self.shape.vocab_size), np.float32)
            self._pools = AdapterPools(self._device, self._adapted, self._room)
            self._place_cache(0)
            sizes = max_tokens, max_sequences, max_scored
            for adapter in (EVERY, BASE) if self.linears else (BASE,):
                for step in largest_steps(*sizes, self.shape.max_context, self._columns, adapter):
                    for part in split_step(step, self._limits):
                        self._compute(part)
            self.ops.reserve(rows + max_scored, self.shape.vocab_size)
            self._device.synchronize()
            free, _ = self._device.free_bytes()
        return int(free * CACHE_SHARE)

    def allocate(self, num_blocks: int, num_host_blocks: int = 0, num_states: int = 0) -> None:
        with (
            CAPTURE_LOCK.device_calls(),
            self._loading(
                f"a cache of {num_blocks} blocks, {num_host_blocks} on the host, {num_states} states"
            ),
        ):
            self._place_cache(num_blocks, num_host_blocks, num_states)
            self._device.synchronize()

    def _place_cache(self, num_blocks: int, num_host_blocks: int = 0, num_states: int = 0) -> None:
        self._drop("_bindings", "_eager")  # with their cache, before the next is made
        self._bound.clear()
        cache = OnnxCudaCache(self._device, self._layout, num_blocks, num_host_blocks)
        states = OnnxCudaStates(self._device, self._state_shapes, num_states)
        kernels = None if self._kernels is None else self._kernels.number
        pools = SessionPools(cache, states, self._pools, kernels)
        self._bindings = SessionBindings(self._session, self._runtime, self._device, pools)
        self._eager = self._bindings.new()

    # Steps

    def run(self, step: Step) -> Any:
        with self._checked():
            self._bindings.cache.move(step)
            for part in split_step(step, self._limits):
                if part.decodes and part.first_logit % MAX_BATCH == 0:
                    self._decode(part.step, self._shape_of(part))
                else:
                    self._compute(part)
        return self._logits[: step.num_logits]

    def warm(self) -> bool:
        """Capture the graph of one more common shape; return whether more are left.

        For the thread that runs steps, while no step runs: the first step of a shape is several times slower.
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
        columns, rank = self._num_columns(step), self._pools.rows_of(step.adapters).rank
        return GraphShape(padded_batch(step.num_seqs), padded_columns(columns), part.first_logit, rank)

    def _decode(self, step: Step, shape: GraphShape) -> None:
        """Compute one logit row for each sequence, in the step's bucket."""
        bound = self._bound.get(shape) or self._bind(shape)
        self._fill(step, shape.batch, shape.batch, shape.columns, bound.inputs)
        self._pools.fill(step.adapters, step.starts, shape.batch, bound.adapters)
        self._bindings.states.fill(step, shape.batch, bound.state_steps)
        self._replay(bound, self._buckets.of(shape))

    def _bind(self, shape: GraphShape) -> SessionBinding:
        """Allocate the shape's own arrays and bindings, whose addresses never change."""
        batch, columns, first_row, rank = shape
        bound = self._bindings.new()
        bound.bounds[:] = attention_bounds(shape, self.shape.block_tokens)
        inputs = new_step_inputs(self._device, batch, batch, columns, batch)
        adapters = self._pools.new_inputs(batch, rank)
        call = CallInputs(inputs, adapters, self._bindings.states.new_steps(batch))
        self._bindings.fill(bound, call, self._logits[first_row : first_row + batch])
        self._bound[shape] = bound
        return bound

    def _replay(self, bound: SessionBinding, bucket: GraphBucket) -> None:
        """Replay the bucket's graph, capture it, or compute without a graph when it cannot be captured
        now.
        """
        if not bucket.captures:
            self._bindings.run(bound, bucket.graph_id)
            return
        with CAPTURE_LOCK.try_capture() as granted:
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
            bucket.disable(error)

    def _compute(self, part: StepPart) -> None:
        """Compute any sequences without a graph.  The head needs at least one row; without samples it is
        discarded.
        """
        step, columns = part.step, self._num_columns(part.step)
        inputs = self._fill(step, step.num_tokens, step.num_seqs, padded_columns(columns), into=None)
        adapters = self._pools.fill(step.adapters, step.starts, step.num_tokens)
        longest = 1 << (int(np.diff(step.starts).max()) - 1).bit_length()
        self._eager.bounds[:] = longest, columns * self.shape.block_tokens, step.max_context
        rows = self._logits[part.first_logit : part.first_logit + max(step.num_logits, 1)]
        call = CallInputs(inputs, adapters, self._bindings.states.fill(step, step.num_seqs))
        self._bindings.fill(self._eager, call, rows)
        self._bindings.run(self._eager, NO_GRAPH)

    def _num_columns(self, step: Step) -> int:
        """Blocks of the longest context; the table may be wider."""
        return -(-step.max_context // self.shape.block_tokens)

    def _fill(
        self, step: Step, tokens: int, sequences: int, columns: int, into: StepInputs | None
    ) -> StepInputs:
        scratch, block_tokens = self._bindings.cache.scratch, self.shape.block_tokens
        return self._step_inputs.bind(step, block_tokens, tokens, sequences, columns, scratch, into=into)

    # Blocks

    def read_block(self, block: int) -> NDArray[np.uint8]:
        with self._checked():
            return self._bindings.cache.read_block(block)

    def write_block(self, block: int, content: NDArray[np.uint8]) -> None:
        with self._checked():
            self._bindings.cache.write_block(block, content)

    # Adapters

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        self._pools.put(number, weights)

    def drop_adapter(self, number: int) -> None:
        if "_pools" in vars(self):  # a call may end after the session was closed
            self._pools.drop(number)

    # Faults and facts

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise_if_lost(self._device, error)
            raise

    @contextmanager
    def _loading(self, what: str) -> Iterator[None]:
        try:
            yield
        except (DeviceError, *RUNTIME_ERRORS) as error:
            raise_if_lost(self._device, error)
            raise ModelError(f"{self._device.name} cannot take {what}: {error_text(error)}") from error

    def describe(self) -> Mapping[str, str]:
        return self._facts | {"graphs": str(self._buckets.num_captured)}

    def _read_facts(self, lowered: LoweredDecoder) -> dict[str, str]:
        return {
            "engine": f"onnxruntime {version()}",
            "device": self._device.name,
            "precision": lowered.element_type,
            "kv_cache": lowered.kv_cache,
            "block_tokens": str(self.shape.block_tokens),
            "block_bytes": str(self.shape.block_bytes),
        } | ({"state_bytes": str(self.shape.state_bytes)} if self._state_shapes else {})

    def close(self) -> None:
        """Free the model, its graphs and the cache; a second call has no effect."""
        with CAPTURE_LOCK.device_calls():
            self._bound.clear()
            if "_session" in vars(self) and self._kernels is not None:
                self._kernels.close()
            self._drop(
                "_eager", "_bindings", "_session", "_step_inputs", "_logits", "_pools", "ops", "_device"
            )

    def _drop(self, *names: str) -> None:
        for name in names:
            vars(self).pop(name, None)
