"""The requests of a decoder's steps: one for steps of any size, and others for the sizes that come most.

OpenVINO finds the shapes of all results anew at each step of a graph whose sizes may change, node by node.
That takes a tenth of a step of few tokens, so graphs are also compiled for some sizes alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from pipelines.inference.backends.openvino.decoder.fixed_model import FixedModel, StepSize
from pipelines.inference.backends.openvino.decoder.request_inputs import RequestInputs
from pipelines.inference.backends.openvino.model.arrays import inference_of
from pipelines.inference.backends.openvino.model.lm_head import LOGITS_INPUT
from pipelines.inference.backends.openvino.paging.paged_attention import last_line
from pipelines.inference.backends.openvino.paging.step_inputs import StepInputs

log = logging.getLogger(__name__)


def size_of(inputs: Mapping[str, NDArray[Any]]) -> StepSize:
    """The size of a step with these inputs."""
    return StepSize(len(inputs["input_ids"]), len(inputs["past_lens"]), len(inputs[LOGITS_INPUT]))


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
        self._tried: list[StepRequest] = []  # which may become one of a size
        self._tables: dict[str, ov.Tensor] = {}

    @property
    def last(self) -> ov.InferRequest:
        """What ran the last step."""
        return self._last.request

    def take(self, fixed: FixedModel, texts: Iterable[Callable[[], NDArray[np.float32]]]) -> Iterator[bool]:
        """Let steps of a size run by the model that was compiled for it, where it gives the same logits.

        Each of `texts` runs some steps of that size one after the other, and returns the last one's logits in
        an array of its own.  After each that is alike this yields True, and other steps may run.
        """
        if fixed.compiled is None:
            return
        try:
            request = StepRequest(fixed.compiled)
            self._tried.append(request)
            for name, tensor in self._tables.items():
                request.request.set_tensor(name, tensor)
            for text in texts:
                if not self._is_alike(fixed.size, request, text):
                    log.info(
                        "steps of %d tokens have no graph of their own: it gives others", fixed.size.tokens
                    )
                    return
                yield True
            self._of_size[fixed.size] = request
        except RuntimeError as error:
            log.info("steps of %d tokens have no graph of their own: %s", fixed.size.tokens, last_line(error))
        finally:
            self._tried.clear()

    def _is_alike(
        self, size: StepSize, request: StepRequest, text: Callable[[], NDArray[np.float32]]
    ) -> bool:
        """Whether a text has the same logits by a request as by that for any size."""
        expected = text()
        self._of_size[size] = request
        try:
            return np.array_equal(text(), expected)
        finally:
            del self._of_size[size]
            self._last = self._any_size

    def set_tables(self, tables: Mapping[str, ov.Tensor]) -> None:
        """Give all requests what they read and write in place, as blocks of keys and values."""
        self._tables.update(tables)
        for request in (self._any_size, *self._of_size.values(), *self._tried):
            for name, tensor in tables.items():
                request.request.set_tensor(name, tensor)

    def give(self, name: str, array: NDArray[Any]) -> None:
        """Steps read the array until they get another one.

        Only the request for any size does: a model that takes such arrays has no other.
        """
        self._any_size.inputs.give(name, array)

    def infer(self, inputs: StepInputs) -> None:
        self._last = self._of_size.get(size_of(inputs), self._any_size) if self._of_size else self._any_size
        self._last.infer(inputs)

    def output(self, number: int) -> NDArray[Any]:
        """A result of the last step, which the next one overwrites."""
        found: NDArray[Any] = np.asarray(self._last.request.get_output_tensor(number).data)
        return found
