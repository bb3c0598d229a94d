"""What OpenVINO's private transformation promises, and what is refused instead of served wrongly."""

from __future__ import annotations

import sys

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.host.backends.device_errors import ModelError
from pipelines.host.backends.openvino.paged_attention import STEP_INPUTS, read_paged

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
    assert len(model.get_variables()) == 6  # keys and values of three layers


@pytest.mark.slow
def test_a_paged_model_has_the_step_and_its_cache_as_inputs(llama):
    model = read_paged(llama)
    cache = {f"{kind}_cache.{layer}" for kind in ("key", "value") for layer in range(3)}
    step = {
        "input_ids": (I64, 1),
        "position_ids": (I64, 1),
        "past_lens": (I32, 1),
        "subsequence_begins": (I32, 1),
        "block_indices": (I32, 1),
        "block_indices_begins": (I32, 1),
        "max_context_len": (I32, 0),
    }
    assert set(step) == STEP_INPUTS
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
