"""Linear layers of four bits in ONNX Runtime: Braid's own CPU kernels beside MatMulNBits, in turns.

    python -m tools.lab.bench.onnxruntime_linears LIBRARY

LIBRARY is a libbraid_onnxruntime.so, as `python -m ops.cpu.build FOLDER` makes it.  The ratio is the median
of those of processor time, on one thread, to what decoders have without the kernels: rows read in two parts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from pipelines.inference.backends.onnxruntime.cpu.kernel_linears import use_kernels
from pipelines.inference.backends.onnxruntime.cpu.rounded_rows import read_in_two_parts
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session

SHAPES = ((2048, 2048), (6144, 2048), (2048, 6144))
ROWS = (1, 2, 4, 8, 64)
WEIGHTS = 1 << 26
"""Weights of all layers of a session: more than caches hold."""
BLOCK, BITS, ROUNDS = 32, 4, 7
BASE = "two parts"
FORMS: dict[str, Callable[[ir.Graph], object]] = {
    BASE: read_in_two_parts,
    "one rounding": lambda graph: None,
    "kernels": use_kernels,
}


def layers(num_outputs: int, num_inputs: int, count: int) -> ir.Model:
    """`count` linear layers with random weights that read the same rows; the sum of each is an output."""
    random = np.random.default_rng(0)
    rows = ir.val("rows", ir.DataType.FLOAT, [1, "num_rows", num_inputs])
    graph = ir.Graph([rows], [], nodes=[], opset_imports={"": 21, "com.microsoft": 1}, name="layers")
    blocks = num_inputs // BLOCK
    sizes = {"K": num_inputs, "N": num_outputs, "bits": BITS, "block_size": BLOCK, "accuracy_level": 4}
    for number in range(count):
        codes = random.integers(0, 256, (num_outputs, blocks, BLOCK * BITS // 8), np.uint8)
        scales = random.random((num_outputs, blocks), np.float32) * 0.01
        named = {f"codes{number}": codes, f"scales{number}": scales}
        parts = [ir.val(name, const_value=ir.tensor(array, name=name)) for name, array in named.items()]
        for part in parts:
            graph.register_initializer(part)
        linear = ir.node("MatMulNBits", [rows, *parts], sizes, domain="com.microsoft")
        total = ir.node("ReduceSum", linear.outputs, {"keepdims": 0})
        total.outputs[0].name, total.outputs[0].dtype = f"sum{number}", ir.DataType.FLOAT
        total.outputs[0].shape = ir.Shape([])
        graph.extend([linear, total])
        graph.outputs.append(total.outputs[0])
    return ir.Model(graph, ir_version=10)


def open_forms(
    num_outputs: int, num_inputs: int, count: int, library: Path
) -> dict[str, Callable[[NDArray[np.float32]], object]]:
    """What runs the layers on given rows, by the name of its form."""
    forms = {}
    for name, rewrite in FORMS.items():
        model = layers(num_outputs, num_inputs, count)
        rewrite(model.graph)
        content = ir.to_proto(model).SerializeToString()
        session = open_session(content, library.parent, [CPU], 1, {}, library.absolute())
        forms[name] = lambda rows, session=session: session.run(None, {"rows": rows})
    return forms


def measure(
    forms: dict[str, Callable[..., object]], rows: NDArray[np.float32]
) -> dict[str, NDArray[np.float64]]:
    """The seconds of each round, by the name of a form; the forms take turns."""
    took: dict[str, list[float]] = {name: [] for name in forms}
    for number in range(-1, ROUNDS):
        for name, run in forms.items():
            begin_s = time.process_time()
            run(rows)
            took[name] += [time.process_time() - begin_s] if number >= 0 else []
    return {name: np.array(seconds) for name, seconds in took.items()}


def main(shapes: tuple[tuple[int, int], ...] = SHAPES, weights: int = WEIGHTS) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.lab.bench.onnxruntime_linears", description=__doc__
    )
    parser.add_argument("library", type=Path, help="libbraid_onnxruntime.so")
    library = parser.parse_args().library
    print(
        f"| outputs x inputs | rows | {' | '.join(f'{name}, ms' for name in FORMS)} | ratio of the kernels |"
    )
    print("|---" * (len(FORMS) + 3) + "|")
    for num_outputs, num_inputs in shapes:
        forms = open_forms(num_outputs, num_inputs, max(1, weights // (num_outputs * num_inputs)), library)
        for count in ROWS:
            rows = np.random.default_rng(count).standard_normal((1, count, num_inputs), np.float32)
            took = measure(forms, rows)
            cells = " | ".join(f"{1000 * seconds.min():.1f}" for seconds in took.values())
            ratio = np.median(took[BASE] / took["kernels"])
            print(f"| {num_outputs} x {num_inputs} | {count} | {cells} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
