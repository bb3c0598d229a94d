"""GGUF files of random weights of Qwen3.5's kind: of the types that llama.cpp chooses, converted, computed."""

from dataclasses import replace

import gguf
import numpy as np

from pipelines.gguf.convert import convert
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession
from tools.lab.bench.random_hybrid import QWEN35_4B, write_hybrid
from tools.paged_steps import Prompt, prompt_logits

SMALL = replace(
    QWEN35_4B,
    layers=4,
    width=256,
    inner=512,
    heads=2,
    kv_heads=1,
    head_size=64,
    tokens=300,
    key_heads=2,
    value_heads=4,
    net_size=32,
)


def test_a_hybrid_is_that_of_llama_cpp_and_its_states_do_not_grow(tmp_path):
    path = tmp_path / "small.gguf"
    write_hybrid(path, SMALL, "Q4_0")
    shapes = {
        tensor.name: (tensor.tensor_type.name, tensor.shape.tolist())
        for tensor in gguf.GGUFReader(path).tensors
    }
    assert shapes["token_embd.weight"] == ("Q6_K", [256, 300])
    assert shapes["blk.0.attn_qkv.weight"] == ("Q4_0", [256, 256])
    assert shapes["blk.3.attn_q.weight"] == ("Q4_0", [256, 256])
    assert "blk.3.ssm_a" not in shapes
    assert shapes["blk.2.ssm_a"] == ("F32", [4])
    convert(path, tmp_path / "folder")
    session = OnnxCpuSession(tmp_path / "folder" / "model.onnx")
    prompt = Prompt(np.arange(64) % 290, np.arange(64))
    (logits,) = prompt_logits(session, [prompt], 64)
    session.close()
    assert np.isfinite(logits).all()
    assert 0.5 < np.std(logits[-8:]) / np.std(logits[:8]) < 2
