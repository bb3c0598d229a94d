"""OpenVINO's nodes for weights as GGUF files have them: linear layers, which Braid's kernels pack from such a
file, and tables of embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import openvino as ov

from pipelines.host.backends.openvino.model.operator_library import LinearKernels
from pipelines.host.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import GGUF_LINEAR, GGUF_ROWS
from pipelines.onnx_format.gguf_source import GgufSource

Conversions = dict[str, Callable[[Any], list[ov.Output]]]
"""Operator of Braid's ONNX form → what makes OpenVINO's nodes of a node."""


def gguf_conversions(folder: Path, kernels: LinearKernels) -> Conversions:
    """The conversions for the model.onnx of a folder, where it reads a GGUF file.  Raises `ModelError`."""
    try:
        source = GgufSource.read(folder)
    except (ValueError, OSError) as error:
        raise ModelError(f"{folder} has a damaged gguf.json: {error}") from error
    if source is None:
        return {}
    files = source.files

    def linear(node: Any) -> list[ov.Output]:
        path, num_bytes, time_ns = files[node.get_attribute("file")]
        file = {"file": path, "size": num_bytes, "time": time_ns, "levels": kernels.levels}
        attributes = {**file, **_read(node, "type", "K", "runs")}
        outputs: list[ov.Output] = kernels.library.node(
            GGUF_LINEAR, [node.get_input(0)], attributes
        ).outputs()
        return outputs

    def rows(node: Any) -> list[ov.Output]:
        inputs = [node.get_input(number) for number in range(2)]
        outputs: list[ov.Output] = kernels.library.node(GGUF_ROWS, inputs, _read(node, "type", "K")).outputs()
        return outputs

    return {GGUF_LINEAR: linear, GGUF_ROWS: rows}


def _read(node: Any, *names: str) -> dict[str, Any]:
    """Attributes of a node, by their names in lower case, as those of the operators are."""
    return {name.lower(): node.get_attribute(name) for name in names}
