"""Runs a decoder in Braid's ONNX format on ONNX Runtime's CPU kernels, one packed step at a time."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from ops import numpy_ops
from ops.contract import SamplingOps
from pipelines.adapters.weights import AdapterWeights
from pipelines.inference.backends.adapter_inputs import AdapterInputs, check_linears
from pipelines.inference.backends.cpu_kernels import kernel_library
from pipelines.inference.backends.host_memory import NO_SWAP_SPACE, default_cache_bytes
from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.inference.backends.onnx.lora_embeddings import add_lora_embeddings
from pipelines.inference.backends.onnx.lora_linears import add_lora
from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnx.recurrent import find_recurrent
from pipelines.inference.backends.onnx.routed_output import ROUTED_EXPERTS, add_routed_output
from pipelines.inference.backends.onnxruntime.cpu.image_inputs import ImageInputs
from pipelines.inference.backends.onnxruntime.cpu.kernel_linears import DOMAIN
from pipelines.inference.backends.onnxruntime.cpu.kv_cache import OnnxCpuCache, OnnxCpuCacheLayout
from pipelines.inference.backends.onnxruntime.cpu.lowering import lower_for_cpu
from pipelines.inference.backends.onnxruntime.cpu.model_calls import (
    PLACEHOLDER_INDEX,
    CallCosts,
    ModelCall,
    newly_started_blocks,
    plan_calls,
)
from pipelines.inference.backends.onnxruntime.cpu.recurrent import state_shape
from pipelines.inference.backends.onnxruntime.cpu.states import OnnxCpuStates, StatePart, parts_of
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session, version
from pipelines.inference.backends.onnxruntime.step_input_names import (
    CUMULATIVE,
    FRAME_SLOTS,
    FRAME_TABLE,
    NUM_FRAMES,
    PAST,
    SLOTS,
    TABLE,
)
from pipelines.inference.contracts.decoder_contract import NO_STEP_TIMES
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.contracts.routed_experts import ExpertRecord
from pipelines.inference.contracts.step import NO_STATE, Step
from pipelines.onnx_format.decoder_format import (
    CONTEXT_FRAMES,
    INPUT_IDS,
    LOGITS,
    LOGITS_INDICES,
    POSITION_IDS,
)

log = logging.getLogger(__name__)

ADVICE = dict.fromkeys(
    ("f16", "bf16"),
    " It computes in half precision, for which the CPU lacks kernels; export it with --weights fp32 or int8.",
)
"""Element type → advice added to the error when the model cannot be opened."""

KEY_COST, PAIR_COST = 18.0, 1.5
"""Cost of one number of a gathered key or value, and of one number of a query for each key that it attends
to, relative to reading one byte of weights.  Measured with 83 M float32 weights on one core: 12 ms for
the weights, 2.8 µs for a key of 4096 numbers, 0.2 µs for a query of 4096 and one key.
"""


@dataclass(frozen=True)
class OnnxCpuSettings:
    """`threads` None is one for each core."""

    threads: int | None = None
    block_tokens: int = 16
    targets: frozenset[str] | None = None
    """What adapters may change, as q_proj; none named: all linear layers; None: nothing."""
    routed_experts: str | None = None
    """Whether choices of experts are recorded: "counted", or also "returned" in all replies."""


class OnnxCpuSession:
    """One decoder and its cache (`DecoderSession`).  Raises `ModelError`.

    The cache has one more block than requested.  No sequence uses it: unused entries of block tables point to
    it, and only warm-up writes to it.
    """

    ops: SamplingOps = numpy_ops
    can_swap = False
    step_times_s = NO_STEP_TIMES
    shape_change_s = 0.0
    experts_s = 0.0

    def __init__(self, path: Path, settings: OnnxCpuSettings | None = None) -> None:
        settings = settings or OnnxCpuSettings()
        decoder = read_decoder(path)
        self._state_shapes = [state_shape(node) for node in find_recurrent(decoder.model.graph)]
        self.routed_experts: ExpertRecord | None = None
        if settings.routed_experts is not None:
            routed, is_returned = (
                add_routed_output(decoder.model.graph),
                settings.routed_experts == "returned",
            )
            self.routed_experts = ExpertRecord(routed, settings.block_tokens, is_returned)
        self._layout = OnnxCpuCacheLayout(decoder.layers, settings.block_tokens, decoder.element_type)
        self.shape = ModelShape(
            vocab_size=decoder.vocab_size,
            max_context=decoder.max_context,
            block_tokens=settings.block_tokens,
            block_bytes=self._layout.block_bytes,
            state_bytes=sum(4 * math.prod(shape) for shape in self._state_shapes),
            encoder_hidden_size=decoder.encoder_hidden_size,
            max_encoder_states=decoder.max_frames,
            inputs_embeds_size=decoder.images.embeds_size,
            mrope_axes=decoder.images.mrope_axes,
            whole_images=decoder.images.whole_images,
        )
        self._images = ImageInputs(decoder.images)
        self._costs = _costs(decoder)
        self.linears = {}
        if settings.targets is not None:
            graph = decoder.model.graph
            self.linears = add_lora(graph, settings.targets)
            self.linears |= add_lora_embeddings(graph, settings.targets)
            check_linears(path, self.linears, self.shape.encoder_hidden_size)
        self._adapters = AdapterInputs(self.linears, self._bind)
        self._session: ort.InferenceSession | None
        self._session, linear_layers = _open(path, decoder, settings)
        self._cache: OnnxCpuCache | None = None
        self._binding: ort.IOBinding | None = None
        self._facts = {
            "engine": f"onnxruntime {version()}",
            "device": "cpu",
            "precision": decoder.element_type,
            "kv_cache": decoder.element_type,
            "linear_layers": linear_layers,
            "block_tokens": str(self.shape.block_tokens),
            "block_bytes": str(self.shape.block_bytes),
        }

    def reserve(self, max_tokens: int, max_sequences: int, max_scored: int = 0) -> int:
        return default_cache_bytes()

    def allocate(self, num_blocks: int, num_host_blocks: int = 0, num_states: int = 0) -> None:
        if num_host_blocks:
            raise ValueError(NO_SWAP_SPACE)
        assert self._session is not None
        self._spare_block = num_blocks
        self._cache = OnnxCpuCache(self._layout, num_blocks + 1)
        self._binding = self._session.io_binding()
        self._cache.bind(self._binding)
        if self.routed_experts is not None:
            self.routed_experts.allocate(num_blocks)
        self._states = OnnxCpuStates(self._state_shapes, num_states)
        self._states.bind(self._binding, np.full(1, NO_STATE, np.int32))
        self._adapters.reset()
        self._adapters.none()
        self._logits = np.empty((1, self.shape.vocab_size), np.float32)
        first = _first_call(self._spare_block, self.shape.encoder_hidden_size)
        first.inputs.update(self._images.none())
        self._compute(first)

    def run(self, step: Step) -> NDArray[np.float32]:
        assert self._cache is not None, "run comes between allocate and close"
        if len(step.copies):
            self._cache.copy(step.copies)
        self._cache.clear(newly_started_blocks(step, self.shape.block_tokens))
        if len(self._logits) <= step.num_logits:
            self._logits = np.empty((2 * step.num_logits, self.shape.vocab_size), np.float32)
        routed = None if self.routed_experts is None else self.routed_experts.empty(step.num_tokens)
        for part in parts_of(step):
            for call in plan_calls(part.step, self.shape.block_tokens, self._spare_block, self._costs):
                chosen = self._run_call(part, call, step)
                if routed is not None and chosen is not None:
                    routed[part.tokens[call.tokens]] = chosen
        if self.routed_experts is not None and routed is not None:
            self.routed_experts.record(step, routed)
        return self._logits[: step.num_logits]

    def _run_call(self, part: StatePart, call: ModelCall, step: Step) -> NDArray[np.int32] | None:
        """Compute a call of a part of a step, and store its states.

        Returns the experts that its tokens choose, where they are recorded.
        """
        assert self._binding is not None
        starts, logit_rows = call.inputs[CUMULATIVE], call.inputs[LOGITS_INDICES]
        adapters = step.adapters
        own = adapters[part.sequences[call.sequences]] if len(adapters) else adapters
        call.inputs.update(self._adapters.of(own, starts, int(starts[-1]), logit_rows))
        call.inputs.update(self._images.of(step, part.tokens[call.tokens]))
        if self._state_shapes:
            self._states.bind(self._binding, part.read[call.sequences])
        chosen = self._compute(replace(call, logits=part.logits[call.logits]))
        if self._state_shapes:
            self._states.store(part.written[call.sequences])
        return chosen

    def _compute(self, call: ModelCall) -> NDArray[np.int32] | None:
        """Write the call's logits to their rows; through a copy only when the rows are not contiguous.

        Returns the experts that its tokens choose, where they are recorded.
        """
        assert self._session is not None
        assert self._binding is not None
        rows, count = call.logits, len(call.logits)
        together = count and rows[-1] - rows[0] == count - 1
        shape = [max(count, 1), self.shape.vocab_size]
        into = self._logits[rows[0] :] if together else np.empty(shape, np.float32)
        for name, array in call.inputs.items():
            self._bind(name, array)
        self._binding.bind_output(LOGITS, "cpu", 0, np.float32, shape, into.ctypes.data)
        chosen = None
        if self.routed_experts is not None:
            chosen = self.routed_experts.empty(len(call.inputs[POSITION_IDS]))
            self._binding.bind_output(
                ROUTED_EXPERTS, "cpu", 0, np.int32, list(chosen.shape), chosen.ctypes.data
            )
        self._session.run_with_iobinding(self._binding)
        if count and not together:
            self._logits[rows] = into
        return chosen

    def _bind(self, name: str, array: NDArray[Any]) -> None:
        assert self._binding is not None
        self._binding.bind_cpu_input(name, array)

    def read_block(self, block: int) -> NDArray[np.uint8]:
        assert self._cache is not None, "blocks are there between allocate and close"
        return self._cache.read_block(block)

    def write_block(self, block: int, content: NDArray[np.uint8]) -> None:
        assert self._cache is not None, "blocks are there between allocate and close"
        self._cache.write_block(block, content)
        if self.routed_experts is not None:
            self.routed_experts.clear(block)

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        self._adapters.put(number, weights)

    def drop_adapter(self, number: int) -> None:
        self._adapters.drop(number)

    def warm(self) -> bool:
        """Has no effect: nothing is prepared for a shape."""
        return False

    def describe(self) -> Mapping[str, str]:
        return self._facts

    def close(self) -> None:
        """Free the model and the cache; the properties stay.  A second call has no effect."""
        self._binding = self._session = self._cache = None


def _open(path: Path, decoder: DecoderModel, settings: OnnxCpuSettings) -> tuple[ort.InferenceSession, str]:
    """The session, and what computes its linear layers of few bits."""
    library = kernel_library("onnxruntime")
    if library is not None:
        try:
            return _open_with(path, decoder, settings, library)
        except ModelError as error:
            log.warning("%s is opened without the kernels of %s: %s", path, library, error)
    return _open_with(path, decoder, settings, library=None)


def _open_with(
    path: Path, decoder: DecoderModel, settings: OnnxCpuSettings, library: Path | None
) -> tuple[ort.InferenceSession, str]:
    lowered = lower_for_cpu(decoder, settings.block_tokens, with_kernels=library is not None)
    num_own = sum(node.domain == DOMAIN for node in lowered.graph)
    model = ir.to_proto(lowered).SerializeToString()
    try:
        session = open_session(model, decoder.folder, [CPU], settings.threads, {}, library)
    except ModelError as error:
        raise ModelError(f"{path}: {error}{ADVICE.get(decoder.element_type, '')}") from error
    return session, f"{num_own} by braid kernels, two levels" if num_own else "by onnxruntime"


def _costs(decoder: DecoderModel) -> CallCosts:
    """Costs in bytes read: a call reads the weights; the others are relative to that, see the constants."""
    weights = [value for value in decoder.model.graph.initializers.values() if not _is_looked_up(value)]
    token_numbers = sum(2 * layer.num_kv_heads * layer.head_size for layer in decoder.layers)
    query_numbers = sum(layer.num_heads * layer.head_size for layer in decoder.layers)
    return CallCosts(
        call=float(sum(value.const_value.nbytes for value in weights if value.const_value is not None)),
        key=KEY_COST * token_numbers,
        pair=PAIR_COST * query_numbers,
    )


def _is_looked_up(weights: ir.Value) -> bool:
    """Whether only single rows of the weights are read, as of embeddings."""
    return all(node.op_type.startswith("Gather") for node in weights.consumers())


def _first_call(spare_block: int, encoder_hidden_size: int) -> ModelCall:
    """A call of one token in the spare block, which initializes the session before the first request."""
    nothing = np.zeros(1, np.int32)
    inputs: dict[str, NDArray[Any]] = {
        INPUT_IDS: PLACEHOLDER_INDEX,
        POSITION_IDS: PLACEHOLDER_INDEX,
        CUMULATIVE: np.array([0, 1], np.int32),
        PAST: nothing,
        TABLE: np.array([[spare_block]], np.int32),
        SLOTS: nothing - 1,
        LOGITS_INDICES: PLACEHOLDER_INDEX,
    }
    if encoder_hidden_size:
        inputs[FRAME_TABLE], inputs[NUM_FRAMES] = inputs[TABLE], nothing + 1
        inputs[FRAME_SLOTS], inputs[CONTEXT_FRAMES] = (
            nothing[:0],
            np.zeros((1, 0, encoder_hidden_size), np.float32),
        )
    return ModelCall(inputs, np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))
