"""The ONNX export is in Braid's format, gives transformers' logits, and refuses what the format cannot express."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from hf_folders import SIZES as TEXT_SIZES
from hf_folders import TEMPLATE, write_decoder, write_whole

from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession
from tools.export.__main__ import main
from tools.export.base.folder import ExportError
from tools.export.decoders.decoder import export_decoder
from tools.paged_steps import Prompt, prompt_logits

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "onnxscript"))
pytestmark = pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra")
WINDOW = 12  # tokens, fewer than the prompts
HALF_WINDOWS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": WINDOW}
SMALL = {"num_key_value_heads": 1, "initializer_range": 0.2, "eos_token_id": None, "pad_token_id": None}
GEMMA2 = SMALL | HALF_WINDOWS | {"head_dim": 32, "attn_logit_softcapping": 3.0, "query_pre_attn_scalar": 16}
MIXTURE = (
    SMALL
    | {"num_hidden_layers": 1, "head_dim": 32}
    | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
)


@pytest.fixture(autouse=True)
def _third_party_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and transformers warn of themselves while they are imported
        yield


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """A Qwen3 with a tied head in `source`, exported by the command line as `fp32`, and Gemma 2 as `gemma`."""
    folder = tmp_path_factory.mktemp("onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_decoder(folder / "source", "qwen3", **SMALL, head_dim=32, tie_word_embeddings=True)
        options = ("--name", "fp32", "--models", str(folder), "--format", "onnx", "--weights", "fp32")
        result = CliRunner().invoke(main, (str(folder / "source"), *options))
        assert result.exit_code == 0, result.output
        write_decoder(folder / "gemma-source", "gemma2", **GEMMA2)
        export_decoder(str(folder / "gemma-source"), folder / "gemma" / "model", form="onnx")
    return folder


@pytest.fixture(scope="module")
def int8(repository) -> Path:
    """The Qwen3 in int8 weights, as `write_traced` makes it of the graph of a trace."""
    import onnx_ir as ir

    from tools.export.decoders.onnx_decoder import DATA, MODEL
    from tools.export.graphs.quantizing import quantize

    folder = repository / "int8"
    folder.mkdir()
    graph = quantize(ir.load(repository / "fp32" / "model" / MODEL), "int8")
    ir.save(graph, folder / MODEL, external_data=DATA)
    return folder / MODEL


def graph_of(file: Path) -> Any:
    import onnx

    return onnx.load(file, load_external_data=False).graph


def attributes(file: Path) -> list[dict[str, Any]]:
    """Of the attention nodes, in order."""
    import onnx

    nodes = [node for node in graph_of(file).node if node.op_type == "PagedAttention"]
    return [{each.name: onnx.helper.get_attribute_value(each) for each in node.attribute} for node in nodes]


def logits_of(file: Path, ids: list[int], rows: list[int]) -> np.ndarray:
    """What the graph gives for one prompt, its attention in numpy: float32[rows, vocab]."""
    import onnx
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class PagedAttention(OpRun):
        op_domain = "braid"

        def _run(self, query, key, value, *, num_heads, num_kv_heads, scale, window, softcap, **others):
            group = num_heads // num_kv_heads
            scores = query @ np.repeat(key, group, 1).swapaxes(2, 3) * scale
            scores = np.tanh(scores / softcap) * softcap if softcap else scores
            distance = np.subtract.outer(np.arange(query.shape[2]), np.arange(query.shape[2]))
            seen = (distance >= 0) & (distance < (window if window > 0 else len(distance)))
            weights = np.exp(scores) * seen
            return (weights / weights.sum(-1, keepdims=True) @ np.repeat(value, group, 1),)

    feed = {"input_ids": [ids], "position_ids": [range(len(ids))], "logits_indices": rows}
    inputs = {name: np.array(values_fed, np.int64) for name, values_fed in feed.items()}
    return ReferenceEvaluator(onnx.load(file), new_ops=[PagedAttention]).run(None, inputs)[0]


def expected_logits(source: Path, ids: list[int], kind: str = "AutoModelForCausalLM") -> np.ndarray:
    import torch
    import transformers

    load = getattr(transformers, kind).from_pretrained
    model = load(source, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


PROMPT = [int(each) for each in np.random.default_rng(5).integers(0, 512, 40)]


def test_the_graph_is_in_the_form(repository):
    graph = graph_of(repository / "fp32" / "model" / "model.onnx")
    shapes = {
        value.name: [
            dimension.dim_param or dimension.dim_value for dimension in value.type.tensor_type.shape.dim
        ]
        for value in (*graph.input, *graph.output)
    }
    assert shapes == {
        "input_ids": [1, "num_tokens"],
        "position_ids": [1, "num_tokens"],
        "logits_indices": ["num_logits"],
        "logits": ["num_logits", 512],
    }
    assert {value.type.tensor_type.elem_type for value in graph.input} == {7}  # int64
    assert [value.type.tensor_type.elem_type for value in graph.output] == [1]  # float32


def test_attention_stands_in_its_nodes_alone_and_no_shape_is_computed(repository):
    kinds = [node.op_type for node in graph_of(repository / "fp32" / "model" / "model.onnx").node]
    assert kinds.count("PagedAttention") == 2
    assert not {"Softmax", "Shape", "Where", "Trilu", "Expand", "Attention"} & set(kinds)
    assert kinds.count("RotaryEmbedding") == 4  # query and key of two layers
    assert kinds.count("Cos") == 1


def test_nodes_say_what_their_layers_are(repository):
    for layer, node in enumerate(attributes(repository / "fp32" / "model" / "model.onnx")):
        assert node.pop("key_absmax") > 0
        assert node.pop("value_absmax") > 0
        assert node.pop("scale") == pytest.approx(32**-0.5)
        assert node == {
            "layer": layer,
            "num_heads": 2,
            "num_kv_heads": 1,
            "head_size": 32,
            "window": -1,
            "softcap": 0.0,
        }


def test_windows_and_caps_are_those_of_each_layer(repository):
    nodes = attributes(repository / "gemma" / "model" / "model.onnx")
    assert [node["window"] for node in nodes] == [WINDOW, -1]
    assert [node["softcap"] for node in nodes] == [3.0, 3.0]
    assert [node["scale"] for node in nodes] == [0.25, 0.25]


@pytest.mark.parametrize(("model", "source"), [("fp32", "source"), ("gemma", "gemma-source")])
def test_logits_are_those_of_transformers(repository, model, source):
    given = logits_of(repository / model / "model" / "model.onnx", PROMPT, [3, 39])
    expected = expected_logits(repository / source, PROMPT)[[3, 39]]
    np.testing.assert_allclose(given, expected, atol=1e-4)
    assert expected.std() > 0.1


def test_weights_lie_beside_the_graph_and_a_tied_one_lies_there_once(repository):
    model = repository / "fp32" / "model"
    weights = (repository / "source" / "model.safetensors").stat().st_size
    assert (model / "model.onnx").stat().st_size < 40_000
    assert abs((model / "model.onnx.data").stat().st_size - weights) < 10_000
    assert b".py" not in (model / "model.onnx").read_bytes()  # nothing of the machine that exported


def test_the_folder_has_all_that_serving_reads(repository):
    model = repository / "fp32" / "model"
    wanted = {"model.onnx", "model.onnx.data", "tokenizer.json", "config.json", "generation_config.json"}
    assert {path.name for path in model.iterdir()} >= wanted
    assert (model / "chat_template.jinja").read_text() == TEMPLATE
    assert json.loads((model / "config.json").read_text())["max_position_embeddings"] == 128
    body = yaml.safe_load((repository / "fp32" / "graph.yaml").read_text())["nodes"]["generated"]["body"]
    assert body["logits"]["path"] == "model/model.onnx"


def test_int8_weights_hold_the_head_too(int8, repository):
    kinds = [node.op_type for node in graph_of(int8).node]
    assert kinds.count("MatMulNBits") == 2 * 4 + 1  # q, k and v are one, and so are gate and up
    assert not {"MatMul", "Gemm"} & set(kinds)
    plain = (repository / "fp32" / "model" / "model.onnx.data").stat().st_size
    assert int8.with_suffix(".onnx.data").stat().st_size < plain * 0.45  # a tied head is stored twice


def test_int8_logits_are_near(int8, repository):
    given = dequantized_logits(int8)
    expected = expected_logits(repository / "source", PROMPT)
    assert np.abs(given - expected).mean() < 0.05 * expected.std()
    assert np.abs(given - expected).max() > 0


def dequantized_logits(file: Path) -> np.ndarray:
    """ONNX Runtime's, of all rows of the prompt, with its own attention in the place of the nodes."""
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    model = onnx.load(file)
    model.graph.initializer.append(
        numpy_helper.from_array(np.tri(len(PROMPT), dtype=bool)[None, None], "seen")
    )
    for node in model.graph.node:
        if node.op_type == "PagedAttention":
            scale = next(attribute.f for attribute in node.attribute if attribute.name == "scale")
            inputs = [*node.input, "seen"]
            node.CopyFrom(helper.make_node("Attention", inputs, list(node.output), scale=scale))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ids, order = np.array([PROMPT]), np.arange(len(PROMPT))
    return session.run(None, {"input_ids": ids, "position_ids": order[None], "logits_indices": order})[0]


