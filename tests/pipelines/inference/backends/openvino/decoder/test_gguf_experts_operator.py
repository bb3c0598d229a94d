"""The kernels' operator for experts whose weights are in a GGUF file, alone."""

from __future__ import annotations

import gguf
import numpy as np
import openvino as ov
import pytest
from gguf import GGMLQuantizationType as Type
from openvino import opset13 as ops

from pipelines.onnx_format.experts_format import ACTIVATIONS, GGUF_EXPERTS

EXPERTS, WIDTH, INNER, USED, TOKENS = 4, 64, 96, 2, 5
MAGIC = b"GGUF".ljust(32)


@pytest.mark.parametrize("num_biases", [3, 0])
def test_experts_without_a_gate_are_the_same_read_back(kernels, tmp_path, num_biases):
    rng, library = np.random.default_rng(0), kernels(2).library
    up = gguf.quants.quantize(rng.normal(0, 0.1, (EXPERTS, INNER, WIDTH)).astype(np.float32), Type.Q8_0)
    down = gguf.quants.quantize(rng.normal(0, 0.1, (EXPERTS, WIDTH, INNER)).astype(np.float32), Type.Q8_0)
    file = tmp_path / "experts.gguf"
    file.write_bytes(MAGIC + up.tobytes() + down.tobytes())
    stat = file.stat()

    def place(side, offset, rows, columns):
        runs = [offset, rows.shape[-1], EXPERTS * rows.shape[1]]
        attributes = {"file": str(file), "size": stat.st_size, "time": stat.st_mtime_ns}
        attributes |= {"type": int(Type.Q8_0), "k": columns, "runs": runs}
        return {f"{side}_{name}": value for name, value in attributes.items()}

    attributes = {"levels": 2, "activation": ACTIVATIONS.index("relu2"), "experts": EXPERTS}
    attributes |= place("up", len(MAGIC), up, WIDTH) | place("down", len(MAGIC) + up.nbytes, down, INNER)
    routed = [ops.parameter([1, -1, WIDTH], np.float32), ops.parameter([1, -1, USED], np.int64)]
    routed.append(ops.parameter([1, -1, USED], np.float32))
    absent = [ops.constant(np.zeros((), np.float32)) for _ in range(num_biases)]
    node = library.node(GGUF_EXPERTS, [parameter.output(0) for parameter in (*routed, *absent)], attributes)
    model, core = ov.Model([node], routed), ov.Core()
    ov.save_model(model, tmp_path / "model.xml")
    library.add_to(core)
    states = rng.normal(0, 1, (1, TOKENS, WIDTH)).astype(np.float32)
    chosen = rng.integers(0, EXPERTS, (1, TOKENS, USED))
    weights = rng.normal(0, 1, (1, TOKENS, USED)).astype(np.float32)
    ups, downs = (gguf.quants.dequantize(blocks, Type.Q8_0) for blocks in (up, down))
    middle = np.maximum(np.einsum("tuiw,tw->tui", ups[chosen[0]], states[0]), 0) ** 2
    wanted = np.einsum("tuwi,tui,tu->tw", downs[chosen[0]], middle, weights[0])
    for graph_model in (model, core.read_model(tmp_path / "model.xml")):
        compiled = core.compile_model(graph_model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        np.testing.assert_allclose(compiled([states, chosen, weights])[0][0], wanted, atol=5e-4)
