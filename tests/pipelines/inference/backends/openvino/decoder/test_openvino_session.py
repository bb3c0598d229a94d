"""A session by itself: sizes, steps without logits, copied blocks, settings that the device does not have."""

from __future__ import annotations

import json

import numpy as np
import pytest
from breadth import after
from lone_steps import step, together

from pipelines.inference.backends.model_config import read_max_context
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.device_properties import checked_properties
from pipelines.inference.backends.openvino.model.lm_head import LOGITS_INPUT
from pipelines.inference.backends.openvino.paging.step_inputs import (
    flat_blocks,
    padded,
    rounded_up,
    step_inputs,
)
from pipelines.inference.contracts.device_errors import ModelError

EXACT = OpenVINOSettings(kv_cache="f32", precision="f32")
PROMPT = np.random.default_rng(1).integers(3, 300, size=50)


@pytest.fixture(scope="module")
def opened(exported):
    session = OpenVINOSession(exported("llama")[1] / "openvino_model.xml", EXACT)
    yield session
    session.close()


@pytest.fixture
def session(opened):
    opened.allocate(8)
    return opened


@pytest.mark.slow
def test_facts_are_read_from_the_model(session):
    assert (session.shape.block_tokens, session.shape.vocab_size, session.shape.max_context) == (32, 320, 512)
    layers, sides, heads, head_size, float32_bytes = 2, 2, 1, 32, 4
    assert session.shape.block_bytes == layers * sides * heads * 32 * head_size * float32_bytes
    facts = session.describe()
    assert (facts["device"], facts["precision"], facts["kv_cache"]) == ("cpu", "f32", "f32")


@pytest.mark.slow
@pytest.mark.parametrize(("kv_cache", "less_than"), after(1, [("u4", 0.3), ("u8", 0.4)]))
def test_a_smaller_cache_type_takes_smaller_blocks(session, exported, kv_cache, less_than):
    path = exported("llama")[1] / "openvino_model.xml"
    small = OpenVINOSession(path, OpenVINOSettings(kv_cache=kv_cache, precision="f32"))
    assert small.shape.block_tokens == session.shape.block_tokens
    assert small.shape.block_bytes < session.shape.block_bytes * less_than
    small.allocate(4)
    both = [one.run(step(PROMPT, 0, [2, 1], [len(PROMPT) - 1]))[0].copy() for one in (small, session)]
    assert np.corrcoef(both)[0, 1] > 0.9


@pytest.mark.slow
def test_logits_are_writable_float32(session):
    logits = session.run(step(PROMPT, 0, [0, 1], [49, 10]))
    assert (logits.shape, logits.dtype) == ((2, 320), np.float32)
    logits[:] = 0


