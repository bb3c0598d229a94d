"""Adapters beside an OpenVINO IR whose weights have few bits: logits are those of transformers on the dequantized
weights into which the adapter is merged.
"""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace

import numpy as np
import openvino as ov
import pytest
from adapter_batches import NUMBERS
from compressed_weights import dequantized
from later import Later
from lone_steps import step
from recorded_adapters import FAMILIES, ROOT, recorded_cases

from pipelines.adapters.read_adapter import adapter_folders, adapter_targets, read_adapter
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings

torch = Later("torch")

pytestmark = [pytest.mark.slow, pytest.mark.breadth]

NEAR = {None: 3e-5, 2: 6e-4}
"""Levels of activations → root of the mean square of what logits, of deviation 1.6, may differ by."""


@pytest.fixture(params=["int8", "int4"])
def weights(request) -> str:
    return request.param


@pytest.mark.parametrize("levels", [None, 2])
@pytest.mark.parametrize("recording", ["layers", "qwen3", "phi3"])
def test_logits_are_those_of_merged_dequantized_weights(
    exported, tmp_path, recording, weights, levels, kernels
):
    from tools.export.encoders.whole_openvino import compressed

    source, folder = exported(FAMILIES[recording])
    file = tmp_path / "openvino_model.xml"
    shutil.copy(folder / "config.json", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = compressed(ov.Core().read_model(folder / file.name), weights)
    ov.save_model(model, file, compress_to_fp16=False)
    floats, folders = dequantized(file), adapter_folders(ROOT / recording)
    assert len(floats) >= 10  # all products and both ends
    settings = OpenVINOSettings(precision="f32", kv_cache="f32", targets=adapter_targets(folders))
    if levels is not None:
        settings = replace(settings, kernels=kernels(levels))
    session = OpenVINOSession(file, settings)
    session.reserve(128, 1)
    session.allocate(16)
    adapters = {folder.name: read_adapter(folder, session.linears, max_rank=8) for folder in folders}
    for name, adapter in adapters.items():
        session.put_adapter(NUMBERS[name], adapter)
    for name, prompt, _ in recorded_cases(recording)[:4]:
        own = () if name is None else adapters[name].linears.items()
        differences = logits(session, NUMBERS[name], prompt) - merged(source, floats, own, prompt)
        assert np.sqrt(np.mean(np.square(differences))) < NEAR[levels]
    session.close()


def logits(session, adapter: int, prompt: list[int]) -> np.ndarray:
    blocks = list(range(-(-len(prompt) // session.shape.block_tokens)))
    alone = step(prompt, 0, blocks, list(range(len(prompt))))
    return session.run(replace(alone, adapters=np.array([adapter], np.int32))).copy()


def merged(source, floats, linears, prompt) -> np.ndarray:
    with torch.no_grad():
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
        state = model.state_dict()
        for name, values in floats.items():
            state[name].copy_(torch.from_numpy(values.copy()))
        for linear, own in linears:
            state[f"model.{linear}.weight"].add_(torch.from_numpy(own.b @ own.a))
        return model(torch.tensor([prompt])).logits[0].numpy()
