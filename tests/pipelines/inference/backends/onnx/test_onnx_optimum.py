"""Optimum's exports, read into the form."""

from __future__ import annotations

import json
import shutil
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from breadth import after
from greedy_batches import generate_together, greedy_engine
from tiny_decoders import SLIDING, prompts
from whole_prompts import logits_of

from pipelines.inference.backends.declared_attention import read_attention_windows
from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.contracts.device_errors import ModelError

FAMILIES = {
    "mistral": {},
    "gemma2": {"attn_logit_softcapping": 2.0},  # which the traced graph leaves out
    "qwen3": {},
    "phi3": {"sliding_window": SLIDING},
}
PROMPT = prompts()[1]
FULL, SLIDES = "full_attention", "sliding_attention"


@pytest.fixture(scope="module")
def optimum(tmp_path_factory):
    """`optimum(family)` → (Hugging Face folder, folder of optimum's export)."""
    exporters = pytest.importorskip("optimum.exporters.onnx", reason="needs optimum-onnx")
    from tiny_decoders import write_decoder

    root = tmp_path_factory.mktemp("optimum")

    @cache
    def make(family: str) -> tuple[Path, Path]:
        source, folder = root / family, root / f"{family}-onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch and transformers warn of themselves while they trace
            write_decoder(family, source, **FAMILIES[family])
            exporters.main_export(
                str(source), str(folder), task="text-generation-with-past", do_validation=False
            )
        return source, folder

    return make


@pytest.fixture
def copied(optimum, tmp_path):
    """`copied(family)` → a copy of the export to spoil."""
    return lambda family: Path(shutil.copytree(optimum(family)[1], tmp_path / family))


def transformers_logits(folder: Path) -> np.ndarray:
    """Eager attention: the only one of transformers that caps Gemma 2's scores."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits[0].numpy()


@pytest.mark.parametrize("family", after(1, sorted(FAMILIES)))
def test_logits_equal_transformers(family, optimum):
    source, folder = optimum(family)
    given = logits_of(read_decoder(folder / "model.onnx"), PROMPT)
    np.testing.assert_allclose(given, transformers_logits(source), atol=1e-4)


def test_tokens_of_mixed_batches_equal_transformers(optimum):
    """The export counts positions in its graph; here they come from each row's own past."""
    from tiny_decoders import generate_alone

    source, folder = optimum("mistral")
    session = OnnxCpuSession(folder / "model.onnx", OnnxCpuSettings(threads=1))
    some = prompts()[:3]
    texts, _ = generate_together(greedy_engine(session, num_blocks=64), some)
    session.close()
    assert texts == generate_alone(source, some, len(texts[0]))


def test_only_the_rows_asked_for(optimum):
    decoder = read_decoder(optimum("gemma2")[1] / "model.onnx")
    rows = [89, 3, 3]
    np.testing.assert_array_equal(logits_of(decoder, PROMPT, rows), logits_of(decoder, PROMPT)[rows])


def test_layers(optimum):
    decoder = read_decoder(optimum("gemma2")[1] / "model.onnx")
    assert [layer.window for layer in decoder.layers] == [SLIDING, -1]
    assert {(layer.num_heads, layer.num_kv_heads, layer.head_size) for layer in decoder.layers} == {
        (2, 1, 32)
    }
    assert {layer.softcap for layer in decoder.layers} == {2.0}
    assert {round(layer.scale, 6) for layer in decoder.layers} == {round(32**-0.5, 6)}
    assert (decoder.vocab_size, decoder.max_context, decoder.element_type) == (320, 512, "f32")


@pytest.mark.parametrize("family", after(1, ["gemma2", "qwen3"]))
def test_nothing_of_masks_and_pasts_is_left(family, optimum):
    graph = read_decoder(optimum(family)[1] / "model.onnx").model.graph
    assert [value.name for value in graph.inputs] == ["input_ids", "position_ids", "logits_indices"]
    assert not {"Softmax", "Range", "ScatterND", "IsNaN"} & {node.op_type for node in graph}


# Exports that Braid does not read


def respell(folder: Path, change) -> Path:
    model = ir.load(folder / "model.onnx")
    change(model.graph)
    ir.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def merge(graph):
    graph.inputs.append(ir.val("use_cache_branch", ir.DataType.BOOL, [1]))


def lose_a_past(graph):
    (value,) = [value for value in graph.inputs if value.name == "past_key_values.1.value"]
    value.name = "past_key_values.1.conv"


def read_the_mask(graph):
    mask = next(value for value in graph.inputs if value.name == "attention_mask")
    logits = graph.outputs[0]
    total = ir.node("ReduceSum", [mask], {"keepdims": 0})
    cast = ir.node("Cast", [total.outputs[0]], {"to": 1})
    added = ir.node("Add", [logits, cast.outputs[0]])
    graph.extend([total, cast, added])
    logits.name, added.outputs[0].name, added.outputs[0].dtype = "before", "logits", ir.DataType.FLOAT
    graph.outputs[:] = [added.outputs[0]]


def add_a_sink(graph):
    softmax = next(node for node in graph if node.op_type == "Softmax")
    joined = ir.node("Concat", [softmax.inputs[0], softmax.inputs[0]], {"axis": -1})
    graph.insert_before(softmax, joined)
    softmax.replace_input_with(0, joined.outputs[0])


def add_slopes(graph):
    softmax = next(node for node in graph if node.op_type == "Softmax")
    slopes = ir.node("Constant", [], {"value": ir.tensor(np.zeros((1, 2, 1, 1), np.float32))})
    added = ir.node("Add", [softmax.inputs[0], slopes.outputs[0]])
    graph.insert_before(softmax, [slopes, added])
    softmax.replace_input_with(0, added.outputs[0])


