"""Adapters beside weights of few bits: each text has the vectors of transformers on the dequantized weights into
which the adapter is merged.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import openvino as ov
import pytest
from compressed_weights import dequantized
from later import Later
from recorded_encoder_adapters import FOLDER, LONGEST, ORDER
from test_encoder_adapters import NUMBERS, WAYS, rows

from pipelines.adapters.read_adapter import adapter_folders, adapter_targets, read_adapter
from pipelines.gguf.convert import FLOAT_SUMS
from pipelines.inference.backends.open_model import open_encoder
from pipelines.inference.contracts.encoder_contract import EncoderSession

torch = Later("torch")
tiny = Later("tiny_encoders")

pytestmark = pytest.mark.breadth

NEAR = 2e-5


def write_compressed(source: Path, folder: Path, file: str, weights: str) -> Path:
    """The encoder of `source` with weights of few bits, as `braid export` compresses them, and sums of floats."""
    from tools.export.encoders.whole_openvino import compressed
    from tools.export.graphs.quantizing import quantize

    folder.mkdir()
    (folder / "config.json").write_bytes((source / "config.json").read_bytes())
    if file == "model.onnx":
        model = quantize(ir.load(source / file), weights)
        for node in model.graph:
            if "accuracy_level" in node.attributes:  # ONNX Runtime would round what its products read
                node.attributes["accuracy_level"] = ir.AttrInt64("accuracy_level", FLOAT_SUMS)
        ir.save(model, folder / file)
    else:
        model = ov.Core().read_model(source / file)
        ov.save_model(compressed(model, weights), folder / file, compress_to_fp16=False)
    return folder / file


def merged(family: str, weights: dict[str, np.ndarray], adapter: Any) -> Any:
    """transformers' model of these weights, with an adapter of Braid's, or none, merged into them."""
    model = tiny.make_model(family)
    state = model.state_dict()
    with torch.no_grad():
        for name, values in weights.items():
            state[name].copy_(torch.from_numpy(values.copy()))
        for linear, own in () if adapter is None else adapter.linears.items():
            [name] = (
                name_of_weight for name_of_weight in state if name_of_weight.endswith(f"{linear}.weight")
            )
            state[name].add_(torch.from_numpy(own.b @ own.a))
    return model


@pytest.fixture(params=WAYS)
def way(request) -> str:
    return request.param


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("family", ["bert", "qwen3-scorer"])
def test_adapters_beside_weights_of_few_bits(encoders, tmp_path, family, weights, way):
    folders = adapter_folders(FOLDER / family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and nncf, of themselves
        file = write_compressed(encoders(family), tmp_path / weights, way.partition(" ")[0], weights)
    encoder: EncoderSession = open_encoder(file, replace(WAYS[way], targets=adapter_targets(folders)))
    adapters = {folder.name: read_adapter(folder, encoder.linears, max_rank=8) for folder in folders}
    for name, adapter in adapters.items():
        encoder.put_adapter(NUMBERS[name], adapter)
    floats, asked = dequantized(file), tiny.texts(len(ORDER), LONGEST)
    models = {name: merged(family, floats, adapters.get(name)) for name in {*ORDER}}
    wanted = [tiny.rows_alone(models[name], text) for name, text in zip(ORDER, asked, strict=True)]
    for row, expected in zip(rows(encoder, asked, ORDER), wanted, strict=True):
        np.testing.assert_allclose(row, expected, rtol=0, atol=NEAR)
    base = rows(encoder, asked, [None] * len(ORDER))
    assert [np.abs(row - expected).max() < NEAR for row, expected in zip(base, wanted, strict=True)] == [
        name is None for name in ORDER
    ]
    encoder.close()
