"""Folders of onnxruntime-genai's builder, read into the form."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from whole_prompts import logits_of

from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.runtime import CPU, open_session
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import AttentionLayer

FOLDER = Path(__file__).parents[1] / "recorded" / "genai-tiny"
EXPECTED = json.loads((FOLDER / "logits.json").read_text())
PROMPT, ROWS = EXPECTED["prompt"], EXPECTED["rows"]
TOLERANCE = {"llama": 5e-4, "qwen3": 2e-2, "gemma2": 2e-2}
"""Of logits of up to 4, recorded with 4 digits; the last two compute in float16."""


def logits_off(decoder, family: str) -> float:
    return float(np.abs(logits_of(decoder, PROMPT, ROWS) - np.array(EXPECTED["logits"][family])).max())


@pytest.fixture
def copied(tmp_path):
    """`copied(family)` → a copy to spoil."""
    return lambda family: Path(shutil.copytree(FOLDER / family, tmp_path / family))


def respell(folder: Path, change) -> Path:
    """Apply `change` to each of the attention nodes of a copy; give its model.onnx."""
    model = ir.load(folder / "model.onnx")
    for node in model.graph:
        if node.op_type in ("PagedAttention", "GroupQueryAttention"):
            change(model.graph, node)
    ir.save(model, folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.parametrize("family", ["qwen3", "gemma2", "llama"])
def test_logits_equal_transformers(family):
    decoder = read_decoder(FOLDER / family / "model.onnx")
    assert logits_off(decoder, family) < TOLERANCE[family]


def test_layers_of_packed_queries_with_windows_and_caps():
    decoder = read_decoder(FOLDER / "gemma2" / "model.onnx")
    one = {"num_heads": 2, "num_kv_heads": 1, "head_size": 16, "scale": 0.25, "softcap": 2.0}
    assert decoder.layers == [
        AttentionLayer(layer=0, window=12, **one),
        AttentionLayer(layer=1, window=-1, **one),
    ]
    assert (decoder.vocab_size, decoder.max_context, decoder.element_type) == (64, 64, "f16")


def test_a_window_counts_the_query_itself(copied):
    """One token more or fewer would be seen in the logits."""
    for change in (-1, 1):

        def shift(graph, node, change=change):
            window = node.attributes["local_window_size"].as_int()
            if window > 0:
                node.attributes["local_window_size"] = ir.AttrInt64("local_window_size", window + change)

        folder = copied("gemma2")
        assert logits_off(read_decoder(respell(folder, shift)), "gemma2") > 10 * TOLERANCE["gemma2"]
        shutil.rmtree(folder)


@pytest.mark.parametrize("family", ["qwen3", "gemma2", "llama"])
def test_nothing_of_the_old_inputs_is_left(family):
    graph = read_decoder(FOLDER / family / "model.onnx").model.graph
    assert [value.name for value in graph.inputs] == ["input_ids", "position_ids", "logits_indices"]
    assert [value.name for value in graph.outputs] == ["logits"]
    assert not [
        node
        for node in graph
        if node.op_type in ("PagedAttention", "GroupQueryAttention") and node.domain != "braid"
    ]


def test_config_json_goes_before_genai_config(copied):
    folder = copied("qwen3")
    (folder / "config.json").write_text('{"max_position_embeddings": 48}')
    assert read_decoder(folder / "model.onnx").max_context == 48


def test_a_decoder_that_reads_embeddings_is_refused_with_what_to_do(copied):
    def rename(graph, node):
        graph.inputs[0].name = "inputs_embeds"

    with pytest.raises(ModelError, match="reads inputs_embeds: it is a part of a vision model"):
        read_decoder(respell(copied("qwen3"), rename))


def test_a_folder_without_any_config(copied):
    folder = copied("qwen3")
    (folder / "genai_config.json").unlink()
    with pytest.raises(ModelError, match="config.json is needed"):
        read_decoder(folder / "model.onnx")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": {}}', '{"model": 3}'])
def test_a_genai_config_that_says_nothing(text, copied):
    folder = copied("qwen3")
    (folder / "genai_config.json").write_text(text)
    with pytest.raises(ModelError, match="genai_config.json cannot be read"):
        read_decoder(folder / "model.onnx")


def fuse_norms(graph, node):
    """Give the node the norms that stand before it, as builders for other devices do."""
    flat_query, flat_key = node.inputs[:2]
    norms = [value.producer().inputs[0].producer() for value in (flat_query, flat_key)]
    for index, norm in enumerate(norms):
        node.replace_input_with(index, norm.inputs[0].producer().inputs[0])
        node.replace_input_with(12 + index, norm.inputs[1])
    node.attributes.add(ir.AttrFloat32("qk_norm_epsilon", norms[0].attributes["epsilon"].as_float()))


def test_norms_inside_the_node(copied):
    decoder = read_decoder(respell(copied("qwen3"), fuse_norms))
    assert [node.op_type for node in decoder.model.graph].count("RMSNormalization") == 4
    assert logits_off(decoder, "qwen3") < TOLERANCE["qwen3"]


def set_attribute(name: str, value):
    attribute = ir.AttrString(name, value) if isinstance(value, str) else ir.AttrInt64(name, value)
    return lambda graph, node: node.attributes.add(attribute)


def add_sinks(graph, node):
    sinks = ir.Value(name=f"sinks.{node.name}", const_value=ir.tensor(np.array([0.5, -1], np.float32)))
    graph.register_initializer(sinks)
    node.resize_inputs(12)
    node.replace_input_with(11, sinks)


def share_cache(graph, node):
    node.replace_input_with(3, next(value for value in graph.inputs if value.name == "past_key_values.0.key"))


def compute_angles(graph, node):
    turned = ir.node("Neg", [node.inputs[8]])
    graph.insert_before(node, turned)
    node.replace_input_with(8, turned.outputs[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_attribute("is_causal", 0), "layer 0 uses is_causal, which"),
        (set_attribute("rotary_offset", 8), "layer 0 uses rotary_offset, which"),
        (set_attribute("kv_cache_layout", "LATENT"), "layer 0 uses kv_cache_layout, which"),
        (share_cache, "share one cache"),
        (compute_angles, "computed in the graph"),
    ],
)
def test_what_the_form_cannot_say_is_refused_by_name(change, words, copied):
    with pytest.raises(ModelError, match=words):
        read_decoder(respell(copied("qwen3"), change))


def run_as_built(path: Path) -> np.ndarray:
    """What ONNX Runtime's own GroupQueryAttention computes for the prompt."""
    empty = np.zeros((1, 1, 0, 16), np.float32)
    feed = {"input_ids": [PROMPT], "attention_mask": [[1] * len(PROMPT)]}
    pasts = {f"past_key_values.0.{side}": empty for side in ("key", "value")}
    session = open_session(path.read_bytes(), path.parent, [CPU], 1, {})
    arrays = {name: np.array(values, np.int64) for name, values in feed.items()}
    (logits,) = session.run(["logits"], arrays | pasts)
    return logits[0, ROWS]


