"""A model.onnx opened: Braid's own form, the facts in it, and what is said of files that are not right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from small_onnx_decoders import VOCABULARY, small_decoder
from whole_prompts import logits_of

from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import ATTENTION

PROMPT = [5, 9, 40, 41, 3, 60, 2, 17]
DATA = "model.onnx.data"


def write(folder: Path, change=lambda graph: None, config: str | None = None, **facts) -> Path:
    """The small decoder, changed, with all its weights in a data file."""
    folder.mkdir(exist_ok=True, parents=True)
    model = small_decoder(**facts).model
    change(model.graph)
    ir.save(model, folder / "model.onnx", external_data=DATA, size_threshold_bytes=0)
    text = json.dumps({"max_position_embeddings": 512}) if config is None else config
    (folder / "config.json").write_text(text)
    return folder / "model.onnx"


def attentions(graph):
    return [node for node in graph if node.op_type == ATTENTION]


def test_braid_s_own_export_is_read_as_it_is(tmp_path):
    written = small_decoder()
    decoder = read_decoder(write(tmp_path))
    assert decoder.layers == written.layers
    assert (decoder.vocab_size, decoder.max_context, decoder.folder) == (VOCABULARY, 512, tmp_path)
    np.testing.assert_allclose(logits_of(decoder, PROMPT), logits_of(written, PROMPT), atol=1e-6)


def test_weights_stay_on_disk(tmp_path):
    tensors = [value.const_value for value in read_decoder(write(tmp_path)).model.graph.initializers.values()]
    assert tensors
    assert all(
        isinstance(tensor, ir.ExternalTensor) and tensor.raw is None
        for tensor in tensors
        if tensor.nbytes > 1024
    )


@pytest.mark.parametrize("element_type", ["f32", "f16", "bf16"])
def test_the_element_type_is_that_of_keys(element_type, tmp_path):
    assert read_decoder(write(tmp_path, element_type=element_type)).element_type == element_type


def test_what_calibration_saw(tmp_path):
    layer = read_decoder(write(tmp_path, key_absmax=3.5, value_absmax=2.0)).layers[1]
    assert (layer.key_absmax, layer.value_absmax) == (3.5, 2.0)


def test_the_vocabulary_from_config_json(tmp_path):
    def forget(graph):
        graph.outputs[0].shape = ir.Shape(["num_logits", "vocab"])

    config = '{"max_position_embeddings": 512, "vocab_size": 96}'
    assert read_decoder(write(tmp_path, forget, config)).vocab_size == 96
    with pytest.raises(ModelError, match="give the vocabulary size"):
        read_decoder(write(tmp_path, forget))


def test_a_folder_named_onnx_has_its_config_above(tmp_path):
    path = write(tmp_path / "onnx")
    (tmp_path / "onnx" / "config.json").rename(tmp_path / "config.json")
    assert read_decoder(path).max_context == 512


def test_no_other_folder_has(tmp_path):
    path = write(tmp_path / "model")
    (tmp_path / "model" / "config.json").rename(tmp_path / "config.json")
    with pytest.raises(ModelError, match="config.json is needed"):
        read_decoder(path)


# Files


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x01garbage" * 9, b"<html>", b"version https://git-lfs.github.com"]
)
def test_what_is_no_onnx_file(content, tmp_path):
    path = write(tmp_path)
    path.write_bytes(content)
    with pytest.raises(ModelError, match="model.onnx: is (empty, or )?no ONNX file"):
        read_decoder(path)


def test_a_file_cut_short(tmp_path):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ModelError, match="model.onnx"):
        read_decoder(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(ModelError, match="model.onnx: cannot be read: No such file"):
        read_decoder(tmp_path / "model.onnx")


def test_missing_weights(tmp_path):
    path = write(tmp_path)
    (tmp_path / DATA).unlink()
    with pytest.raises(ModelError, match=f"weights should be in {DATA}, which cannot be read"):
        read_decoder(path)


def test_weights_cut_short(tmp_path):
    path = write(tmp_path)
    data = (tmp_path / DATA).read_bytes()
    (tmp_path / DATA).write_bytes(data[: len(data) - 1])
    with pytest.raises(ModelError, match=rf"ends at byte {len(data)} of {DATA}, which has {len(data) - 1}"):
        read_decoder(path)


@pytest.mark.parametrize("location", ["../elsewhere", "/etc/passwd", "inner/../../elsewhere"])
def test_weights_outside_the_folder(location, tmp_path):
    (tmp_path / "elsewhere").write_bytes(bytes(10**6))
    path = write(tmp_path / "model")
    path.write_bytes(relocated(path, location))
    with pytest.raises(ModelError, match="outside the model's folder"):
        read_decoder(path)


def test_weights_linked_from_outside_the_folder(tmp_path):
    path = write(tmp_path / "model")
    (tmp_path / "model" / DATA).rename(tmp_path / "elsewhere")
    (tmp_path / "model" / DATA).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="outside the model's folder"):
        read_decoder(path)


def test_weights_linked_within_the_hubs_cache(tmp_path):
    """models--org--name/snapshots/REVISION, whose files are links to models--org--name/blobs."""
    path = write(tmp_path / "models--a--b" / "snapshots" / "123")
    (tmp_path / "models--a--b" / "blobs").mkdir()
    for number, file in enumerate(list(path.parent.iterdir())):
        blob = tmp_path / "models--a--b" / "blobs" / str(number)
        file.rename(blob)
        file.symlink_to(Path("../../blobs") / blob.name)
    assert read_decoder(path).layers
    session = OnnxCpuSession(path, OnnxCpuSettings(threads=1))
    session.allocate(2)
    session.close()


def relocated(path: Path, location: str) -> bytes:
    import onnx

    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    return proto.SerializeToString()


@pytest.mark.parametrize(
    ("config", "words"),
    [("{", "config.json is needed"), ("{}", "names no context length")],
)
def test_a_config_that_says_too_little(config, words, tmp_path):
    with pytest.raises(ModelError, match=words):
        read_decoder(write(tmp_path, config=config))


# Graphs


def set_all(**values):
    def change(graph):
        for node in attentions(graph):
            for name, value in values.items():
                kind = ir.AttrFloat32 if isinstance(value, float) else ir.AttrInt64
                node.attributes.add(kind(name, value))

    return change


def add_sinks(num_heads):
    def change(graph):
        values = ir.tensor(np.zeros(num_heads, np.float32), name="sinks")
        graph.register_initializer(ir.val("sinks", values.dtype, [num_heads], const_value=values))
        for node in attentions(graph):
            node.resize_inputs(5)
            node.replace_input_with(4, graph.initializers["sinks"])

    return change


def drop_scale(graph):
    attentions(graph)[0].attributes.pop("scale")


def swap_layers(graph):
    for node, number in zip(attentions(graph), (1, 0), strict=True):
        node.attributes.add(ir.AttrInt64("layer", number))


def add_input(graph):
    graph.inputs.append(ir.val("attention_mask", ir.DataType.INT64, [1, "T"]))


def narrow_ids(graph):
    graph.inputs[0].dtype = ir.DataType.INT32


def give_half(graph):
    graph.outputs[0].dtype = ir.DataType.FLOAT16


def age(graph):
    graph.opset_imports[""] = 22


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_scale, r"lacks \['scale'\]"),
        (set_all(slopes=1), r"has \['slopes'\] that this version of Braid does not support"),
        (add_sinks(3), r"layer 0 has sinks of .*, not \[2\]"),
        (add_sinks(2), "layer 0 has more than one of a bias, sinks, slopes and a cap"),
        (swap_layers, r"layers are numbered \[1, 0\]"),
        (set_all(num_kv_heads=3), "layer 0 has 2 query heads over 3 key-value heads"),
        (set_all(num_kv_heads=0), "layer 0 has 2 query heads over 0 key-value heads"),
        (set_all(window=0), "layer 0 has window 0"),
        (set_all(scale=float("nan")), "layer 0 has scale nan"),
        (set_all(softcap=-1.0), "layer 0 has softcap -1.0"),
        (set_all(key_absmax=1.0), "layer 0 has one of key_absmax and value_absmax"),
        (add_input, "reads attention_mask, input_ids, logits_indices, position_ids; a decoder"),
        (narrow_ids, "input_ids is INT32, not INT64"),
        (give_half, "gives logits FLOAT16; a decoder"),
        (age, "of ONNX opset 22"),
    ],
)
def test_promises_that_are_not_kept(change, words, tmp_path):
    with pytest.raises(ModelError, match=words):
        read_decoder(write(tmp_path, change))


def test_a_model_that_is_no_decoder(tmp_path):
    def forget_attention(graph):
        for node in attentions(graph):
            node.outputs[0].replace_all_uses_with(node.inputs[0])

        graph.remove(attentions(graph), safe=True)

    with pytest.raises(ModelError, match="No decoder with a cache. Braid reads its own.*braid export"):
        read_decoder(write(tmp_path, forget_attention))
