"""Speed of the CPU kernels on one thread beside OpenVINO's linear layers and a read of memory, in turns.

`python -m tools.lab.kernel_speed [--rows 1 8 64] [--rounds 9]`: medians of 32 layers of 2048 × 2048, in
processor time, so that other work on the machine counts less.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as ops

from ops.cpu.build import build, find_compiler

N = K = 2048
LAYERS = 32
FORMATS = {  # bits, group, scales, zeros, table; bytes of the scales and zeros of a group, and of 256 weights
    "u4, f16": ((4, 32, 2, 0, 0), 2, 0),
    "u4, f32 and minimum": ((4, 32, 0, 2, 0), 8, 0),
    "Q4_K": ((4, 32, 4, 2, 0), 2, 4),
    "Q6_K": ((6, 16, 4, 0, 0), 1, 2),
    "MXFP4": ((4, 32, 3, 0, 1), 1, 0),
    "u8, f16": ((8, 32, 2, 0, 0), 2, 0),
}
Pointer, Size = ctypes.c_void_p, ctypes.c_size_t


def aligned(num_bytes: int) -> NDArray[np.uint8]:
    """Zeros in huge pages, where the system has them."""
    pages = mmap.mmap(-1, num_bytes + (4 << 20))
    pages.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(pages, np.uint8)
    begin = -raw.ctypes.data % (2 << 20)
    return raw[begin : begin + num_bytes]


class Kernels:
    """Layers of one format."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        form, _, _ = FORMATS[name]
        self._library, self._format = library, ctypes.byref((ctypes.c_int32 * 5)(*form))
        library.bl_packed_bytes.restype = library.bl_rounded_bytes.restype = Size
        self.layer_bytes = library.bl_packed_bytes(self._format, Size(N), Size(K))
        self.packed = aligned(self.layer_bytes * LAYERS)
        one = self._packed_layer(name)
        for layer in range(LAYERS):
            self.packed[layer * self.layer_bytes :][: self.layer_bytes] = one

    def _packed_layer(self, name: str) -> NDArray[np.uint8]:
        (bits, group, scales, zeros, _), group_bytes, unit_bytes = FORMATS[name]
        rng = np.random.default_rng(0)
        codes = rng.integers(0, 64 if bits == 6 else 256, N * K * (8 if bits == 6 else bits) // 8, np.uint8)
        count = N * (K // group * group_bytes + K // 256 * unit_bytes) // (2 if zeros else 1)
        values = np.full(count, 0x20 if scales == 3 else 0x1C, np.uint8)  # small numbers of each type
        packed = aligned(self.layer_bytes)
        arrays = (Pointer(array.ctypes.data) for array in (codes, values, values))
        self._library.bl_pack(
            self._format, Size(N), Size(K), *arrays, Size(0), Size(N // 16), Pointer(packed.ctypes.data)
        )
        return packed

    def run(self, levels: int, x: NDArray[np.float32]) -> None:
        m, library = len(x), self._library
        rounded = np.empty(library.bl_rounded_bytes(levels, Size(m), Size(K)), np.uint8)
        y = np.empty((m, N), np.float32)
        shape, begin = (Size(m), Size(N), Size(K)), Size(0)
        acts, out = Pointer(rounded.ctypes.data), Pointer(y.ctypes.data)
        x_at, tiles, blocks, first = (
            Pointer(x.ctypes.data),
            Size(-(-m // 16)),
            Size(N // 16),
            self.packed.ctypes.data,
        )
        for layer in range(LAYERS):
            library.bl_round(levels, 0, shape[0], shape[2], x_at, shape[2], begin, tiles, acts)
            weight = Pointer(first + layer * self.layer_bytes)
            library.bl_multiply(self._format, levels, 0, *shape, acts, weight, begin, blocks, out, shape[1])


def openvino_layers(group: int) -> Callable[[NDArray[np.float32]], Any]:
    """LAYERS layers of 4 bits by OpenVINO, whose activations are rounded in groups of `group`; 0: not."""
    rng = np.random.default_rng(0)
    x = ops.parameter([-1, K], ov.Type.f32)
    codes = [rng.integers(0, 256, N * K // 2, np.uint8) for _ in range(LAYERS)]  # read in place
    scales = ops.constant(np.full((N, K // 32, 1), 0.01, np.float32))
    zero = ops.convert(ops.constant(np.full(1, 8), ov.Type.u4), ov.Type.f32)
    results = []
    for packed in codes:
        constant = ov.op.Constant(ov.Tensor(packed, [N, K // 32, 32], ov.Type.u4))
        blocks = ops.multiply(ops.subtract(ops.convert(constant, ov.Type.f32), zero), scales)
        y = ops.matmul(x, ops.reshape(blocks, ops.constant([N, K]), False), False, True)
        results.append(ops.reduce_max(y, ops.constant([0, 1])))
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = group
    request = ov.Core().compile_model(ov.Model(results, [x]), "CPU", settings).create_infer_request()
    return lambda rows, _=codes: request.infer([rows], share_inputs=True)


def seconds(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def work_of(
    layers: dict[str, Kernels],
    x: NDArray[np.float32],
    rounding: Callable[..., Any],
    exact: Callable[..., Any],
) -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    works: dict[str, Callable[[], Any]] = {"rounded": lambda: rounding(x), "f32": lambda: exact(x)}
    for name, layer in layers.items():
        for levels in (1, 2):
            works[f"{name} {levels}"] = lambda layer=layer, levels=levels: layer.run(levels, x)
        works[f"{name} read"] = lambda layer=layer: np.bitwise_or.reduce(layer.packed.view(np.uint64))
    return works


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 4, 8, 16, 64, 512])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=list(FORMATS))
    options = parser.parse_args()
    compiler = find_compiler()
    if compiler is None:
        sys.exit("no C++ compiler")
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(str(build(Path(folder), [None], compiler)[0]))
    rounding, exact = openvino_layers(32), openvino_layers(0)
    print("GMAC/s of OpenVINO (rounded, f32), then by format one level, two levels and ratios to those")
    for rows in options.rows:
        x = np.random.default_rng(0).standard_normal((rows, K)).astype(np.float32)
        layers = {name: Kernels(library, name) for name in options.formats}
        kernels = work_of(layers, x, rounding, exact)
        for work in kernels.values():
            work()
        times = [[seconds(work) for work in kernels.values()] for _ in range(options.rounds)]
        took = dict(zip(kernels, np.array(times).T, strict=True))
        speed = {name: LAYERS * rows * N * K / np.median(seconds) / 1e9 for name, seconds in took.items()}
        print(f"rows {rows}: OpenVINO {speed['rounded']:.1f}, {speed['f32']:.1f}")
        for name, layer in layers.items():
            single, two, read = (took[f"{name} {kind}"] for kind in ("1", "2", "read"))
            ratios = [
                np.median(took["rounded"] / single),
                np.median(took["f32"] / two),
                np.median(read / two),
            ]
            print(
                f"    {name:20} {speed[f'{name} 1']:6.1f} {speed[f'{name} 2']:6.1f}; one / OpenVINO rounded "
                f"{ratios[0]:.2f}, two / OpenVINO f32 {ratios[1]:.2f}, two / read {ratios[2]:.2f}; "
                f"{8 * layer.layer_bytes / N / K:.3f} bits",
                flush=True,
            )


if __name__ == "__main__":
    main()
