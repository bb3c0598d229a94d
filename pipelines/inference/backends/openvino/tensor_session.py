"""Runs a tensor model on OpenVINO's CPU or GPU device (`TensorSession`)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from pipelines.inference.backends.openvino.model.arrays import NAMES, check_strings, to_array, to_tensor
from pipelines.inference.backends.openvino.model.reshaping import reshaped
from pipelines.inference.backends.openvino.paging.paged_attention import last_line
from pipelines.inference.contracts.device_errors import ModelError, require_file
from pipelines.inference.contracts.tensor_contract import TensorPort, known_type
from pipelines.inference.contracts.tensor_settings import TensorSettings

MAX_CHECKED_SHAPES = 4096  # shapes; more than clients of one model have, and a bound


def open_tensors(path: Path, settings: TensorSettings) -> OpenVINOTensors:
    """The session of a model file.  Raises `ModelError`."""
    require_file(path)
    return OpenVINOTensors(path, settings)


class OpenVINOTensors:
    """One compiled model, and an infer request for each of the runs that there were at once.

    Raises `ModelError`.
    """

    def __init__(self, path: Path, settings: TensorSettings) -> None:
        core, self._device = ov.Core(), settings.device
        if settings.device.startswith("gpu") and "GPU" not in " ".join(core.available_devices):
            raise ModelError(
                f"device {settings.device}: OpenVINO sees only {', '.join(core.available_devices)}."
            )
        try:
            self._model: ov.Model | None = _read(core, path, settings)
            check_strings(path, self._model)
            self._compiled: ov.CompiledModel | None = core.compile_model(
                self._model, settings.device.upper(), _hints(settings)
            )
        except RuntimeError as error:
            raise ModelError(f"OpenVINO cannot open {path}: {last_line(error)}") from error
        # names are the file's: a compiled port also has those of nodes that were removed behind it
        self.inputs = {
            port.name: port for port in (_port(path, "input", port) for port in self._model.inputs)
        }
        self.outputs = {
            port.name: port for port in (_port(path, "output", port) for port in self._model.outputs)
        }
        self._idle = [self._compiled.create_infer_request()]
        self._checked_shapes: set[tuple[tuple[int, ...], ...]] = set()
        self._checking = threading.Lock()

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        arrays = [np.asarray(inputs[name], order="C") for name in self.inputs]
        with self._checking:
            self._check_shapes(tuple(array.shape for array in arrays))
        request = self._request()
        try:
            for index, (name, array) in enumerate(zip(self.inputs, arrays, strict=True)):
                request.set_input_tensor(index, to_tensor(name, array))
            request.start_async()
            request.wait()
            return {
                name: to_array(request.get_output_tensor(index)) for index, name in enumerate(self.outputs)
            }
        except RuntimeError as error:
            raise RequestError(f"The model cannot take these inputs: {last_line(error)}") from error
        finally:
            self._idle.append(request)

    def _request(self) -> ov.InferRequest:
        """One that no other thread uses."""
        assert self._compiled is not None, "run comes before close"
        try:
            return self._idle.pop()
        except IndexError:
            return self._compiled.create_infer_request()

    def _check_shapes(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Infer shapes through the graph; without it the device adds [4, 3] to [6, 1] without an error.

        Shapes that passed are remembered: inferring a graph's shapes takes milliseconds.
        """
        if shapes in self._checked_shapes:
            return
        assert self._model is not None, "run comes before close"
        try:
            self._model.reshape({index: list(shape) for index, shape in enumerate(shapes)})
        except RuntimeError as error:
            raise RequestError(
                f"The shapes of these inputs do not go together: {last_line(error)}"
            ) from error
        if len(self._checked_shapes) >= MAX_CHECKED_SHAPES:
            self._checked_shapes.clear()
        self._checked_shapes.add(shapes)

    def describe(self) -> Mapping[str, str]:
        return {"engine": f"openvino {ov.__version__.split('-')[0]}", "device": self._device}

    def close(self) -> None:
        self._compiled = self._model = None
        self._idle.clear()


def _read(core: ov.Core, path: Path, settings: TensorSettings) -> ov.Model:
    """The model as the settings make it; a saved model is the folder of its file."""
    model = core.read_model(path.parent if path.suffix == ".pb" else path)
    inputs, outputs = ([_name(port) for port in ports] for ports in (model.inputs, model.outputs))
    return reshaped(model, inputs, outputs, settings.reshaping)


def _hints(settings: TensorSettings) -> dict[str, Any]:
    hints: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
    if settings.threads is not None:
        hints["INFERENCE_NUM_THREADS"] = settings.threads
    if settings.streams is not None:
        hints["NUM_STREAMS"] = settings.streams
    if settings.precision is not None:
        hints["INFERENCE_PRECISION_HINT"] = settings.precision
    return hints


def _port(path: Path, kind: str, port: ov.ConstOutput) -> TensorPort:
    name, type_name = _name(port), port.get_element_type().get_type_name()
    shape = port.get_partial_shape()
    sizes = tuple(None if one.is_dynamic else one.get_length() for one in shape) if _has_rank(shape) else None
    return TensorPort(name, known_type(path, kind, name, NAMES.get(type_name), type_name), sizes)


def _has_rank(shape: ov.PartialShape) -> bool:
    return bool(shape.rank.is_static)


def _name(port: ov.ConstOutput) -> str:
    """The tensor's name, the first in order of several; without one, the name of the node that makes it."""
    names = port.get_names()
    if names:
        return str(min(names))
    node = port.get_node()
    source = node.input_value(0).get_node() if node.get_input_size() else node
    return str(source.get_friendly_name())
