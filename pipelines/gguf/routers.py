"""Routers of mixtures of experts: what a file says of them, and the plain ONNX nodes that choose and weight
the experts of each token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.onnx_format.onnx_writer import OnnxWriter

SOFTMAX, SIGMOID, SOFTMAX_OF_CHOSEN, SQRT_SOFTPLUS = 1, 2, 3, 4
"""Values of `expert_gating_func`."""
SPARSE_MIXER = -1
"""How Phi weights its two experts, which no file says: each by a softmax of those that are nearly as good."""
NEAR = 0.02
"""How much less than an expert's score others may have, as a part of the larger of both, to be as good."""
SCORES: dict[int, tuple[str, ...]] = {
    SOFTMAX: ("Softmax",),
    SIGMOID: ("Sigmoid",),
    SOFTMAX_OF_CHOSEN: (),
    SQRT_SOFTPLUS: ("Softplus", "Sqrt"),
}
"""The operators that make the scores of a token's experts of the router's outputs."""
ROUTER, CORRECTION, FACTORS = "ffn_gate_inp", "exp_probs_b.bias", "ffn_down_exps.scale"
LEAST_SUM = 6.103515625e-5
"""Weights are not divided by less, as in llama.cpp: the smallest normal float16."""
IN_GROUP = 2
"""Experts of a group whose scores stand for it."""
EXCLUDED = -1e30
"""What is added to the scores of experts in other groups."""


@dataclass(frozen=True)
class Routing:
    """What the files of an architecture mean where they do not say it.

    `gating`: the value of `expert_gating_func`.  `sums_to_one`: the weights of the experts that a token uses
    are divided by their sum.
    """

    gating: int = SOFTMAX
    sums_to_one: bool = True


@dataclass(frozen=True)
class Mixture:
    """The experts of a layer, `used` of them for each token, and how its router chooses and weights them.

    Of several `groups` of experts, the `groups_used` best ones are left to choose from.  `factor` multiplies
    the weights.  `latent`: the numbers that experts read and give where they are fewer than a state's, else
    0.
    """

    experts: int
    used: int
    routing: Routing
    factor: float = 1.0
    groups: int = 1
    groups_used: int = 1
    latent: int = 0


def read_mixture(metadata: Metadata, default: Routing | None) -> Mixture | None:
    """None for a decoder without experts.  Raises `GgufError` for what is not served or cannot be."""
    name, experts = metadata.architecture, metadata.count("expert_count", 0, 0)
    if not experts:
        return None
    if default is None:
        raise GgufError(f"is a mixture of experts ({name}.expert_count), which is not served for {name}")
    gating = metadata.count("expert_gating_func", default.gating, 0) or default.gating
    if gating != default.gating and gating not in SCORES:
        raise GgufError(f"weights its experts by function {gating} ({name}.expert_gating_func), not 1 to 4")
    sums_to_one = metadata.flag(f"{name}.expert_weights_norm")
    mixture = Mixture(
        experts,
        metadata.count("expert_used_count"),
        Routing(gating, default.sums_to_one if sums_to_one is None else sums_to_one),
        metadata.own("expert_weights_scale", 0) or 1.0,
        metadata.count("expert_group_count", 1, 0) or 1,
        metadata.count("expert_group_used_count", 1, 0) or 1,
        metadata.count("moe_latent_size", 0, 0),
    )
    _check(mixture)
    return mixture


