"""How many activations share a scale: what fits a model's products, and what the device is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.device_properties import checked_properties
from pipelines.inference.backends.openvino.model.activation_groups import ROUNDING, check_group
from pipelines.inference.contracts.device_errors import ModelError

DEMO = Path(__file__).parents[6] / "model_repo" / "braid-demo" / "model" / "model.onnx"


def linear(rows: ov.Node, size_in: int, group: int | None, dtype: type) -> ov.Node:
    """rows × weights of `dtype`; integers have a scale for each output, or for each `group` weights of it."""
    shape = (8, size_in) if group is None else (8, size_in // group, group)
    weight = ops.constant(np.ones(shape, dtype))
    if dtype is not np.float32:
        scale = ops.constant(np.ones((*shape[:-1], 1), np.float32))
        weight = ops.multiply(ops.convert(weight, "f32"), scale)
    if group is not None:
        weight = ops.reshape(weight, ops.constant([8, size_in]), False)
    return ops.matmul(rows, weight, False, True)


def model(*linears: tuple[int, int | None, type]) -> ov.Model:
    inputs = [ops.parameter([-1, size_in], np.float32) for size_in, *_ in linears]
    outputs = [linear(rows, *one) for rows, one in zip(inputs, linears, strict=True)]
    return ov.Model(outputs, inputs)


@pytest.mark.parametrize(
    ("linears", "largest"),
    [
        ([(256, None, np.uint8)], 256),
        ([(256, None, np.int8), (192, None, np.int8)], 64),
        ([(576, None, np.uint8), (1536, None, np.uint8)], 192),
        ([(256, None, np.uint8), (256, 32, np.uint8)], 32),
        ([(1024, 128, np.uint8)], 128),
        ([(256, None, np.uint8), (100, None, np.float32)], 256),
    ],
)
def test_a_group_divides_rows_and_groups_of_weights(linears, largest):
    check_group(model(*linears), largest)
    with pytest.raises(ModelError, match=f"{2 * largest} does not divide the {largest} weights of a scale"):
        check_group(model(*linears), 2 * largest)


def test_a_model_without_compressed_weights_has_no_groups():
    with pytest.raises(ModelError, match="no weights of four or eight bits"):
        check_group(model((256, None, np.float32)), 32)


def test_the_device_is_told_and_a_group_that_does_not_fit_is_refused():
    for group in (0, 64):
        session = OpenVINOSession(DEMO, OpenVINOSettings(threads=1, activation_group=group))
        assert session._compiled.get_property(ROUNDING) == group
        assert session.describe()["activation_group"] == str(group)
        session.close()
    with pytest.raises(ModelError, match="activation_group: 128 does not divide"):
        OpenVINOSession(DEMO, OpenVINOSettings(threads=1, activation_group=128))


def test_who_asks_for_f32_cannot_ask_for_groups():
    with pytest.raises(ModelError, match="activation_group: with precision f32"):
        checked_properties(OpenVINOSettings(precision="f32", activation_group=32))
    assert checked_properties(OpenVINOSettings(activation_group=0))["DYNAMIC_QUANTIZATION_GROUP_SIZE"] == 0
