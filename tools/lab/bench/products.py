"""`python -m tools.lab.bench.products`: how fast OpenVINO multiplies with weights of few bits, by form.

A chain of products between 1024 and 3072 numbers with random weights, 100 million in all, for each form;
forms take turns.  Prints the time of a chain, and its share of the time that reading its bytes takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from tools.lab.bench.bandwidth import read_gb_per_s

WIDTHS, LAYERS = (1024, 3072), 16
GROUP = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
EXACT = {GROUP: 0, "INFERENCE_PRECISION_HINT": "f32"}


@dataclass(frozen=True)
class Form:
    """Weights of a `type`, `block` of them to a scale (0: a row); `zeros`: none, one for all in the middle,
    whole numbers, floats, or floats that are multiplied with sums of blocks.
    """

    type: str
    block: int
    zeros: str = "none"
    scales: str = "f32"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        block = f"{self.block} to a scale" if self.block else "a scale a row"
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"{self.type}, {block} of {self.scales}, zero points: {self.zeros}" + (
            f"; {settings}" if settings else ""
        )


FORMS = (
    Form("u8", 0, "whole"),
    Form("u8", 0, "whole", settings={GROUP: 64}),
    Form("u8", 0, "whole", settings={GROUP: 128}),
    Form("u8", 128, "middle"),
    Form("u8", 32, "middle"),
    Form("u8", 16, "middle"),
    Form("i4", 128, scales="f16"),
    Form("i4", 128, scales="f16", settings={GROUP: 64}),
    Form("i4", 128, scales="f16", settings={GROUP: 128}),
    Form("u4", 128, "middle"),
    Form("u4", 128, "whole"),
    Form("u4", 128, "middle", settings=EXACT),
    Form("u4", 64, "middle"),
    Form("u4", 64, "whole"),
    Form("u4", 32, "middle"),
    Form("u4", 32, "middle", scales="f16"),
    Form("u4", 32, "whole"),
    Form("u4", 32, "float"),
    Form("u4", 32, "sums"),
)


class Chain:
    """The products of one form, compiled."""

    def __init__(self, form: Form, rows: int, threads: int) -> None:
        self.num_bytes = 0
        self._random = np.random.default_rng(0)
        self._held: list[np.ndarray] = []  # which constants read in place
        parameter = ops.parameter([-1, WIDTHS[0]], np.float32)
        out = parameter
        for _ in range(LAYERS):
            for inner, outer in (WIDTHS, WIDTHS[::-1]):
                out = self._product(out, form, outer, inner)
        hint = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
        compiled = ov.Core().compile_model(ov.Model([out], [parameter]), "CPU", hint | form.settings)
        self._request = compiled.create_infer_request()
        self._rows = self._random.normal(size=(rows, WIDTHS[0])).astype(np.float32)
        self._request.set_input_tensor(ov.Tensor(self._rows))
        self.run_ms()

    def run_ms(self) -> float:
        begin = time.perf_counter()
        self._request.infer()
        return 1e3 * (time.perf_counter() - begin)

    def _product(self, rows: ov.Node, form: Form, outer: int, inner: int) -> ov.Node:
        block = form.block or inner
        shape = [outer, inner // block, block]
        codes = ops.convert(self._codes(form.type, shape), form.scales)
        points = list(self._zero_points(form, shape))
        if points:
            codes = ops.subtract(codes, points[0])
        weight = ops.multiply(codes, self._floats([*shape[:2], 1], form.scales))
        weight = ops.reshape(weight, ops.constant([outer, inner]), False)
        if form.scales != "f32":
            weight = ops.convert(weight, "f32")
        product = ops.matmul(rows, weight, False, True)
        if form.zeros != "sums":
            return product
        split = ops.reshape(rows, ops.constant([-1, *shape[1:]]), False)
        sums = ops.reduce_sum(split, ops.constant([2]), False)
        return ops.add(product, ops.matmul(sums, self._floats(shape[:2], "f32"), False, True))

    def _zero_points(self, form: Form, shape: list[int]) -> Iterator[ov.Node]:
        if form.zeros in ("middle", "sums"):
            middle = np.full(1, 8 if form.type == "u4" else 128, np.uint8)
            yield ops.convert(self._constant(middle, form.type, [1]), form.scales)
        elif form.zeros == "whole":
            yield ops.convert(self._codes(form.type, [*shape[:2], 1]), form.scales)
        elif form.zeros == "float":
            yield self._floats([*shape[:2], 1], form.scales)

    def _codes(self, kind: str, shape: list[int]) -> ov.Node:
        bits = 4 if kind.endswith("4") else 8
        return self._constant(
            self._random.integers(0, 256, np.prod(shape) * bits // 8, np.uint8), kind, shape
        )

    def _constant(self, array: np.ndarray, kind: str, shape: list[int]) -> ov.Node:
        self.num_bytes += array.nbytes
        self._held.append(array)
        typed = getattr(ov.Type, kind)
        return ov.op.Constant(ov.Tensor(array if typed != ov.Type.i8 else array.view(np.int8), shape, typed))

    def _floats(self, shape: list[int], kind: str) -> ov.Node:
        values = (self._random.random(shape) / 100).astype(np.float32 if kind == "f32" else np.float16)
        self.num_bytes += values.nbytes
        return ops.constant(values)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.lab.bench.products", description=__doc__)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    chains = [Chain(form, asked.rows, asked.threads) for form in FORMS]
    read = read_gb_per_s()
    times: list[list[float]] = [[] for _ in FORMS]
    for _ in range(asked.rounds):
        for chain, chain_times in zip(chains, times, strict=True):
            chain_times.append(chain.run_ms())
    print(f"memory is read at {read:.1f} GB/s; rows: {asked.rows}\n")
    print("| form | MB | ms: least, median | share |\n|---|---|---|---|")
    for form, chain, chain_times in zip(FORMS, chains, times, strict=True):
        megabytes, median = chain.num_bytes / 1e6, np.median(chain_times)
        figures = f"{megabytes:.0f} | {min(chain_times):.2f}, {median:.2f} | {megabytes / read / median:.2f}"
        print(f"| {form.title} | {figures} |")


if __name__ == "__main__":
    main()