@pytest.mark.slow
def test_a_chunk_without_logits_still_fills_the_cache(session):
    whole = session.run(step(PROMPT, 0, [0, 1], [49])).copy()
    assert session.run(step(PROMPT[:40], 0, [5, 6], [])).shape == (0, 320)
    np.testing.assert_allclose(session.run(step(PROMPT[40:], 40, [5, 6], [9])), whole, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_copied_block_holds_the_same_keys_and_values(session):
    session.run(step(PROMPT[:40], 0, [3, 4], []))
    expected = session.run(step(PROMPT[40:], 40, [3, 4], [9])).copy()
    copied = session.run(step(PROMPT[40:], 40, [3, 7], [9], copies=[(4, 7)]))
    np.testing.assert_array_equal(copied, expected)


@pytest.mark.slow
def test_sequences_in_one_step_do_not_touch_each_other(session):
    alone = session.run(step(PROMPT, 0, [0, 1], [49])).copy()
    both = together([step(PROMPT, 0, [0, 1], [49]), step(PROMPT[:7], 0, [2], [6])])
    np.testing.assert_allclose(session.run(both)[:1], alone, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_there_is_no_host_cache_beside_a_cache_on_the_host(session):
    assert not session.can_swap
    with pytest.raises(ValueError, match="no other memory to swap it to"):
        session.allocate(2, 1)


@pytest.mark.slow
def test_a_cache_type_that_the_device_refuses_is_named(exported):
    with pytest.raises(ModelError, match=r"cannot compile .* for cpu: Wrong value i8 .*KV_CACHE_PRECISION"):
        OpenVINOSession(exported("llama")[1] / "openvino_model.xml", OpenVINOSettings(kv_cache="i8"))


def test_an_absent_device_is_named_with_those_that_are_here():
    with pytest.raises(ModelError, match=r"device gpu\.7 is not available; OpenVINO finds: .*cpu"):
        checked_properties(OpenVINOSettings(device="gpu.7"))


def test_a_property_that_the_device_lacks_is_named(monkeypatch):
    monkeypatch.setattr(OpenVINOSettings, "properties", lambda self: {"NO_SUCH_PROPERTY": "1"})
    with pytest.raises(ModelError, match=r"device cpu has no NO_SUCH_PROPERTY"):
        checked_properties(OpenVINOSettings())


def test_settings_that_are_not_set_are_left_to_the_device():
    assert checked_properties(OpenVINOSettings()) == {"PERFORMANCE_HINT": "LATENCY"}


def test_blocks_are_flattened_in_order_without_undefined_entries():
    table = np.array([[4, 9, -1, -1], [7, -1, -1, -1], [1, 2, 3, -1]], np.int32)
    blocks, begins = flat_blocks(table, np.array([2, 1, 3], np.int32))
    assert blocks.tolist() == [4, 9, 7, 1, 2, 3]
    assert begins.tolist() == [0, 2, 3, 6]
    assert (blocks.dtype, begins.dtype) == (np.int32, np.int32)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"n_ctx": 5, "max_position_embeddings": 77}, 77),
        ({"seq_length": 64}, 64),
        ({"text_config": {"max_position_embeddings": 9}}, 9),
    ],
)
def test_the_context_length_is_the_first_field_that_is_there(config, expected, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert read_max_context(path) == expected


def test_a_config_without_a_context_length_says_what_to_add(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("{}")
    with pytest.raises(ModelError, match=r"names no context length; add one of max_target_positions"):
        read_max_context(path)


def test_who_asks_for_f32_gets_no_rounded_activations():
    assert OpenVINOSettings(precision="f32").properties()["DYNAMIC_QUANTIZATION_GROUP_SIZE"] == 0
    assert "DYNAMIC_QUANTIZATION_GROUP_SIZE" not in OpenVINOSettings().properties()


@pytest.mark.slow
@pytest.mark.parametrize("family", after(1, ["llama", "qwen3"]))
def test_with_f32_logits_do_not_depend_on_the_rest_of_the_step(exported, opened, family):
    """Bit for bit: one row of logits or all, chunks of a prompt, decoding alone or in company."""
    path = exported(family)[1] / "openvino_model.xml"
    session = opened if family == "llama" else OpenVINOSession(path, EXACT)
    session.allocate(40)
    others = [step(PROMPT[: 3 + k], 0, [10 + k], [2 + k]) for k in range(20)]
    whole = session.run(step(PROMPT, 0, [0, 1], list(range(50)))).copy()
    np.testing.assert_array_equal(session.run(step(PROMPT, 0, [2, 3], [49])), whole[49:])
    for cut in (1, 2, 17, 48):
        first = session.run(step(PROMPT[:cut], 0, [4, 5], [cut - 1])).copy()
        rest = session.run(together([step(PROMPT[cut:], cut, [4, 5], [49 - cut]), *others[:cut]]))[:1]
        np.testing.assert_array_equal(np.concatenate([first, rest]), whole[[cut - 1, 49]])
    alone = session.run(step(PROMPT[:1], 50, [0, 1], [0])).copy()
    for company in (1, 2, 7, 20):
        among = session.run(together([step(PROMPT[:1], 50, [0, 1], [0]), *others[:company]]))[:1]
        np.testing.assert_array_equal(among, alone)


def test_padding_is_another_sequence_and_the_last_row_again():
    inputs = step_inputs(step([7], 40, [3, 2], [0]))
    wider = padded(inputs, 2, 2, block=9, block_tokens=32)
    assert wider["input_ids"].tolist() == [7, 0]
    assert wider["position_ids"].tolist() == wider["past_lens"].tolist() == [40, 0]
    assert wider["subsequence_begins"].tolist() == [0, 1, 2]
    assert (wider["block_indices"].tolist(), wider["block_indices_begins"].tolist()) == (
        [3, 2, 9],
        [0, 2, 3],
    )
    assert wider[LOGITS_INPUT].tolist() == [0, 0]
    assert {name: array.dtype for name, array in wider.items()} == {
        name: array.dtype for name, array in inputs.items()
    }
    longer = padded(inputs, 36, 1, block=9, block_tokens=32)
    assert longer["position_ids"].tolist() == [40, *range(35)]
    assert longer["block_indices"].tolist() == [3, 2, 9, 9]
    assert longer["max_context_len"] == 41
    assert longer[LOGITS_INPUT].tolist() == [0]


def test_steps_have_few_sizes_and_little_padding():
    sizes = range(1, 1025)
    assert [size for size in sizes if rounded_up(size) != size][:4] == [33, 35, 37, 39]
    assert len({rounded_up(size) for size in sizes}) == 32 + 5 * 16
    assert all(0 <= rounded_up(size) - size <= size / 16 for size in sizes)


def test_padding_does_not_change_what_a_step_gives_and_each_sharer_may_close_a_session(exported):
    session = OpenVINOSession(exported("llama")[1] / "openvino_model.xml", EXACT)
    session.reserve(64, 4)
    session.allocate(8)
    long = np.resize(PROMPT, 45)
    logits = session.run(step(long, 0, [4, 5], [43, 44])).copy()
    exact = session._infer(step_inputs(step(long, 0, [4, 5], [43, 44])))
    np.testing.assert_array_equal(logits, exact)
    assert session._padded(step_inputs(step(long, 0, [4, 5], [44])))["input_ids"].shape == (46,)
    session.reserve(45, 4)
    assert session._padded(step_inputs(step(long, 0, [4, 5], [44])))["input_ids"].shape == (45,)
    session.close()
    session.close()
    assert session.describe()["device"] == "cpu"
