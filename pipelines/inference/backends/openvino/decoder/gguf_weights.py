"""OpenVINO's nodes for weights as GGUF files have them: linear layers and routed experts, which Braid's
kernels pack from such a file, and tables of embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov

from pipelines.inference.backends.openvino.model.operator_library import LinearKernels
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import GGUF_LINEAR, GGUF_ROWS
from pipelines.onnx_format.experts_format import ACTIVATIONS, GGUF_EXPERTS, GGUF_PLACE, NETWORK
from pipelines.onnx_format.gguf_source import GgufSource, SourceFile

LARGEST = float(np.finfo(np.float32).max)
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

    def made(kind: str, node: Any, attributes: dict[str, Any]) -> list[ov.Output]:
        inputs = [node.get_input(number) for number in range(node.get_input_size())]
        outputs: list[ov.Output] = kernels.library.node(kind, inputs, attributes).outputs()
        return outputs

    def linear(node: Any) -> list[ov.Output]:
        return made(GGUF_LINEAR, node, {"levels": kernels.levels, **_place(node, "", files)})

    def experts(node: Any) -> list[ov.Output]:
        sides = [side for side in NETWORK if node.has_attribute(f"{side}_K")]
        places = [_place(node, f"{side}_", files) for side in sides]
        attributes = {name: value for place in places for name, value in place.items()}
        attributes |= {name: node.get_attribute(name) for name in ("experts", "alpha")}
        attributes["limit"] = min(node.get_attribute("limit"), LARGEST)
        attributes["activation"] = ACTIVATIONS.index(node.get_attribute("activation"))
        return made(GGUF_EXPERTS, node, {"levels": kernels.levels, **attributes})

    def rows(node: Any) -> list[ov.Output]:
        return made(GGUF_ROWS, node, {name.lower(): node.get_attribute(name) for name in ("type", "K")})

    return {GGUF_LINEAR: linear, GGUF_EXPERTS: experts, GGUF_ROWS: rows}


def _place(node: Any, prefix: str, files: Sequence[SourceFile]) -> dict[str, Any]:
    """The place of a weight of a node, by the names of the operators' attributes."""
    place = {name: node.get_attribute(prefix + name) for name in GGUF_PLACE}
    path, num_bytes, time_ns = files[place["file"]]
    of_file = {"file": path, "size": num_bytes, "time": time_ns}
    return {prefix + name.lower(): value for name, value in (place | of_file).items()}
