"""Hybrid decoders that `braid export` writes: texts of transformers, also where one continues another's state."""

from __future__ import annotations

import importlib.util

import pytest
from breadth import after
from golden_texts import check_texts

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from tools.export.decoders.decoder import export_decoder
from tools.lab.breadth.families import SIZES
from tools.lab.breadth.trial import write_model

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
pytestmark = [pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra"), pytest.mark.slow]
NEWER = ("lfm2_moe", "gemma3n_text, shared keys", "jamba", "olmo_hybrid", "recurrent_gemma")
"""Rows that transformers 5 alone exports."""


@pytest.mark.parametrize("row", after(0, ["minimax", "zamba2", "falcon_h1", "bloom", *NEWER]))
def test_texts_are_those_of_transformers(tmp_path, row):
    from transformers import AutoModelForCausalLM, __version__

    if row in NEWER and int(__version__.partition(".")[0]) < 5:
        pytest.skip("transformers 4 does not export it")
    write_model(row, tmp_path / "source")
    export_decoder(str(tmp_path / "source"), tmp_path / "model", "fp32", form="onnx")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "source", attn_implementation="eager").float()
    settings = OpenVINOSettings("cpu", "f32", "f32", 1)
    session = OpenVINOSession(tmp_path / "model" / "model.onnx", settings)
    check_texts(model.eval(), session, SIZES["vocab_size"])
