"""Runs a decoder on OpenVINO, one packed step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from ops import numpy_ops
from ops.contract import SamplingOps
from pipelines.adapters.weights import AdapterWeights
from pipelines.base.digests import digest
from pipelines.inference.backends.adapter_inputs import AdapterInputs
from pipelines.inference.backends.host_memory import NO_SWAP_SPACE, default_cache_bytes
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.device_properties import (
    checked_properties,
    compile_for,
    whole_cache,
)
from pipelines.inference.backends.openvino.decoder.embedded_tokens import RowInputs
from pipelines.inference.backends.openvino.decoder.fixed_model import fixed_models
from pipelines.inference.backends.openvino.decoder.read_decoder import ReadDecoder, read_decoder
from pipelines.inference.backends.openvino.decoder.step_requests import StepRequests
from pipelines.inference.backends.openvino.decoder.warmup import WarmupSteps
from pipelines.inference.backends.openvino.model.activation_groups import ROUNDING
from pipelines.inference.backends.openvino.model.lm_head import LOGITS_INPUT
from pipelines.inference.backends.openvino.model.mapped_files import release_pages_during
from pipelines.inference.backends.openvino.paging.input_tables import TableLayout
from pipelines.inference.backends.openvino.paging.kv_cache import OpenVINOCache, OpenVINOCacheLayout
from pipelines.inference.backends.openvino.paging.paged_attention import STATE_INPUT
from pipelines.inference.backends.openvino.paging.sparse_prefill import without_middle
from pipelines.inference.backends.openvino.paging.state_tables import NUM_SPARE, StateTables
from pipelines.inference.backends.openvino.paging.step_inputs import (
    StepInputs,
    padded,
    rounded_up,
    step_inputs,
    warmup_inputs,
)
from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.contracts.routed_experts import ExpertRecord, RoutedShape
from pipelines.inference.contracts.step import Step

if TYPE_CHECKING:
    from pipelines.inference.backends.openvino.paging.cross_attention_cache import (
        CrossAttentionCache,
        CrossAttentionModel,
    )
    from pipelines.inference.backends.openvino.paging.cross_attention_inputs import CrossAttentionInputs

NO_PROPERTIES: Mapping[str, Any] = MappingProxyType({})
NO_INPUTS: Mapping[str, NDArray[Any]] = MappingProxyType({})


class OpenVINOSession:
    """One compiled decoder and its cache (`DecoderSession`).

    `path` is an openvino_model.xml as optimum-intel or the OpenVINO organisation exports it, or a model.onnx,
    with its weights and config.json beside it.  Raises `ModelError`.

    OpenVINO repacks weights when it first computes.  The constructor triggers it, so that no request waits
    for it and the cache is sized after it; of the file only the embedding tables stay mapped.  The cache has
    one more block than requested, which no sequence uses: only warm-up steps and padding write to it.
    `first_step` is the digest of the logits of the first warm-up step.

    With the precision f32 no matrix multiplication of OpenVINO has one row only: it sums one row in another
    order than two or more, which all have the same sums.  Braid's own kernels sum each row alike.  So a
    token's logits do not depend on the rest of its step.
    """

    ops: SamplingOps = numpy_ops
    can_swap = False

    def __init__(
        self,
        path: Path,
        settings: OpenVINOSettings | None = None,
        read: ReadDecoder | None = None,
        more_properties: Mapping[str, Any] = NO_PROPERTIES,
    ) -> None:
        """`read`: what is compiled, when the file was read before; `more_properties`: of OpenVINO, with which
        it is.
        """
        settings = settings or OpenVINOSettings()
        own_properties = checked_properties(settings)
        properties = {**own_properties, **more_properties}
        self._max_tokens = 0
        self._retained = settings.retained
        self._library = None if settings.kernels is None else settings.kernels.library
        read = read or read_decoder(path, settings)
        sums_alike = read.block_linears.sums_rows_alike and not read.linears
        self._min_rows = 2 if settings.precision == "f32" and not sums_alike else 1
        self._files = read.files
        self._rows = RowInputs(read.embedded)
        if read.encoder_hidden_size or settings.headless:
            properties["KV_CACHE_PRECISION"] = whole_cache(settings)
        self._later = fixed_models(read, settings, own_properties)
        self._num_spare = max([1, *(fixed.size.sequences for fixed in self._later)])
        with release_pages_during(self._files):
            compiled = compile_for(read.model, settings.device, properties)
            self._compiled: ov.CompiledModel | None = compiled
            self._layout = OpenVINOCacheLayout(compiled)
            self._state_layout = TableLayout(compiled, STATE_INPUT)
            self.shape = self._shape_of(compiled, read)
            self.routed_experts = self._records(read.routed, settings)
            self._facts = self._read_facts(compiled, settings.device)
            self._facts |= read.facts(path, compiled)
            self._requests: StepRequests | None = StepRequests(compiled)
            self._compile_frames(read.frames, settings.device, properties)
            self._place_cache(0)
            self._place_states(0)
            self.linears = read.linears
            self._adapters = AdapterInputs(read.linears, self._requests.give, dtype=read.adapter_dtype)
            self.first_step = digest(self._run_warmup(1, 1).tobytes())
        self._taking: Iterator[bool] | None = None  # a graph for steps of one size, text by text
        self._warmup = WarmupSteps()
        self._has_shapes_left = True  # to warm up

    def _shape_of(self, compiled: ov.CompiledModel, read: ReadDecoder) -> ModelShape:
        return ModelShape(
            vocab_size=compiled.output(0).get_partial_shape()[-1].get_length(),
            max_context=read.max_context,
            block_tokens=self._layout.block_tokens,
            block_bytes=self._layout.row_bytes,
            state_bytes=self._state_layout.row_bytes,
            encoder_hidden_size=read.encoder_hidden_size,
            max_encoder_states=read.max_frames,
            inputs_embeds_size=read.embedded.embeds_size,
            mrope_axes=read.embedded.mrope_axes,
            whole_images=read.embedded.whole_images,
        )

    def _records(self, routed: RoutedShape | None, settings: OpenVINOSettings) -> ExpertRecord | None:
        if routed is None:
            return None
        return ExpertRecord(routed, self.shape.block_tokens, settings.routed_experts == "returned")

    @property
    def experts_s(self) -> float:
        """Seconds of Braid's own kernels for all models of this process, whose steps come one by one."""
        return 0.0 if self._library is None else self._library.experts_s

    def reserve(self, max_tokens: int, max_sequences: int, max_scored: int = 0) -> int:
        self._max_tokens = max_tokens
        self._later = [fixed for fixed in self._later if fixed.size.tokens <= min(max_sequences, max_tokens)]
        num_warm = min(max_sequences, NUM_SPARE) if self.shape.state_bytes else max_sequences
        self._warmup.plan(max_tokens, num_warm)
        return default_cache_bytes()

    def allocate(self, num_blocks: int, num_host_blocks: int = 0, num_states: int = 0) -> None:
        if num_host_blocks:
            raise ValueError(NO_SWAP_SPACE)
        self._place_cache(num_blocks).prefault()
        if self.routed_experts is not None:
            self.routed_experts.allocate(num_blocks)
        self._place_states(num_states)

    def _compile_frames(
        self, frames: CrossAttentionModel | None, device: str, properties: dict[str, Any]
    ) -> None:
        """Compile what computes keys and values of frames, in the form of the compiled decoder's cache."""
        self._cross_attention_cache: CrossAttentionCache | None = None
        self._frames: CrossAttentionInputs | None = None
        if frames is not None:
            from pipelines.inference.backends.openvino.paging.cross_attention_cache import (
                CrossAttentionCache,
                as_blocks,
            )

            compiled = compile_for(as_blocks(frames.model, self._layout), device, properties)
            encoder_hidden_size = self.shape.encoder_hidden_size
            self._cross_attention_cache = CrossAttentionCache(
                compiled, self._layout, encoder_hidden_size, frames.numbers
            )

    def _place_cache(self, num_blocks: int) -> OpenVINOCache:
        """Give the model a new cache of `num_blocks` blocks and the spare ones: one of each sequence of the
        texts that graphs are tried with.
        """
        self._spare_block = num_blocks
        memory = OpenVINOCache(self._layout, num_blocks + self._num_spare)
        assert self._requests is not None
        self._requests.set_tables(memory.tensors)
        self._memory: OpenVINOCache | None = memory
        if self._cross_attention_cache is not None:
            from pipelines.inference.backends.openvino.paging.cross_attention_inputs import (
                CrossAttentionInputs,
            )

            self._frames = CrossAttentionInputs(self._cross_attention_cache, memory, num_blocks + 1)
        return memory

    def _place_states(self, num_states: int) -> None:
        """Give the model new tables for `num_states` recurrent states."""
        assert self._requests is not None
        self._states = StateTables(self._state_layout, num_states)
        self._requests.set_tables(self._states.tensors)

    def run(self, step: Step) -> NDArray[np.float32]:
        assert self._memory is not None, "run comes between allocate and close"
        if len(step.copies):
            self._memory.copy(step.copies)
        if self._frames is not None and step.cross is not None and len(step.cross.new_states):
            self._frames.write(step.cross)
        read = step
        if self._retained is not None:
            read = without_middle(step, self._retained, self.shape.block_tokens)
        inputs = self._padded(step_inputs(read))
        num_tokens, logit_rows = len(inputs["input_ids"]), inputs[LOGITS_INPUT]
        inputs |= self._adapters.of(step.adapters, step.starts, num_tokens, logit_rows)
        inputs |= self._rows.of(step, len(inputs["input_ids"]))
        if self._frames is not None:
            inputs = inputs | self._frames.step_inputs(step, len(inputs["input_ids"]))
        if self.shape.state_bytes:
            num_more = len(inputs["past_lens"]) - step.num_seqs
            inputs = inputs | self._states.step_inputs(step, num_more)
        logits = self._infer(inputs)[: step.num_logits]
        if self.routed_experts is not None:
            assert self._requests is not None
            self.routed_experts.record(step, self._requests.output(1)[: step.num_tokens])
        return logits

    def _padded(self, inputs: StepInputs) -> StepInputs:
        """The inputs of one of the few sizes that kernels are compiled for, at most `max_tokens` wide."""
        tokens, rows = len(inputs["input_ids"]), len(inputs[LOGITS_INPUT])
        num_tokens = max(self._min_rows, min(rounded_up(tokens), max(self._max_tokens, tokens)))
        num_rows = max(self._min_rows, rounded_up(rows))
        return padded(inputs, num_tokens, num_rows, self._spare_block, self.shape.block_tokens)

    def _infer(self, inputs: StepInputs) -> NDArray[np.float32]:
        """float32[rows gathered, vocab]."""
        assert self._requests is not None
        self._requests.infer(inputs)
        return self._requests.output(0).reshape(-1, self.shape.vocab_size)

    def warm(self) -> bool:
        """Run one more shape of steps, the first of which takes longer; return whether more are left."""
        assert self._memory is not None, "warm comes between allocate and close"
        if self._taking is not None:
            if not next(self._taking, False):
                self._taking = None
            return True
        if self._later and (self._later[0].size.sequences == 1 or not self._has_shapes_left):
            self._take_next()
            return True
        if self._has_shapes_left:
            self._has_shapes_left = self._warmup.run_next(self._run_warmup)
        is_more_left = self._has_shapes_left or bool(self._later)
        if not is_more_left:
            self._release_files()
        return is_more_left

    def _take_next(self) -> None:
        """Begin to try the graph of the next size, if it is compiled.  What changes of shape cost is timed
        before steps of several sequences have graphs of their own.
        """
        if self._later[0].is_ready():
            assert self._requests is not None
            fixed = self._later.pop(0)
            self._taking = self._requests.take(fixed, self._texts_of_two_tokens(fixed.size.sequences))

    @property
    def step_times_s(self) -> Mapping[int, float]:
        return self._warmup.step_times_s

    @property
    def shape_change_s(self) -> float:
        return self._warmup.shape_change_s

    def _texts_of_two_tokens(self, count: int) -> Iterator[Callable[[], NDArray[np.float32]]]:
        """Steps of `count` texts, whose second tokens read what the first have written, at some places."""
        last = self.shape.max_context - 1
        for token, place in ((0, 0), (1, 3), (self.shape.vocab_size // 2, last - 1)):
            tokens, places = token + np.arange(count), place + np.arange(count)
            yield partial(self._run_two_tokens, tokens % self.shape.vocab_size, places % last)

    def _run_two_tokens(self, tokens: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The logits of the second of two tokens of each text, each in a step of its own, in spare blocks."""
        count = len(tokens)
        blocks = np.arange(self._spare_block, self._spare_block + count, dtype=np.int32)
        first: dict[str, NDArray[Any]] = {
            "input_ids": tokens,
            "position_ids": places,
            "block_indices": blocks,
        }
        self._run_warmup(count, 1, first)
        second: dict[str, NDArray[Any]] = {
            "input_ids": (tokens + 1) % self.shape.vocab_size,
            "position_ids": places + 1,
            "block_indices": blocks,
            "past_lens": np.ones(count, np.int32),
            "max_context_len": np.array(2, np.int32),
        }
        return self._run_warmup(count, 1, second).copy()

    def _release_files(self) -> None:
        """Release pages of weights: some processors want them packed anew for wide steps, and read them
        again.
        """
        for file in self._files:
            file.release_pages()

    def _run_warmup(
        self, num_seqs: int, num_tokens: int, others: Mapping[str, NDArray[Any]] = NO_INPUTS
    ) -> NDArray[np.float32]:
        """Run a warm-up step in the spare block; return its logits, which the next step overwrites.

        `others`: inputs in place of those of such a step.
        """
        inputs = warmup_inputs(num_seqs, num_tokens, self._spare_block, self.shape.block_tokens)
        inputs |= self._rows.none | self._adapters.none()
        if self._frames is not None:
            inputs = inputs | self._frames.warmup_inputs(num_seqs * num_tokens)
        if self.shape.state_bytes:
            inputs = inputs | self._states.warmup_inputs(num_seqs)
        return self._infer(inputs | dict(others))

    def read_block(self, block: int) -> NDArray[np.uint8]:
        assert self._memory is not None, "blocks are there between allocate and close"
        return self._memory.read_row(block)

    def write_block(self, block: int, content: NDArray[np.uint8]) -> None:
        assert self._memory is not None, "blocks are there between allocate and close"
        self._memory.write_row(block, content)
        if self.routed_experts is not None:
            self.routed_experts.clear(block)

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        self._adapters.put(number, weights)

    def drop_adapter(self, number: int) -> None:
        self._adapters.drop(number)

    def describe(self) -> Mapping[str, str]:
        return self._facts

    def _read_facts(self, compiled: ov.CompiledModel, device: str) -> dict[str, str]:
        return {
            "engine": f"openvino {ov.__version__.split('-')[0]}",
            "device": device,
            "precision": compiled.get_property("INFERENCE_PRECISION_HINT").to_string(),
            "activation_group": str(compiled.get_property(ROUNDING)),
            "sparse_prefill": "none" if self._retained is None else "{}+{}".format(*self._retained),
            "kv_cache": self._layout.element_type,
            "block_tokens": str(self.shape.block_tokens),
            "block_bytes": str(self.shape.block_bytes),
            "state_bytes": str(self.shape.state_bytes),
        }

    def close(self) -> None:
        """Free the model and the cache; the properties stay.  A second call has no effect."""
        self._requests = self._compiled = self._memory = self._cross_attention_cache = self._frames = None
        self._adapters = AdapterInputs({}, lambda name, array: None)
        for fixed in self._later:
            fixed.drop()
        self._later, self._taking = [], None
        self._states = StateTables(self._state_layout, 0)
        self._files = []  # which the compiled model was reading
