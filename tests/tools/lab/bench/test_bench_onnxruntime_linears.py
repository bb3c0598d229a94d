"""The measurement of linear layers in ONNX Runtime: its forms compute the same, and its table has all of them."""

import sys

import numpy as np

from tools.lab.bench import onnxruntime_linears as bench


def test_the_forms_compute_the_same_sums(kernel_folder):
    forms = bench.open_forms(64, 128, 2, kernel_folder / "libbraid_onnxruntime.so")
    rows = np.random.default_rng(0).standard_normal((1, 5, 128), np.float32)
    parts, rounded, kernels = (np.array(run(rows)) for run in forms.values())
    np.testing.assert_allclose(kernels, parts, rtol=1e-3, atol=1e-3)
    assert np.abs(rounded - parts).max() > np.abs(kernels - parts).max()


def test_the_table_has_a_row_for_each_shape_and_count(kernel_folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", str(kernel_folder / "libbraid_onnxruntime.so")])
    bench.main(shapes=((64, 128),), weights=64 * 128)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == [str(count) for count in bench.ROWS]
