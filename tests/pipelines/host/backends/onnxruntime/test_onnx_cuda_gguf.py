"""GGUF files on CUDA: a graph of operators that ONNX Runtime has there, and transformers' tokens by way of its
session.
"""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from breadth import after
from gguf import GGMLQuantizationType as Type
from gguf_files import write_llama_like
from gguf_hybrids import write_lfm2
from golden_texts import chosen
from greedy_batches import NUM_TOKENS, generate_together, greedy_engine
from host_device import HostDevice
from host_runtime import HostRuntime, lower_for_host
from later import Later

from pipelines.gguf.convert import INT8_SUMS, convert
from pipelines.host.backends.onnx.read_decoder import read_decoder
from pipelines.host.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.host.backends.onnxruntime.cuda.lowering import lower
from pipelines.host.contracts.device_errors import Unsupported

torch = Later("torch")
hf = Later("transformers")

CODES, SCALES = 1, 2


def converted(folder, write=write_llama_like, **options):
    """The model.onnx of a small file, and the weights that it stands for."""
    state = write(folder / "small.gguf", **options)
    convert(folder / "small.gguf", folder / "model", INT8_SUMS)
    return folder / "model" / "model.onnx", state


@pytest.mark.parametrize("kind", after(2, ["Q4_0", "Q4_K", "Q8_0", "Q6_K", "MXFP4"]))
def test_linear_layers_are_of_whole_zero_points(tmp_path, kind):
    """ONNX Runtime unpacks a weight with others at every call: the rest is multiplied with sums of blocks."""
    path, _ = converted(tmp_path, kind=Type[kind])
    lowered = lower(read_decoder(path))
    assert lowered.uncapturable == ()
    proto = onnx.load_from_string(lowered.model)
    linears = [node for node in proto.graph.node if node.op_type == "MatMulNBits"]
    assert linears
    assert {len([name for name in node.input if name]) for node in linears} == {SCALES + 1}
    bits = {each.i for node in linears for each in node.attribute if each.name == "bits"}
    assert bits <= {4, 8}
    assert {node.domain for node in proto.graph.node} == {"", "com.microsoft"}
    onnx.shape_inference.infer_shapes(proto, strict_mode=True)


@pytest.mark.parametrize("kind", after(1, ["Q4_1", "Q6_K"]))
def test_texts_are_those_of_transformers(tmp_path, kind):
    path, state = converted(tmp_path, kind=Type[kind])
    config = hf.LlamaConfig(
        vocab_size=json.loads((path.parent / "config.json").read_text())["vocab_size"],
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )
    model = hf.LlamaForCausalLM(config).float().eval()
    model.load_state_dict({name: torch.tensor(each) for name, each in state.items()}, strict=False)
    convert(tmp_path / "small.gguf", tmp_path / "exact", 0)
    session = OnnxCudaSession(lower_for_host(tmp_path / "exact" / "model.onnx"), HostDevice(), HostRuntime())
    prompts = [np.random.default_rng(7).integers(5, config.vocab_size, size).tolist() for size in (5, 90, 33)]
    texts, _ = generate_together(greedy_engine(session, num_blocks=24), prompts, preempting=True)
    session.close()
    assert texts == [chosen(model, *each) for each in zip(prompts, texts, strict=True)]
    assert {len(text) for text in texts} == {NUM_TOKENS}


def test_states_are_refused_by_name(tmp_path):
    path, _ = converted(tmp_path, write_lfm2)
    with pytest.raises(
        Unsupported, match=r"recurrent layers \(ShortConv\), which Braid does not compute on cuda"
    ):
        lower(read_decoder(path))