def _check(mixture: Mixture) -> None:
    experts, groups, groups_used = mixture.experts, mixture.groups, mixture.groups_used
    if experts % groups or groups_used > groups or (groups > 1 and experts // groups < IN_GROUP):
        raise GgufError(f"uses {groups_used} of {groups} groups of {experts} experts")
    if mixture.used > experts // groups * groups_used:
        raise GgufError(f"uses {mixture.used} of {experts // groups * groups_used} experts")


class Router:
    """Writes the routers of a decoder's layers; the tensors of a layer begin with `at`."""

    def __init__(self, mixture: Mixture, width: int, linears: LinearLayers, writer: OnnxWriter) -> None:
        self._mixture, self._width = mixture, width
        self._linears, self._writer, self._op = linears, writer, writer.op

    def choose(self, at: str, read: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The experts of each token of `read` and their weights: int64 and float32 [1, tokens, used]."""
        scores = self._linears.linear(read, f"{at}{ROUTER}", self._mixture.experts, self._width)
        if self._mixture.routing.gating == SPARSE_MIXER:
            return self._sparsely_mixed(scores)
        for operator in SCORES[self._mixture.routing.gating]:
            scores = self._op(operator, scores)
        ranked = self._among_groups(self._corrected(at, scores))
        used = self._writer.ints(self._mixture.used)
        best, chosen = self._writer.ops("TopK", ranked, used, count=2, axis=-1)
        weights = best if ranked is scores else self._op("GatherElements", scores, chosen, axis=-1)
        return chosen, self._scaled(at, self._normed(weights), chosen)

    def _sparsely_mixed(self, scores: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The best experts, one after the other (Liu and others, 2024, arXiv 2409.12136, without noise)."""
        op = self._op
        nothing, least = self._writer.store("excluded", np.full((1, 1, 1), EXCLUDED, np.float32)), scores
        experts = []
        for _ in range(self._mixture.used):
            best, place = self._writer.ops("TopK", least, self._writer.ints(1), count=2, axis=-1)
            part = op("Div", op("Sub", best, scores), op("Max", op("Abs", scores), best))
            near = op("Where", op("Greater", part, self._writer.number(NEAR)), nothing, least)
            experts.append((place, op("GatherElements", op("Softmax", near), place, axis=-1)))
            least = op("ScatterElements", least, place, op("Expand", nothing, op("Shape", place)), axis=-1)
        chosen, weights = (op("Concat", *parts, axis=-1) for parts in zip(*experts, strict=True))
        return chosen, weights

    def _corrected(self, at: str, scores: ir.Value) -> ir.Value:
        name = f"{at}{CORRECTION}"
        if not self._linears.has(name):
            return scores
        correction = self._linears.vector(name, self._mixture.experts)
        return self._op("Add", scores, self._writer.store(name, correction))

    def _among_groups(self, ranked: ir.Value) -> ir.Value:
        """`ranked` where only the experts of the best groups can be chosen."""
        mixture, ints, op = self._mixture, self._writer.ints, self._op
        if mixture.groups == 1:
            return ranked
        grouped = op("Reshape", ranked, ints(1, -1, mixture.groups, mixture.experts // mixture.groups))
        best, _ = self._writer.ops("TopK", grouped, ints(IN_GROUP), count=2, axis=-1)
        sums = op("ReduceSum", best, ints(-1), keepdims=0)
        top, places = self._writer.ops("TopK", sums, ints(mixture.groups_used), count=2, axis=-1)
        nothing = self._writer.number(0.0)
        excluded = op("Add", op("Mul", sums, nothing), self._writer.number(EXCLUDED))
        mask = op("ScatterElements", excluded, places, op("Mul", top, nothing), axis=-1)
        return op("Reshape", op("Add", grouped, op("Unsqueeze", mask, ints(3))), ints(1, -1, mixture.experts))

    def _normed(self, weights: ir.Value) -> ir.Value:
        routing = self._mixture.routing
        if routing.gating == SOFTMAX_OF_CHOSEN:
            weights = self._op("Softmax", weights)
        if not routing.sums_to_one:
            return weights
        total = self._op("ReduceSum", weights, self._writer.ints(-1), keepdims=1)
        return self._op("Div", weights, self._op("Max", total, self._writer.number(LEAST_SUM)))

    def _scaled(self, at: str, weights: ir.Value, chosen: ir.Value) -> ir.Value:
        """`weights` times the factor of all experts, and those that experts have of their own."""
        if self._mixture.factor != 1:
            weights = self._op("Mul", weights, self._writer.number(self._mixture.factor))
        name = f"{at}{FACTORS}"
        if not self._linears.has(name):
            return weights
        factors = self._writer.store(name, self._linears.vector(name, self._mixture.experts))
        return self._op("Mul", weights, self._op("Gather", factors, chosen))
