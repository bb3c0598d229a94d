"""Reads and checks the inputs and the output of an encoder's ONNX Runtime session."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort

from pipelines.inference.backends.adapter_stacks import PREFIX
from pipelines.inference.backends.encoder_io import check_inputs, choose_output, reads_arrays
from pipelines.inference.contracts.device_errors import ModelError, Unsupported

INTEGERS: dict[str, type[np.signedinteger]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


def input_types(path: Path, session: ort.InferenceSession) -> Mapping[str, type[np.number]]:
    """Name → type of all inputs but those for adapters: integers of an encoder of texts, or the features of
    one of sound.

    Raises `ModelError`.
    """
    types = _types(session)
    if (array := reads_arrays(types)) and types == {array: "tensor(float)"}:
        return {array: np.float32}
    return integer_inputs(path, session)


def integer_inputs(path: Path, session: ort.InferenceSession) -> dict[str, type[np.signedinteger]]:
    """Name → integer type of all inputs.  Raises `ModelError` unless they are an encoder's."""
    types = _types(session)
    check_inputs(path, types)
    for name, type_name in types.items():
        if type_name not in INTEGERS:
            raise ModelError(f"{path}: its input {name} is of type {type_name}, no integers.")
    return {name: INTEGERS[type_name] for name, type_name in types.items()}


def _types(session: ort.InferenceSession) -> dict[str, str]:
    return {port.name: port.type for port in session.get_inputs() if not port.name.startswith(PREFIX)}


def read_output(path: Path, session: ort.InferenceSession, floats: Collection[str]) -> ort.NodeArg:
    """The output to read.  Raises `Unsupported` when its type is not one of the readable `floats`."""
    ports: list[ort.NodeArg] = list(session.get_outputs())
    output = ports[choose_output([[port.name] for port in ports])]
    if output.type not in floats:
        raise Unsupported(
            f"{path}: its output {output.name} is of type {output.type}; "
            f"here {', '.join(floats)} can be read."
        )
    return output