def rename_logits(graph):
    graph.outputs[0].name = "last_hidden_state"


def lower_opset(graph):
    graph.opset_imports[""] = 11


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (merge, "merged export.*--no-post-process"),
        (lose_a_past, "layers 0 to 0: Braid serves decoders in which every layer"),
        (read_the_mask, "ReduceSum .* reads attention_mask"),
        (add_a_sink, "Attention of layer 0 .* do not meet"),
        (add_slopes, "layer 0 .* is added to its scores, as for ALiBi"),
        (rename_logits, r"gives no logits \(it gives last_hidden_state"),
        (lower_opset, "opset 11; Braid reads 13"),
    ],
)
def test_what_braid_does_not_read_is_named(change, words, copied):
    with pytest.raises(ModelError, match=words):
        read_decoder(respell(copied("mistral"), change))


def test_axes_where_operator_sets_before_18_have_them(copied, optimum):
    def move_axes(graph):
        graph.opset_imports[""] = 17
        for node in list(graph):
            if node.op_type == "ReduceMean":
                axes = ir.convenience.get_const_tensor(node.inputs[1]).numpy().tolist()
                node.resize_inputs(1)
                node.attributes.add(ir.AttrInt64s("axes", axes))

    older = read_decoder(respell(copied("mistral"), move_axes))
    newer = read_decoder(optimum("mistral")[1] / "model.onnx")
    np.testing.assert_array_equal(logits_of(older, PROMPT), logits_of(newer, PROMPT))


def test_a_scale_that_the_graph_computes(copied, optimum):
    """As torch wrote scaled_dot_product_attention when no scale was given: 1 / sqrt of the last axis."""

    def compute_scale(graph):
        first = next(node for node in graph if node.op_type == "Softmax")
        linear = first.inputs[0].producer().inputs[0].producer()
        query_scale, key_scale = (value.producer() for value in linear.inputs)
        shape = ir.node("Shape", [query_scale.inputs[0]])
        last = ir.node("Constant", [], {"value": ir.tensor(np.array([-1]))})
        end = ir.node("Constant", [], {"value": ir.tensor(np.array([2**62]))})
        size = ir.node("Slice", [shape.outputs[0], last.outputs[0], end.outputs[0]])
        size = [shape, last, end, size, ir.node("Cast", [size.outputs[0]], {"to": 1})]
        root = ir.node("Sqrt", [size[-1].outputs[0]])
        unit = ir.node("Constant", [], {"value": ir.tensor(np.array([1], np.float32))})
        inverse = ir.node("Div", [unit.outputs[0], root.outputs[0]])
        twice = ir.node("Sqrt", [inverse.outputs[0]])
        graph.insert_before(query_scale, [*size, root, unit, inverse, twice])
        for node in (query_scale, key_scale):
            node.replace_input_with(1, twice.outputs[0])

    computed = read_decoder(respell(copied("mistral"), compute_scale)).layers[0]
    stated = read_decoder(optimum("mistral")[1] / "model.onnx").layers[0]
    assert computed.scale == pytest.approx(stated.scale, rel=1e-6)


# What configurations say of windows


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        ({"model_type": "llama"}, [-1, -1, -1, -1]),
        ({"model_type": "mistral", "sliding_window": 9}, [9, 9, 9, 9]),
        ({"model_type": "mistral", "sliding_window": None}, [-1, -1, -1, -1]),
        ({"model_type": "phi3", "sliding_window": 9}, [9, 9, 9, 9]),
        (
            {"model_type": "qwen2", "sliding_window": 9, "use_sliding_window": False, "max_window_layers": 0},
            [-1, -1, -1, -1],
        ),
        (
            {"model_type": "qwen3", "sliding_window": 9, "use_sliding_window": True, "max_window_layers": 3},
            [-1, -1, -1, 9],
        ),
        ({"model_type": "gemma2", "sliding_window": 9}, [9, -1, 9, -1]),
        ({"model_type": "gemma3_text", "sliding_window": 9, "sliding_window_pattern": 3}, [9, 9, -1, 9]),
        ({"model_type": "gemma3_text", "sliding_window": 9}, [9, 9, 9, 9]),
        ({"model_type": "cohere2", "sliding_window": 9}, [9, 9, 9, -1]),
        ({"sliding_window": 9, "layer_types": [FULL, SLIDES, FULL, SLIDES]}, [-1, 9, -1, 9]),
    ],
)
def test_windows(config, windows):
    assert read_attention_windows(config, 4) == windows


@pytest.mark.parametrize("kinds", [["linear_attention"] * 4, [FULL]])
def test_layers_that_are_neither_full_nor_sliding(kinds):
    with pytest.raises(ModelError, match="knows full_attention and sliding_attention"):
        read_attention_windows({"sliding_window": 9, "layer_types": kinds}, 4)


def test_windows_of_older_configs_are_those_of_transformers():
    """The configurations of transformers derive `layer_types` from the older words."""
    transformers = pytest.importorskip("transformers")
    old = [
        ("gemma2", {"sliding_window": 9}),
        ("gemma3_text", {"sliding_window": 9, "sliding_window_pattern": 3}),
        ("qwen2", {"sliding_window": 9, "use_sliding_window": True, "max_window_layers": 5}),
        ("qwen3", {"sliding_window": 9, "use_sliding_window": False}),
        ("cohere2", {"sliding_window": 9}),
    ]
    for kind, words in old:
        config = transformers.AutoConfig.for_model(kind, num_hidden_layers=8, **words)
        stated = json.loads(config.to_json_string(use_diff=False))
        named = [9 if layer == SLIDES else -1 for layer in stated["layer_types"]]
        assert read_attention_windows(words | {"model_type": kind}, 8) == named, kind
