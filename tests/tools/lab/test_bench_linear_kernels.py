"""Random GGUF files, and how steps over them are compared."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.gguf.reader import read_gguf
from pipelines.gguf.weights import read_blocks
from tools.lab.bench import linear_kernels, random_gguf


@pytest.mark.parametrize("kind", ["Q4_1", "Q4_K_M", "Q8_0"])
def test_random_files_have_weights_of_about_the_right_size(tmp_path, kind):
    shape = random_gguf.SHAPES["tiny"]
    random_gguf.write(tmp_path / "tiny.gguf", shape, kind)
    tensors = read_gguf(tmp_path / "tiny.gguf").tensors
    for name in ("blk.0.attn_v.weight", "blk.1.ffn_up.weight", "token_embd.weight"):
        blocks = read_blocks(tensors[name], widen=True)
        zeros = 128 if blocks.zeros is None else blocks.zeros[..., None]
        weights = (blocks.packed.astype(np.float32) - zeros) * blocks.scales[..., None]
        assert 0.4 < weights.std() * shape.width**0.5 < 2.5
        assert abs(weights.mean()) < weights.std() / 2
    assert tensors["blk.0.attn_v.weight"].type.name == ("Q6_K" if kind == "Q4_K_M" else kind)
    assert tensors["blk.1.attn_v.weight"].type.name == ("Q4_K" if kind == "Q4_K_M" else kind)


def test_a_row_has_both_times_of_each_way_and_the_ratios():
    found = {"f32": [(9.0, 8.0), (10.0, 8.0)], "two levels": [(4.5, 2.0), (5.0, 2.0)]}
    assert linear_kernels.row((2, 1), found) == "| 2 x 1 | 9.0, 8.0 | 4.5, 2.0 | 2.00, 4.00 |"


@pytest.mark.slow
def test_steps_of_a_file_take_turns(tmp_path, monkeypatch, capsys, kernel_folder):
    monkeypatch.setenv("BRAID_KERNELS", str(kernel_folder))
    monkeypatch.setattr(linear_kernels, "SIZES", ((1, 1), (1, 4)))
    random_gguf.write(tmp_path / "tiny.gguf", random_gguf.SHAPES["tiny"], "Q4_0")
    monkeypatch.setattr("sys.argv", ["linear_kernels", str(tmp_path / "tiny.gguf"), "--rounds", "1"])
    linear_kernels.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines[:4]] == [f"- {way}" for way in linear_kernels.WAYS]
    assert lines[0].endswith("linear layers by openvino")
    assert "9 of 9 by braid kernels" in lines[1]
    assert "one level" in lines[3]
    assert np.all([line.count("|") == 8 for line in lines[5:]])