@pytest.mark.parametrize(
    "change",
    [
        set_attribute("rotary_interleaved", 1),
        set_attribute("local_window_size", 5),
        set_attribute("do_rotary", 0),
        lambda graph, node: node.attributes.add(ir.AttrFloat32("softcap", 1.5)),
        lambda graph, node: node.attributes.add(ir.AttrFloat32("scale", 0.0)),
        add_sinks,
    ],
    ids=["interleaved", "window", "unrotated", "capped", "scaled by default", "sinks"],
)
def test_attributes_mean_what_they_mean_to_onnx_runtime(change, copied):
    path = respell(copied("llama"), change)
    np.testing.assert_allclose(logits_of(read_decoder(path), PROMPT, ROWS), run_as_built(path), atol=1e-4)


def test_heads_that_are_rotated_in_part(copied):
    """Turning the first half of each head by pairs is turning all of it, the rest by no angle."""

    def narrow(graph, node):
        set_attribute("rotary_interleaved", 1)(graph, node)
        for value in node.inputs[7:9]:
            value.const_value = ir.tensor(np.ascontiguousarray(value.const_value.numpy()[:, :4]))
            value.shape = ir.Shape([64, 4])

    def stand_still(graph, node):
        set_attribute("rotary_interleaved", 1)(graph, node)
        for value, still in zip(node.inputs[7:9], (1.0, 0.0), strict=True):
            table = value.const_value.numpy().copy()
            table[:, 4:] = still
            value.const_value = ir.tensor(table)

    path = respell(copied("llama"), narrow)
    logits = logits_of(read_decoder(path), PROMPT, ROWS)
    shutil.rmtree(path.parent)
    np.testing.assert_allclose(logits, run_as_built(respell(copied("llama"), stand_still)), atol=1e-4)
