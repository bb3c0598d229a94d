"""Binds inputs and outputs of an ONNX Runtime session by address: cache, adapters, step inputs, logits."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ops.cuda.device import Array, Device
from ops.cuda.step_inputs import StepInputs
from pipelines.inference.backends.onnxruntime.cuda.adapter_pools import AdapterPools, StepAdapters
from pipelines.inference.backends.onnxruntime.cuda.kv_cache import OnnxCudaCache
from pipelines.inference.backends.onnxruntime.cuda.provider import DecoderRuntime
from pipelines.inference.backends.onnxruntime.cuda.states import OnnxCudaStates
from pipelines.inference.backends.onnxruntime.step_input_names import METADATA, STATE_KERNELS, STATE_STEPS
from pipelines.onnx_format.decoder_format import LOGITS

INPUT_TYPES = {
    "input_ids": np.int64,
    "position_ids": np.int64,
    "cumulative_sequence_length": np.int32,
    "past_seqlens": np.int32,
    "block_table": np.int32,
    "slot_mapping": np.int32,
    "logits_indices": np.int64,
}
"""Inputs of a lowered graph for a step: the fields of `StepInputs`, and their types."""


@dataclass(eq=False)
class SessionBinding:
    """One set of bindings.  It holds everything that is bound: ONNX Runtime stores only addresses.

    `bounds`, int32[3], is attention_metadata: in host memory, read whenever the operator is enqueued.
    """

    binding: ort.IOBinding
    bounds: Any
    inputs: StepInputs | None = None
    adapters: StepAdapters | None = None
    state_steps: Array | None = None
    logits: Array | None = None


class SessionPools(NamedTuple):
    """The memory that all calls of a session share; `kernels`, int32[1], is the number by which operators
    find those of states, None where there are none.
    """

    cache: OnnxCudaCache
    states: OnnxCudaStates
    adapters: AdapterPools
    kernels: NDArray[np.int32] | None


class CallInputs(NamedTuple):
    """What a call reads beside the pools, on the device; `state_steps` None: the model has no states."""

    inputs: StepInputs
    adapters: StepAdapters
    state_steps: Array | None


class SessionBindings:
    """Creates and fills the bindings of one session over one cache, its states and its adapters."""

    def __init__(
        self,
        session: ort.InferenceSession,
        runtime: DecoderRuntime,
        device: Device,
        pools: SessionPools,
    ) -> None:
        self._session = session
        self._device = device
        self.cache, self.states, self._kernels = pools.cache, pools.states, pools.kernels
        self._pools = pools.adapters
        self._place = runtime.memory, runtime.number
        self._inputs = {value.name for value in session.get_inputs()}
        self._outputs = {value.name for value in session.get_outputs()}

    def new(self) -> SessionBinding:
        """Bindings to the cache and the adapters, with `bounds`; inputs and logits are bound by `fill`."""
        bound = SessionBinding(self._session.io_binding(), np.zeros(3, np.int32))
        element = self.cache.element.number
        for name, pool in self.cache.pools.items():
            where = (*self._place, element, pool.shape, self._device.pointer(pool))
            bound.binding.bind_input(name, *where)
            written = name.replace(".", "_out.")  # of graphs that do not write to their inputs
            if written in self._outputs:
                bound.binding.bind_output(written, *where)
        for name, pool in self._pools.arrays.items():
            self._bind(bound, name, self._pools.elements[name], pool)
        for name, rows in self.states.arrays.items():
            self._bind(bound, name, np.float32, rows)
        if self._kernels is not None:
            bound.binding.bind_input(STATE_KERNELS, "cpu", 0, np.int32, [1], self._kernels.ctypes.data)
        return bound

    def fill(self, bound: SessionBinding, call: CallInputs, logits: Array) -> None:
        """Bind the inputs of a call, the present values of `bounds`, and the output `logits`, float32[rows,
        vocab].
        """
        inputs, adapters, steps = call
        bound.inputs, bound.logits = inputs, logits
        if METADATA in self._inputs:
            bound.binding.bind_input(METADATA, "cpu", 0, np.int32, [3], bound.bounds.ctypes.data)
        for name in INPUT_TYPES.keys() & self._inputs:
            self._bind(bound, name, INPUT_TYPES[name], getattr(inputs, name))
        if self._pools.arrays and adapters is not bound.adapters:
            bound.adapters = adapters
            for name, array in adapters.inputs.items():
                self._bind(bound, name, np.int32, array)
        if steps is not None and steps is not bound.state_steps:
            bound.state_steps = steps
            self._bind(bound, STATE_STEPS, np.int32, steps)
        bound.binding.bind_output(
            LOGITS, *self._place, np.float32, logits.shape, self._device.pointer(logits)
        )

    def _bind(self, bound: SessionBinding, name: str, element: Any, array: Array) -> None:
        bound.binding.bind_input(name, *self._place, element, array.shape, self._device.pointer(array))

    def run(self, bound: SessionBinding, graph_id: int) -> None:
        """Enqueue a run; returns before it is computed."""
        self._session.run_with_iobinding(bound.binding, run_options(graph_id))


@functools.cache
def run_options(graph_id: int) -> ort.RunOptions:
    """Options of one run: the id of its graph (-1 for none), and no synchronization with the device."""
    options = ort.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(graph_id))
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    return options
