"""Quantized checkpoints become plain ones: each layout is packed here by hand, and gives its weights back."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

if not all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
    pytest.skip("needs the export extra", allow_module_level=True)

from later import Later

from tools.export.base.folder import ExportError

torch, files, layouts = Later("torch"), Later("safetensors.torch"), Later("quantized_layouts")
dequantizing = Later("tools.export.base.dequantizing")
NAMES = (
    "gptq",
    "gptq, act order",
    "awq",
    "fp8",
    "compressed-tensors, packed",
    "compressed-tensors, fp8",
    "bitsandbytes, nf4",
    "bitsandbytes, int8",
)


def checkpoint(folder: Path, settings: dict[str, Any], parts: dict[str, torch.Tensor]) -> Path:
    folder.mkdir()
    config = {"model_type": "llama", "dtype": "float32", "quantization_config": settings}
    (folder / "config.json").write_text(json.dumps(config))
    weights = {f"layers.0.up.{part}": tensor.contiguous() for part, tensor in parts.items()}
    files.save_file(weights | {"norm.weight": torch.ones(3)}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("case", NAMES)
def test_a_layout_gives_its_weights_back(case, tmp_path):
    settings, parts, expected = layouts.CASES[case]
    made = dequantizing.dequantized(
        str(checkpoint(tmp_path / "source", settings, parts)), tmp_path / "plain", lambda _: None
    )
    weights = files.load_file(Path(made) / "model.safetensors")
    assert set(weights) == {"layers.0.up.weight", "norm.weight"}
    torch.testing.assert_close(weights["layers.0.up.weight"], expected.float())
    assert "quantization_config" not in json.loads((Path(made) / "config.json").read_text())


def test_a_plain_checkpoint_is_taken_as_it_is(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert dequantizing.dequantized(str(tmp_path), tmp_path / "plain", lambda _: None) == str(tmp_path)


@pytest.mark.parametrize(
    ("settings", "parts", "why"),
    [
        ({"quant_method": "hqq"}, dict, "weights that hqq quantized"),
        ({"quant_method": "gptq", "bits": 3}, lambda: layouts.CASES["gptq"][1], "codes of 3 bits"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, lambda: layouts.CASES["awq"][1], "gemv"),
        ({"quant_method": "fp8"}, lambda: {"weight": layouts.FLOAT8}, "without scales"),
        (
            {"quant_method": "compressed-tensors"},
            lambda: layouts.CASES["compressed-tensors, fp8"][1] | {"weight_global_scale": torch.ones(1)},
            "nvfp4",
        ),
    ],
)
def test_what_cannot_be_undone_is_refused_by_its_name(settings, parts, why, tmp_path):
    with pytest.raises(ExportError, match=why):
        dequantizing.dequantized(
            str(checkpoint(tmp_path / "source", settings, parts())), tmp_path / "plain", lambda _: None
        )


def test_every_layout_is_tried():
    assert {*NAMES} == {*layouts.CASES}
