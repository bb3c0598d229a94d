"""A decoder that is compiled again for one size of a step, while its server already answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Thread
from typing import Any, NamedTuple

import openvino as ov

from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.device_properties import compile_for
from pipelines.inference.backends.openvino.decoder.read_decoder import ReadDecoder
from pipelines.inference.backends.openvino.model.lm_head import LOGITS_INPUT
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.inference.backends.openvino.paging.paged_attention import STATE_INPUT, last_line
from pipelines.inference.contracts.device_errors import ModelError

log = logging.getLogger(__name__)

MOMENT_S = 0.05
"""How long idle time waits for a model before it looks whether there is something else to do."""


class StepSize(NamedTuple):
    """The size of a step, from which those of all results of a graph follow but blocks and states."""

    tokens: int
    sequences: int
    logit_rows: int


SEQUENCES = (1, 2, 3, 4, 8)
"""How many sequences, of one token each, the steps have that get a graph of their own.  Where a decoder has
30 layers the first takes about 50 MB, each other 20, and a second of a thread.
"""


class FixedModel:
    """A paged decoder that is compiled again, for one size of a step, by a thread of its own.

    Weights that operators of the kernels have packed are those of the model; others are packed once more.
    """

    def __init__(
        self,
        model: ov.Model,
        size: StepSize,
        device: str,
        properties: dict[str, Any],
        files: Sequence[MappedFile] = (),
    ) -> None:
        """`properties`: those that the model itself was compiled with; `files`: what its weights are read
        from.
        """
        self.size = size
        self.compiled: ov.CompiledModel | None = None
        """None before it is ready, and where OpenVINO refuses the model in this size."""
        self._model, self._files = model, files
        self._device, self._properties = device, properties
        self._thread: Thread | None = None
        self._is_wanted = True

    def is_ready(self) -> bool:
        """Whether the compilation has ended; the first call begins it, each waits a moment for it."""
        if self._thread is None:
            self._thread = Thread(target=self._compile, name="fixed-size")
            self._thread.start()
        self._thread.join(MOMENT_S)
        return not self._thread.is_alive()

    def drop(self) -> None:
        """The model is not needed any more: what has begun is not waited for, and its result let go."""
        self._is_wanted = False

    def _compile(self) -> None:
        try:
            fixed = self._of_size()
            if self._is_wanted:
                compiled = compile_for(fixed, self._device, self._properties)
                self.compiled = compiled if self._is_wanted else None
        except (RuntimeError, ModelError) as error:
            log.info(
                "OpenVINO has no graph for steps of %d tokens alone: %s", self.size.tokens, last_line(error)
            )
        self._files = ()

    def _of_size(self) -> ov.Model:
        """A copy whose tokens, sequences and rows are as many; blocks of a sequence stay free."""
        begins = self.size.sequences + 1
        fixed = {
            **dict.fromkeys(("input_ids", "position_ids"), self.size.tokens),
            **dict.fromkeys(("subsequence_begins", "block_indices_begins"), begins),
            "past_lens": self.size.sequences,
            LOGITS_INPUT: self.size.logit_rows,
        }
        copy = self._model.clone()
        shapes = {}
        for port in copy.inputs:
            length, shape = fixed.get(port.any_name), port.get_partial_shape()
            shapes[port] = shape if length is None or len(shape) != 1 else ov.PartialShape([length])
        copy.reshape(shapes)
        return copy


def fixed_models(
    read: ReadDecoder, settings: OpenVINOSettings, properties: dict[str, Any]
) -> list[FixedModel]:
    """The decoder for steps of a token for each of a few sequences, where the kernels compute what has large
    weights: OpenVINO would pack these once more.  Hybrids have none: keys with rotary positions in a part of
    their numbers differ in the last bit.
    """
    has_states = any(STATE_INPUT.fullmatch(name) for port in read.model.inputs for name in port.get_names())
    has_more_inputs = read.linears or read.embedded.embeds_size or read.frames is not None or has_states
    if has_more_inputs or settings.headless or not read.block_linears.sums_rows_alike:
        return []
    sizes = (StepSize(count, count, count) for count in SEQUENCES)
    return [FixedModel(read.model, size, settings.device, properties, read.files) for size in sizes]
