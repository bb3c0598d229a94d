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
from gguf_hybrids import write_delta_net, write_granite_hybrid, write_lfm2
from golden_texts import chosen
from greedy_batches import NUM_TOKENS, generate_together, greedy_engine
from host_device import HostDevice
from host_runtime import HostRuntime, lower_for_host
from later import Later

from pipelines.gguf.convert import INT8_SUMS, convert
from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cuda import state_library as state_module
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.inference.backends.onnxruntime.cuda.lowering import lower
from pipelines.inference.backends.onnxruntime.cuda.recurrent import STATES_DOMAIN
from pipelines.inference.backends.onnxruntime.cuda.state_library import state_library
from pipelines.inference.contracts.device_errors import ModelError

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
    bits = {attribute.i for node in linears for attribute in node.attribute if attribute.name == "bits"}
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
    model.load_state_dict({name: torch.tensor(weight) for name, weight in state.items()}, strict=False)
    convert(tmp_path / "small.gguf", tmp_path / "exact", 0)
    session = OnnxCudaSession(lower_for_host(tmp_path / "exact" / "model.onnx"), HostDevice(), HostRuntime())
    prompts = [np.random.default_rng(7).integers(5, config.vocab_size, size).tolist() for size in (5, 90, 33)]
    texts, _ = generate_together(greedy_engine(session, num_blocks=24), prompts, preempting=True)
    session.close()
    assert texts == [chosen(model, *prompt) for prompt in zip(prompts, texts, strict=True)]
    assert {len(text) for text in texts} == {NUM_TOKENS}


@pytest.mark.parametrize(
    ("write", "kinds"),
    after(
        1,
        [
            (write_delta_net, {"ShortConv", "GatedDeltaNet"}),
            (write_granite_hybrid, {"ShortConv", "Mamba2"}),
            (write_lfm2, {"ShortConv"}),
        ],
    ),
)
def test_recurrent_layers_are_operators_over_rows_of_states(tmp_path, write, kinds):
    path, _ = converted(tmp_path, write)
    lowered = lower(read_decoder(path))
    assert lowered.uncapturable == ()
    proto = onnx.load_from_string(lowered.model)
    nodes = [node for node in proto.graph.node if node.domain == STATES_DOMAIN]
    assert {node.op_type for node in nodes} == kinds
    assert {node.domain for node in proto.graph.node} == {"", "com.microsoft", STATES_DOMAIN}
    states = {node.input[-3]: value for node, value in zip(nodes, lowered.state_shapes, strict=True)}
    declared = {value.name: value.type.tensor_type.shape.dim for value in proto.graph.input}
    assert {name: tuple(size.dim_value for size in declared[name][1:]) for name in states} == states
    assert {tuple(node.input[-2:]) for node in nodes} == {("state_steps", "state_kernels")}
    onnx.shape_inference.infer_shapes(proto, strict_mode=True)


def test_states_need_the_compiled_operators(monkeypatch):
    """Tests have no kernels unless they ask for them."""
    with pytest.raises(
        ModelError, match=r"compiled with the CPU kernels .*\(CPU kernels: off.*C\+\+ compiler"
    ):
        state_library()
    monkeypatch.setattr(state_module, "setting", lambda: "auto")
    monkeypatch.setattr(state_module, "runs_here", lambda: True)
    monkeypatch.setattr(state_module, "find_compiler", lambda: None)
    with pytest.raises(ModelError, match="install a C"):
        state_library()


def test_a_load_waits_for_another_process_that_compiles_the_operators(monkeypatch, tmp_path):
    library, waited = tmp_path / "libbraid_onnxruntime.so", []
    monkeypatch.setattr(state_module, "setting", lambda: "auto")
    monkeypatch.setattr(state_module, "runs_here", lambda: True)
    monkeypatch.setattr(state_module, "find_compiler", lambda: "g++")
    monkeypatch.setattr(state_module, "kernel_library", lambda _: library if waited else None)
    monkeypatch.setattr(state_module, "compile_kernels", lambda waits: waited.append(waits))
    assert state_library() == library
    assert waited == [True]
