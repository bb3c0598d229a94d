"""Linear layers of few bits by Braid's own kernels in ONNX Runtime: which, how exact, and without them."""

from __future__ import annotations

import logging
import re

import numpy as np
import onnx_ir as ir
import pytest
from block_products import OUTER, block_product
from gguf import GGMLQuantizationType as Type
from gguf_files import write_llama_like
from lone_steps import step

from pipelines.gguf.convert import convert
from pipelines.inference.backends.onnxruntime.cpu import decoder_session
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.onnxruntime.cpu.kernel_linears import use_kernels
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from pipelines.inference.contracts.device_errors import ModelError

INNER = 512
KINDS = [(bits, block, zeros) for bits in (4, 8) for block in (16, 32, 64, 128) for zeros in (None, "packed")]
KINDS += [(4, 32, "float32"), (8, 128, "float32")]
SIXTEEN_BITS = 1e-4
"""The largest error of a sum of products of numbers with 16 bits, relative to the largest sum."""


@pytest.fixture(scope="session")
def library(kernel_folder):
    return kernel_folder / "libbraid_onnxruntime.so"


def rounding(bits=4, block=32, zeros=None, inner=INNER):
    """The product of `block_product`, which may round its rows; its node; and its weight."""
    model, weight = block_product(bits, zeros, inner, block)
    node = model.graph[0]
    node.attributes.add(ir.AttrInt64("accuracy_level", 4))
    return model, node, weight


def opened(model, library, threads=1):
    assert use_kernels(model.graph) == 1
    assert [node.op_type for node in model.graph] == ["BlockLinear", "Identity"]
    session = open_session(
        ir.to_proto(model).SerializeToString(), library.parent, [CPU], threads, {}, library
    )
    return lambda rows: session.run(None, {"rows": rows})[0]


def random_rows(count, inner=INNER):
    return np.random.default_rng(count).normal(size=(1, count, inner)).astype(np.float32)


@pytest.mark.parametrize(("bits", "block", "zeros"), KINDS)
def test_sums_are_those_of_floats(library, bits, block, zeros):
    model, _, weight = rounding(bits, block, zeros)
    run = opened(model, library)
    for count in (1, 3, 33):
        rows = random_rows(count)
        expected = rows.astype(np.float64) @ weight.T.astype(np.float64)
        assert np.abs(run(rows) - expected).max() < SIXTEEN_BITS * np.abs(expected).max()


def test_a_row_does_not_depend_on_others_or_on_threads(library):
    model, *_ = rounding(inner=4096)
    several = opened(model.clone(), library, threads=3)
    rows = random_rows(50, 4096)
    all_rows = several(rows)
    alone = opened(model, library)
    for row in range(0, 50, 7):
        np.testing.assert_array_equal(alone(rows[:, row : row + 1]), all_rows[:, row : row + 1])


def test_no_rows_are_no_results(library):
    model, *_ = rounding()
    assert opened(model, library)(random_rows(0)).shape == (1, 0, OUTER)


def left(node):
    return use_kernels(node.graph) == 0


def test_what_may_not_be_rounded_is_left():
    _, node, _ = rounding()
    node.attributes.add(ir.AttrInt64("accuracy_level", 1))
    assert left(node)


@pytest.mark.parametrize("change", [{"block_size": 256}, {"bits": 2}, {"K": INNER + 4}])
def test_formats_that_the_kernels_lack_are_left(change):
    _, node, _ = rounding()
    for name, value in change.items():
        node.attributes.add(ir.AttrInt64(name, value))
    assert left(node)


def test_a_weight_that_is_computed_is_left():
    _, node, _ = rounding()
    computed = ir.node("Identity", [node.inputs[1]])
    node.graph.insert_before(node, computed)
    node.replace_input_with(1, computed.outputs[0])
    assert left(node)


def test_packed_zero_points_of_an_odd_number_of_blocks_are_left():
    _, node, _ = rounding(4, 128, "packed", inner=3 * 128)
    assert left(node)


@pytest.mark.parametrize(
    "change", [{"N": OUTER + 1}, {"K": INNER // 2}, {"levels": 3}, {"block_size": 48}, {"bits": 8}]
)
def test_constants_that_do_not_fit_are_an_error(library, change):
    """The operator reads no memory beyond its constants, whatever a file says."""
    model, *_ = rounding()
    use_kernels(model.graph)
    for name, value in change.items():
        model.graph[0].attributes.add(ir.AttrInt64(name, value))
    content = ir.to_proto(model).SerializeToString()
    with pytest.raises(ModelError, match="braid.BlockLinear"):
        open_session(content, library.parent, [CPU], 1, {}, library)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A small decoder of a GGUF file in Q4_K, whose linear layers have float zero points."""
    folder = tmp_path_factory.mktemp("decoder")
    write_llama_like(folder / "tiny.gguf", kind=Type.Q4_K, tied=False)
    convert(folder / "tiny.gguf", folder / "model")
    return folder / "model" / "model.onnx"


def logits(path):
    """The logits of 30 tokens, and what the session says of its linear layers."""
    session = OnnxCpuSession(path, OnnxCpuSettings(threads=1))
    session.allocate(4)
    found = session.run(step(range(3, 33), 0, [0, 1], range(30))).copy()
    said = session.describe()["linear_layers"]
    session.close()
    return found, said


def test_a_decoder_gives_the_logits_that_it_gives_without(kernel_folder, decoder, monkeypatch):
    without, said = logits(decoder)
    assert said == "by onnxruntime"
    monkeypatch.setenv("BRAID_KERNELS", str(kernel_folder))
    with_kernels, said = logits(decoder)
    assert re.fullmatch(r"[1-9]\d* by braid kernels, two levels", said)
    assert np.abs(with_kernels - without).max() < SIXTEEN_BITS * np.abs(without).max()
    assert (with_kernels != without).any()


def test_a_library_that_does_not_load_leaves_a_line_and_the_model_serves(
    decoder, monkeypatch, tmp_path, caplog
):
    (tmp_path / "libbraid_onnxruntime.so").write_bytes(b"no library")
    monkeypatch.setattr(
        decoder_session, "kernel_library", lambda engine: tmp_path / "libbraid_onnxruntime.so"
    )
    caplog.set_level(logging.WARNING)
    _, said = logits(decoder)
    assert said == "by onnxruntime"
    assert "is opened without the kernels" in caplog.text
