"""What computes the layers of routed experts of a decoder on OpenVINO."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import openvino as ov

log = logging.getLogger(__name__)

LINEAR, CONSTANT, WEIGHT = "FullyConnected", "Const", 1
"""A compiled graph's names for a linear layer and a constant, and the place of the weight."""
FEW_BITS = frozenset({"u2", "u4", "i4", "u8", "i8", "f4e2m1"})


@dataclass(frozen=True)
class ExpertLayers:
    """How many layers are one node of Braid's own kernels, and how many a linear layer for each expert.

    `num_linears`: of these linear layers, how many have weights of few bits.  `num_tiled`: MatMuls with the
    weights of all experts, in OpenVINO's own files.
    """

    by_kernels: int = 0
    by_linears: int = 0
    num_linears: int = 0
    num_tiled: int = 0

    @property
    def count(self) -> int:
        return self.by_kernels + self.by_linears

    def facts(self, path: Path, compiled: ov.CompiledModel, kernels: str) -> dict[str, str]:
        """What logs and the status page say of the decoder at `path`; `kernels` names the kernels."""
        parts = [self._tiled(path, compiled)] if self.num_tiled else []
        if self.count:
            parts.insert(0, self._layers(path, compiled, kernels))
        return {"experts": "; ".join(parts)} if parts else {}

    def _layers(self, path: Path, compiled: ov.CompiledModel, kernels: str) -> str:
        unpacked = self.num_unpacked(compiled)
        if unpacked:
            log.warning("%s: OpenVINO computes with %d weights of experts as floats", path, unpacked)
        if self.by_kernels:
            return f"{self.by_kernels} of {self.count} layers by {kernels}"
        suffix = f", {unpacked} of them unpacked" if unpacked else ""
        return f"{self.count} layers, a linear layer for each expert{suffix}"

    def _tiled(self, path: Path, compiled: ov.CompiledModel) -> str:
        from pipelines.inference.backends.openvino.decoder.tiled_experts import (
            count_dense,
        )  # few models have tiles

        dense = count_dense(compiled, self.num_tiled)
        if not dense:
            return f"{self.num_tiled} weights, routed by OpenVINO"
        log.warning(
            "%s: OpenVINO does not know the form of %d of %d weights of experts, and computes every expert "
            "for every token. Export the model with `braid export --format onnx`, whose experts are routed",
            path,
            dense,
            self.num_tiled,
        )
        return f"{self.num_tiled} weights, {dense} of them for every token"

    def num_unpacked(self, compiled: ov.CompiledModel) -> int:
        """How many experts' weights of few bits a compiled graph computes with as floats."""
        if not self.num_linears:
            return 0
        linears = [node for node in compiled.get_runtime_model().get_ops() if _kind(node) == LINEAR]
        weights = [node.input_value(WEIGHT).get_node() for node in linears]
        return max(0, self.num_linears - sum(map(_has_few_bits, weights)))


def _kind(node: ov.Node) -> str:
    return str(node.get_rt_info()["layerType"].astype(str))


def _has_few_bits(weight: ov.Node) -> bool:
    return weight.get_rt_info()["outputPrecisions"].astype(str) in FEW_BITS
