"""Encoders in GGUF files that transformers does not have give llama.cpp's vectors of the same files.

The recorded vectors are those of llama.cpp build 11549 (CPU), without flash attention, not normalized by it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from breadth import after
from gguf import GGMLQuantizationType as Type
from gguf_files import quantized
from later import Later
from test_encoder import INNER, LAYERS, MEAN, TEXTS, WIDTH, begun, finish
from test_tokenizer_kinds import word_pieces

from pipelines import Local
from pipelines.gguf.convert import convert
from pipelines.gguf.encoder import alibi_slopes
from pipelines.gguf.errors import GgufError
from pipelines.inference.backends.openvino.encoder.encoder_model import read_encoder
from pipelines.inference.contracts.device_errors import Unsupported

bloom = Later("transformers.models.bloom.modeling_bloom")

RECORDED = Path(__file__).parents[2] / "fixtures" / "recorded" / "llama_cpp_vectors.json"
EXPERTS, USED = 4, 2


class Encoder:
    """A file of random weights; `kind` is that of its linear layers."""

    def __init__(self, path, architecture, kind=Type.F32):
        self.writer = begun(path, architecture, word_pieces(), MEAN, 1e-12)
        self.rng, self.kind = np.random.default_rng(7), kind

    def vector(self, name, size, mean=0.0):
        self.writer.add_tensor(name, (mean + self.rng.normal(0, 0.1, size)).astype(np.float32))

    def norm(self, name):
        self.vector(f"{name}.weight", WIDTH, 1.0)
        self.vector(f"{name}.bias", WIDTH)

    def weight(self, name, *shape, kind=Type.F32):
        values = self.rng.normal(0, 0.15, shape).astype(np.float32)
        raw, _ = quantized(kind, values, self.rng)
        self.writer.add_tensor(f"{name}.weight", raw, raw_dtype=kind)

    def linear(self, name, rows, width, bias=True):
        self.weight(name, rows, width, kind=self.kind)
        if bias:
            self.vector(f"{name}.bias", rows)

    def embeddings(self):
        self.weight("token_embd", len(word_pieces()), WIDTH)
        self.weight("token_types", 2, WIDTH)
        self.norm("token_embd_norm")


def write_jina(path, kind=Type.F32, norms=False, joined=False):
    """`norms` of queries and keys, and a second one behind attention; `joined`: gates before the rest."""
    encoder = Encoder(path, "jina-bert-v2", kind)
    encoder.embeddings()
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            encoder.linear(f"{at}{name}", WIDTH, WIDTH)
        for name in ("attn_q_norm", "attn_k_norm", "attn_norm_2") if norms else ():
            encoder.norm(f"{at}{name}")
        if joined:
            encoder.linear(f"{at}ffn_up", 2 * INNER, WIDTH, bias=False)
        else:
            encoder.linear(f"{at}ffn_gate", INNER, WIDTH, bias=False)
            encoder.linear(f"{at}ffn_up", INNER, WIDTH, bias=False)
        encoder.linear(f"{at}ffn_down", WIDTH, INNER)
        encoder.norm(f"{at}attn_output_norm")
        encoder.norm(f"{at}layer_output_norm")
    finish(encoder.writer)


def write_nomic_moe(path, kind=Type.F32):
    encoder = Encoder(path, "nomic-bert-moe", kind)
    encoder.writer.add_rope_freq_base(10000.0)
    encoder.writer.add_moe_every_n_layers(2)
    encoder.writer.add_expert_count(EXPERTS)
    encoder.writer.add_expert_used_count(USED)
    encoder.embeddings()
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        encoder.linear(f"{at}attn_qkv", 3 * WIDTH, WIDTH)
        encoder.linear(f"{at}attn_output", WIDTH, WIDTH)
        if layer % 2:
            encoder.weight(f"{at}ffn_gate_inp", EXPERTS, WIDTH)
            encoder.weight(f"{at}ffn_up_exps", EXPERTS, INNER, WIDTH, kind=kind)
            encoder.weight(f"{at}ffn_down_exps", EXPERTS, WIDTH, INNER, kind=kind)
        else:
            encoder.linear(f"{at}ffn_up", INNER, WIDTH)
            encoder.linear(f"{at}ffn_down", WIDTH, INNER)
        encoder.norm(f"{at}attn_output_norm")
        encoder.norm(f"{at}layer_output_norm")
    finish(encoder.writer)


FILES = {
    "jina-bert-v2": write_jina,
    "jina-bert-v2, joined": lambda path: write_jina(path, joined=True),
    "jina-bert-v2, norms": lambda path: write_jina(path, norms=True),
    "jina-bert-v2, Q8_0": lambda path: write_jina(path, Type.Q8_0),
    "nomic-bert-moe": write_nomic_moe,
    "nomic-bert-moe, Q8_0": lambda path: write_nomic_moe(path, Type.Q8_0),
}
TOLERANCE = {"Q8_0": 2e-3}
"""What one minus the cosine may be; llama.cpp computes GELU by tanh and from a table of float16."""


@pytest.mark.parametrize("name", after(1, sorted(FILES, reverse=True)))
def test_vectors_are_those_of_llama_cpp(tmp_path, name):
    FILES[name](tmp_path / "small.gguf")
    wanted = np.array(json.loads(RECORDED.read_text())[name])
    with Local(tmp_path / "small.gguf", cache=tmp_path / "cache") as braid:
        vectors = np.array(braid.embed(TEXTS))
    cosines = (vectors * wanted).sum(1) / np.linalg.norm(wanted, axis=1)
    assert abs(1 - cosines).max() < TOLERANCE.get(name.rpartition(" ")[2], 1e-5)


def test_openvino_says_which_engine_computes_routed_experts(tmp_path):
    write_nomic_moe(tmp_path / "a.gguf")
    convert(tmp_path / "a.gguf", tmp_path / "model")
    with pytest.raises(Unsupported, match=r"routed experts, .* write `engine: onnxruntime`"):
        read_encoder(tmp_path / "model" / "model.onnx", None)


@pytest.mark.parametrize("heads", [4, 6, 8, 12])
def test_slopes_are_those_of_transformers(heads):
    import torch

    ones = torch.ones(1, 2)
    wanted = bloom.build_alibi_tensor(ones, heads, torch.float32).reshape(heads, 2)[:, 1].numpy()
    np.testing.assert_allclose(alibi_slopes(heads), wanted, rtol=1e-6)


def test_gates_whose_place_the_file_does_not_say_are_refused(tmp_path):
    write_jina(tmp_path / "a.gguf", norms=True, joined=True)
    with pytest.raises(GgufError, match="ffn_up with a gate in it and norms of queries"):
        convert(tmp_path / "a.gguf", tmp_path / "model")