ERNIE = {"moe_num_experts": 4, "moe_k": 2, "moe_layer_start_index": 0, "moe_intermediate_size": 32}


@pytest.mark.breadth
@pytest.mark.parametrize(("family", "config"), [("qwen3_moe", MIXTURE), ("ernie4_5_moe", SMALL | ERNIE)])
def test_a_mixture_of_experts_is_written_as_a_node(tmp_path, family, config):
    write_decoder(tmp_path / "source", family, **config)
    export_decoder(str(tmp_path / "source"), tmp_path / "model", form="onnx")
    kinds = [node.op_type for node in graph_of(tmp_path / "model" / "model.onnx").node]
    assert kinds.count("Experts") == kinds.count("PagedAttention")
    session = OnnxCpuSession(tmp_path / "model" / "model.onnx")  # the export was compared on OpenVINO
    prompt = Prompt(np.array(PROMPT, np.int64), np.array([0, 39]))
    try:
        (logits,) = prompt_logits(session, [prompt], 16)
    finally:
        session.close()
    np.testing.assert_allclose(logits, expected_logits(tmp_path / "source", PROMPT)[[0, 39]], atol=1e-4)


@pytest.mark.breadth
def test_a_router_keeps_its_weights(tmp_path):
    write_decoder(tmp_path / "source", "qwen3_moe", **MIXTURE)
    export_decoder(str(tmp_path / "source"), tmp_path / "model", "int4", form="onnx")
    kinds = [node.op_type for node in graph_of(tmp_path / "model" / "model.onnx").node]
    assert kinds.count("MatMul") + kinds.count("Gemm") == 1
    assert "Shape" not in kinds
    assert kinds.count("MatMulNBits") == 2 + 1  # attention, the head
    (experts,) = (
        node for node in graph_of(tmp_path / "model" / "model.onnx").node if node.op_type == "Experts"
    )
    bits = {attribute.name: attribute.i for attribute in experts.attribute}
    assert {bits[f"{side}_bits"] for side in ("up", "down", "gate")} == {4}


