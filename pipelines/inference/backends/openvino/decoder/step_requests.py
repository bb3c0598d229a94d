"""The requests of a decoder's steps: one for steps of any size, and others for the sizes that come most.

OpenVINO finds the shapes of all results anew at each step of a graph whose sizes may change, node by node.
That takes a tenth of a step of one token, so a graph is also compiled for that size alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from pipelines.inference.backends.openvino.decoder.device_properties import compile_for
from pipelines.inference.backends.openvino.decoder.request_inputs import RequestInputs
from pipelines.inference.backends.openvino.model.arrays import inference_of
from pipelines.inference.backends.openvino.model.lm_head import LOGITS_INPUT
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.inference.backends.openvino.paging.paged_attention import last_line
from pipelines.inference.backends.openvino.paging.step_inputs import StepInputs
from pipelines.inference.contracts.device_errors import ModelError

log = logging.getLogger(__name__)


MOMENT_S = 0.05
"""How long idle time waits for a model before it looks whether there is something else to do."""


class StepSize(NamedTuple):
    """What the sizes of a step's results follow from."""

    tokens: int
    sequences: int
    logit_rows: int


ONE_TOKEN = StepSize(1, 1, 1)


def size_of(inputs: Mapping[str, NDArray[Any]]) -> StepSize:
    """The size of a step with these inputs."""
    return StepSize(len(inputs["input_ids"]), len(inputs["past_lens"]), len(inputs[LOGITS_INPUT]))


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
        """A copy whose inputs of tokens, sequences and rows have the size; blocks of a sequence stay free."""
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


class StepRequest:
    """A request of a compiled decoder, and what it reads."""

    def __init__(self, compiled: ov.CompiledModel) -> None:
        self.request = compiled.create_infer_request()
        ports = {port.any_name: index for index, port in enumerate(compiled.inputs)}
        self.inputs = RequestInputs(self.request, ports)
        self._infer = inference_of(compiled)

    def infer(self, inputs: StepInputs) -> None:
        self.inputs.write(inputs)
        self._infer(self.request)


class StepRequests:
    """Runs each step by the request of its size, or else by that for any size; all read the same tables."""

    def __init__(self, compiled: ov.CompiledModel) -> None:
        self._any_size = self._last = StepRequest(compiled)
        self._of_size: dict[StepSize, StepRequest] = {}
        self._tables: dict[str, ov.Tensor] = {}

    def add(self, size: StepSize, compiled: ov.CompiledModel) -> None:
        """Let steps of a size run by a model that was compiled for it."""
        request = self._of_size[size] = StepRequest(compiled)
        for name, tensor in self._tables.items():
            request.request.set_tensor(name, tensor)

    def remove(self, size: StepSize) -> None:
        """Let steps of a size run as any others again."""
        self._of_size.pop(size, None)
        self._last = self._any_size

    def set_tables(self, tables: Mapping[str, ov.Tensor]) -> None:
        """Give all requests what they read and write in place, as blocks of keys and values."""
        self._tables.update(tables)
        for request in (self._any_size, *self._of_size.values()):
            for name, tensor in tables.items():
                request.request.set_tensor(name, tensor)

    def give(self, name: str, array: NDArray[Any]) -> None:
        """Steps of any size read the array, until they get another one."""
        self._any_size.inputs.give(name, array)

    def infer(self, inputs: StepInputs) -> None:
        self._last = self._of_size.get(size_of(inputs), self._any_size) if self._of_size else self._any_size
        self._last.infer(inputs)

    def output(self, number: int) -> NDArray[Any]:
        """A result of the last step, which the next one overwrites."""
        found: NDArray[Any] = np.asarray(self._last.request.get_output_tensor(number).data)
        return found
