"""Reads and compiles an encoder file into a model with one output."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13

from pipelines.inference.backends.encoder_io import (
    INPUTS,
    TASK_ADVICE,
    check_inputs,
    choose_output,
    reads_arrays,
)
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.device_properties import checked_properties
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.inference.backends.openvino.paging.paged_attention import last_line
from pipelines.inference.contracts.device_errors import ModelError, Unsupported
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from pipelines.onnx_format.decoder_format import DOMAIN
from pipelines.onnx_format.experts_format import EXPERTS

OWN_NODES = f"{DOMAIN}.{EXPERTS}"
"""What OpenVINO says of a node of Braid's format that it does not know."""
INTEGERS: dict[str, type[np.signedinteger]] = {"i64": np.int64, "i32": np.int32}
"""OpenVINO's types of ids → numpy's."""
STORED_KERNELS = {"CPU_RUNTIME_CACHE_CAPACITY": 1024}
"""How many compiled kernels are stored: each (texts, width) brings about ten; OpenVINO's default is 5,000.

More would be half a megabyte for each shape in time.  Calls of a shape take 0.3 ms more where it was dropped.
"""


def weights_beside(path: Path) -> MappedFile | None:
    """The .bin of an openvino_model.xml; None for other files, or when it is absent (OpenVINO reports it)."""
    weights = path.with_suffix(".bin")
    is_there = path.suffix == ".xml" and weights.is_file() and weights.stat().st_size
    return MappedFile(weights) if is_there else None


def read_encoder(path: Path, weights: MappedFile | None) -> ov.Model:
    """The model of an .xml, whose weights are read in place, or of an .onnx.  Raises `ModelError`."""
    if not path.is_file():
        raise ModelError(f"{path} does not exist.")
    core = ov.Core()
    try:
        if weights is None:
            model = core.read_model(path)
        else:
            model = core.read_model(path.read_text(), ov.Tensor(weights.bytes, shared_memory=True))
    except RuntimeError as error:
        if OWN_NODES in str(error):
            raise Unsupported(
                f"{path}: its layers have routed experts, which encoders compute on ONNX Runtime; write "
                "`engine: onnxruntime`."
            ) from error
        raise _refusal(path)(f"OpenVINO cannot read {path}: {last_line(error)}") from error
    if model.get_variables():
        raise ModelError(f"{path} is a decoder with a cache. {TASK_ADVICE}")
    return model


def input_types(path: Path, model: ov.Model) -> Mapping[str, type[np.number]]:
    """Name → type, in the order of the model's inputs: integers, or the features of sound, or pixels.

    Raises `ModelError`.
    """
    types = {_name(port): port.get_element_type().get_type_name() for port in model.inputs}
    check_inputs(path, types)
    if (array := reads_arrays(types)) and types[array] == "f32":
        return {array: np.float32}
    for name, element_type in types.items():
        if element_type not in INTEGERS:
            raise ModelError(f"{path}: its input {name} is of type {element_type}; ids are i64 or i32.")
    return {name: INTEGERS[element_type] for name, element_type in types.items()}


def _name(port: ov.Output) -> str:
    """The encoder input that a port is; converters also add names of inner nodes to a port."""
    return min(port.get_names(), key=lambda name: (name not in INPUTS, name), default="without a name")


def select_output(path: Path, model: ov.Model) -> None:
    """Remove all outputs but one, and make it float32, as numpy has no bfloat16.  Raises `ModelError`."""
    chosen = choose_output([port.get_names() for port in model.outputs])
    element_type = model.output(chosen).get_element_type()
    if not element_type.is_real():
        raise ModelError(f"{path}: its output is of type {element_type.get_type_name()}, no floats.")
    for index, result in enumerate(model.get_results()):
        if index != chosen:
            model.remove_result(result)
        elif element_type != ov.Type.f32:
            values = opset13.convert(result.input_value(0), "f32")
            result.input(0).replace_source_output(values.output(0))
    model.validate_nodes_and_infer_types()


def compile_encoder(path: Path, model: ov.Model, settings: EncoderSettings) -> ov.CompiledModel:
    """Compile the model.  Raises `ModelError`.

    One call at a time uses every core: two calls in parallel streams do not increase the throughput.
    """
    words = OpenVINOSettings(settings.device, precision=settings.precision, threads=settings.threads)
    properties = checked_properties(words) | STORED_KERNELS
    try:
        return ov.Core().compile_model(model, settings.device.upper(), properties)
    except RuntimeError as error:
        raise _refusal(path)(f"OpenVINO cannot compile {path}: {last_line(error)}") from error


def facts_of(compiled: ov.CompiledModel) -> dict[str, str]:
    """Properties for logs."""
    return {
        "engine": f"openvino {ov.__version__.split('-')[0]}",
        "device": "cpu",
        "precision": compiled.get_property("INFERENCE_PRECISION_HINT").to_string(),
    }


def _refusal(path: Path) -> type[ModelError]:
    """The error to raise: another engine may run an .onnx."""
    return Unsupported if path.suffix == ".onnx" else ModelError
