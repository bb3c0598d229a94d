"""Types of weights in mmproj files: each encoder gives what it gives of the numbers that they mean."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf_vision import FAMILIES, write_projector

from pipelines.gguf.convert import FLOAT_SUMS
from pipelines.gguf.reader import read_gguf
from pipelines.gguf.vision_files import config_of
from pipelines.gguf.write_vision import write_vision
from pipelines.inference.backends.onnxruntime.cpu.patch_encoder import OnnxPatchEncoder
from pipelines.inference.backends.openvino.encoder.patch_encoder import PatchEncoder
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSettings

FAMILY = FAMILIES["qwen2_5_vl"]  # whose widths are whole blocks
GRID = np.array([[3, 2]], np.int32)
ENCODERS = {
    "openvino": lambda path: PatchEncoder(path, EncoderSettings(precision="f32")),
    "onnxruntime": lambda path: OnnxPatchEncoder(path, EncoderSettings()),
}


def converted(folder, kind, is_meant):
    """The encoder's file of an mmproj file."""
    folder.mkdir()
    write_projector(FAMILY, folder / "mmproj.gguf", kind, is_meant)
    facts, _ = write_vision(read_gguf(folder / "mmproj.gguf"), folder / "vision", FLOAT_SUMS)
    config, _ = config_of(facts, lambda _: 0)
    (folder / "vision" / "config.json").write_text(json.dumps(config))
    return folder / "vision" / "patches.onnx"


def embeddings(path, engine):
    encoder = ENCODERS[engine](path)
    lengths = GRID.prod(axis=1)
    features = np.random.default_rng(1).normal(size=(lengths[0], *encoder.columns)).astype(np.float32)
    blank = np.zeros((1, lengths[0]), np.int64)
    values = encoder.run(TokenBatch(blank, lengths, blank, np.ones(1, np.bool_), features, GRID)).copy()
    encoder.close()
    return values


@pytest.mark.breadth
@pytest.mark.parametrize("kind", [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0])
def test_embeddings_are_those_of_the_numbers_that_weights_mean(tmp_path, kind):
    path, meant = (converted(tmp_path / str(number), kind, bool(number)) for number in range(2))
    for engine in ENCODERS:
        wanted = embeddings(meant, engine)
        np.testing.assert_allclose(embeddings(path, engine), wanted, rtol=2e-4, atol=2e-4 * wanted.std())