@pytest.mark.parametrize(
    ("family", "config", "why"),
    [
        ("falcon", {"alibi": True}, "rounds its ALiBi"),
        ("doge", {"keep_window_size": 16}, "16 best keys"),
    ],
)
def test_what_the_form_cannot_say_is_refused(tmp_path, family, config, why):
    write_decoder(tmp_path / "source", family, **SMALL, **config)
    with pytest.raises(ExportError, match=why):
        export_decoder(str(tmp_path / "source"), tmp_path / "models" / "model", form="onnx")
    assert {path.name for path in tmp_path.iterdir()} == {"source"}


@pytest.mark.breadth
def test_dynamic_positions_are_those_of_the_models_context(tmp_path):
    scaling = {"rope_type": "dynamic", "factor": 2.0}
    write_decoder(tmp_path / "source", "llama", **SMALL, rope_scaling=scaling)
    export_decoder(str(tmp_path / "source"), tmp_path / "model", form="onnx")
    given = logits_of(tmp_path / "model" / "model.onnx", PROMPT, [3, 39])
    np.testing.assert_allclose(given, expected_logits(tmp_path / "source", PROMPT)[[3, 39]], atol=1e-4)


@pytest.mark.breadth
def test_a_model_of_images_and_text_is_exported_to_read_text(tmp_path):
    kind, said = "AutoModelForImageTextToText", []
    text = TEXT_SIZES | SMALL | {"rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}}
    eyes = {"depth": 1, "hidden_size": 64, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}
    write_whole(tmp_path / "source", "qwen2_5_vl", kind, text_config=text, vision_config=eyes)
    export_decoder(str(tmp_path / "source"), tmp_path / "model", stage=said.append, form="onnx")
    assert "taking the language model of qwen2_5_vl: it will read text alone" in said
    given = logits_of(tmp_path / "model" / "model.onnx", PROMPT, [3, 39])
    np.testing.assert_allclose(given, expected_logits(tmp_path / "source", PROMPT, kind)[[3, 39]], atol=1e-4)


def test_a_layer_that_looks_at_other_tokens_is_found(repository):
    """Checked on a decoder whose layers leak, since every family that leaks is refused for more than that."""
    import torch

    from tools.export.decoders.loading import load
    from tools.export.decoders.tracing import watch

    model = load(str(repository / "source"), "float32")
    mlp = model.model.layers[1].mlp
    plain = mlp.forward
    mlp.forward = lambda x: plain(x + x.cumsum(1).roll(1, 1) * 0.1)
    with pytest.raises(ExportError, match="cannot express what Qwen3ForCausalLM does"):
        watch(model, [torch.tensor([PROMPT])])


def test_activations_are_for_quantized_weights(tmp_path):
    with pytest.raises(ExportError, match="f16 is for int8 and int4 weights"):
        export_decoder("source", tmp_path, "fp32", form="onnx", activations="f16")
