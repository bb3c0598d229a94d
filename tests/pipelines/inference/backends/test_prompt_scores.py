"""Scores of prompts equal log_softmax of transformers in float32, whatever else is computed beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from breadth import after
from numpy.typing import NDArray
from score_batches import check, score_alone, score_together, scoring_engine
from small_onnx_decoders import VOCABULARY, write_small
from tiny_decoders import prompts
from whole_prompts import logits_of

from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings


def open_onnx(family: str, exported: Any, exported_onnx: Any) -> Any:
    return OnnxCpuSession(exported_onnx(family), OnnxCpuSettings(threads=1))


def open_openvino(family: str, exported: Any, exported_onnx: Any) -> Any:
    settings = OpenVINOSettings(kv_cache="f32", precision="f32")
    return OpenVINOSession(exported(family)[1] / "openvino_model.xml", settings)


class Reference:
    """log_softmax of what transformers computes for one whole prompt."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def __call__(self, prompt: list[int]) -> NDArray[np.float32]:
        import torch

        with torch.no_grad():
            logits = self.model(torch.tensor([prompt])).logits[0]
            return torch.log_softmax(logits, dim=-1).numpy()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "opener"),
    after(
        2,
        [
            *(("mistral", open_onnx), ("llama", open_openvino)),
            *(("llama", open_onnx), ("mistral", open_openvino)),
        ],
    ),
)
@pytest.mark.filterwarnings("ignore")  # transformers warns of itself
def test_scores_equal_transformers(family, opener, source, exported, exported_onnx):
    session, reference = opener(family, exported, exported_onnx), Reference(source(family))
    check(score_alone(scoring_engine(session), prompts()), prompts(), reference)
    check(score_together(scoring_engine(session), prompts()), prompts(), reference)
    check(score_together(scoring_engine(session, reuse_prefixes=False), prompts()), prompts(), reference)
    session.close()


def test_scores_equal_those_of_whole_prompts(tmp_path):
    path = write_small(tmp_path)
    session, decoder = OnnxCpuSession(path, OnnxCpuSettings(threads=1, block_tokens=8)), read_decoder(path)
    random = np.random.default_rng(1)
    wanted = [random.integers(0, VOCABULARY, size).tolist() for size in (2, 8, 30)]
    wanted.append(wanted[2][:20] + wanted[1])

    def reference(prompt: list[int]) -> NDArray[np.float32]:
        logits = logits_of(decoder, prompt)
        return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)

    check(score_alone(scoring_engine(session), wanted), wanted, reference)
    check(score_together(scoring_engine(session), wanted), wanted, reference)
    session.close()
