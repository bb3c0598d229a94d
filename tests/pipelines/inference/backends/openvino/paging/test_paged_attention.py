"""What OpenVINO's private transformation promises, and what is refused instead of served wrongly."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.declared_attention import exact_context
from pipelines.inference.backends.openvino.paging.carried_attention import PAGED, WINDOW_INPUT
from pipelines.inference.backends.openvino.paging.deepstack import DEEP, MASK
from pipelines.inference.backends.openvino.paging.paged_attention import EMBEDDINGS, STEP_INPUTS, read_paged
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import TOKEN_KINDS

I32, I64 = ov.Type.i32, ov.Type.i64


@pytest.fixture
def llama(exported):
    return exported("llama")[1] / "openvino_model.xml"


def inputs(model: ov.Model) -> dict[str, tuple[ov.Type, int]]:
    return {port.any_name: (port.get_element_type(), len(port.get_partial_shape())) for port in model.inputs}


@pytest.mark.slow
def test_an_export_has_state_and_attention_mask(llama):
    model = ov.Core().read_model(llama)
    assert inputs(model) == {
        "input_ids": (I64, 2),
        "attention_mask": (I64, 2),
        "position_ids": (I64, 2),
        "beam_idx": (I32, 1),
    }
    assert len(model.get_variables()) == 4  # keys and values of two layers


@pytest.mark.slow
def test_a_paged_model_has_the_step_and_its_cache_as_inputs(llama):
    model = read_paged(llama)
    cache = {f"{kind}_cache.{layer}" for kind in ("key", "value") for layer in range(2)}
    step = {
        "input_ids": (I64, 1),
        "position_ids": (I64, 1),
        "past_lens": (I32, 1),
        "subsequence_begins": (I32, 1),
        "block_indices": (I32, 1),
        "block_indices_begins": (I32, 1),
        "max_context_len": (I32, 0),
    }
    assert set(step) == STEP_INPUTS - {EMBEDDINGS, TOKEN_KINDS, DEEP, MASK}
    assert inputs(model) == step | dict.fromkeys(cache, (ov.Type.dynamic, 4))
    assert model.get_sinks() == []  # nothing writes state any more


@pytest.mark.slow
def test_tokens_are_the_first_axis_of_the_logits(llama):
    assert str(read_paged(llama).output(0).get_partial_shape()) == "[?,1,320]"


@pytest.mark.slow
def test_an_openvino_without_the_transformation_is_named(llama, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino._offline_transformations", None)
    with pytest.raises(ModelError, match=r"has no paged attention transformation"):
        read_paged(llama)


def test_a_model_without_state_is_refused_with_the_way_to_export_it(tmp_path):
    ids = ops.parameter([-1, 8], np.float32, name="input_ids")
    path = tmp_path / "openvino_model.xml"
    ov.save_model(ov.Model([ops.result(ops.relu(ids))], [ids]), path)
    with pytest.raises(ModelError, match=r"has no state.*braid export"):
        read_paged(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"absent\.xml does not exist"):
        read_paged(tmp_path / "absent.xml")


def test_a_file_that_is_no_model_is_named(tmp_path):
    path = tmp_path / "openvino_model.xml"
    path.write_text("<net>")
    with pytest.raises(ModelError, match=r"cannot read .*openvino_model\.xml"):
        read_paged(path)


@pytest.mark.slow
def test_an_export_without_positions_is_paged(exported):
    path = exported("bloom")[1] / "openvino_model.xml"
    assert "position_ids" not in inputs(ov.Core().read_model(path))
    assert {name for name in inputs(read_paged(path)) if "_cache." not in name} <= STEP_INPUTS


@pytest.fixture
def declaring(llama, tmp_path):
    """`declaring(field=value)` → the export of llama, whose config.json says this too."""

    def write(**fields):
        config = json.loads(llama.with_name("config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | fields))
        for file in (llama, llama.with_suffix(".bin")):
            shutil.copyfile(file, tmp_path / file.name)
        return tmp_path / llama.name

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"attn_logit_softcapping": 50.0}, "caps attention scores .*--format onnx"),
        ({"num_hidden_layers": 4}, "has 2 layers of attention and its config.json declares 4"),
        ({"layer_types": ["full_attention", "block_attention"]}, "names block_attention"),
    ],
)
def test_what_the_config_declares_and_the_export_does_not_compute_is_refused(declaring, fields, reason):
    with pytest.raises(ModelError, match=reason):
        read_paged(declaring(**fields))


@pytest.mark.slow
def test_a_window_of_the_config_is_carried_over_where_the_mask_has_none(declaring):
    kinds = ["sliding_attention", "full_attention"]
    model = read_paged(declaring(sliding_window=24, layer_types=kinds))
    nodes = [node for node in model.get_ordered_ops() if node.get_type_name() == PAGED]
    assert [int(node.input_value(WINDOW_INPUT).get_node().data) for node in nodes] == [24, 0]


@pytest.mark.parametrize(
    ("fields", "longest"),
    [
        ({}, 512),
        ({"attention_chunk_size": 128, "layer_types": ["chunked_attention", "full_attention"]}, 128),
        ({"attention_chunk_size": 128, "layer_types": ["full_attention"]}, 512),
        ({"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 96}, 96),
        ({"rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 96}}, 96),
        ({"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 96}}, 512),
    ],
)
def test_the_context_ends_where_the_model_becomes_another(fields, longest):
    assert exact_context(fields, 512) == longest


def test_the_decoder_of_an_encoder_decoder_model_is_refused(tmp_path):
    """OpenVINO would page the attention to its own tokens, and leave that to the encoder as it is."""
    frames = ops.parameter([-1, -1, 8], np.float32, name="encoder_hidden_states")
    frames.output(0).set_names({"encoder_hidden_states"})
    held = ops.read_value(frames, "keys", ov.Type.f32, ov.PartialShape([-1, -1, 8]))
    model = ov.Model([ops.result(held)], [ops.assign(held, "keys")], [frames])
    ov.save_model(model, tmp_path / "openvino_decoder_model.xml")
    with pytest.raises(ModelError, match="attends to an encoder .* pages a part of its attention only"):
        read_paged(tmp_path / "openvino_decoder_model.xml")
