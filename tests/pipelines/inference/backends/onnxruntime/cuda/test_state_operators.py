"""The operators that launch kernels of recurrent layers: what they compute, and what they refuse."""

from __future__ import annotations

import ctypes

import numpy as np
import onnx
import pytest
from host_device import LAUNCH, HostDevice
from onnx import TensorProto, helper

from ops.cuda.device import Launcher
from pipelines.inference.backends.onnxruntime.cuda.recurrent import STATES_DOMAIN
from pipelines.inference.backends.onnxruntime.cuda.states import StateKernels
from pipelines.inference.backends.onnxruntime.runtime import CPU, RUNTIME_ERRORS, open_session
from pipelines.inference.contracts.step import NO_STATE, ONLY_LAST

CHANNELS, KERNEL, TOKENS, ROWS = 5, 3, 4, 2
STEPS = np.array([[0, TOKENS, 0, ONLY_LAST, NO_STATE, 1]], np.int32)


@pytest.fixture(scope="module")
def library(kernel_folder):
    return kernel_folder / "libbraid_onnxruntime.so"


@pytest.fixture(scope="module")
def session(library):
    shapes = {
        "rows": (TensorProto.FLOAT16, [1, TOKENS, CHANNELS]),
        "weight": (TensorProto.FLOAT, [CHANNELS, 1, KERNEL]),
        "bias": (TensorProto.FLOAT, [CHANNELS]),
        "states": (TensorProto.FLOAT, ["rows", CHANNELS, "kernel"]),
        "steps": (TensorProto.INT32, ["batch", "width"]),
        "kernels": (TensorProto.INT32, [1]),
    }
    node = helper.make_node(
        "ShortConv", [*shapes], ["mixed"], domain=STATES_DOMAIN, channels=CHANNELS, kernel=KERNEL
    )
    inputs = [helper.make_tensor_value_info(name, *shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("mixed", TensorProto.FLOAT, [1, TOKENS, CHANNELS])]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(STATES_DOMAIN, 1)]
    model = helper.make_model(
        helper.make_graph([node], "one", inputs, outputs), opset_imports=opsets, ir_version=10
    )
    onnx.checker.check_model(model)
    return open_session(model.SerializeToString(), library.parent, [CPU], 1, {}, library)


@pytest.fixture
def kernels(library):
    made = StateKernels(HostDevice(), library)
    yield made
    made.close()


def inputs_of(kernels):
    rng = np.random.default_rng(0)
    return {
        "rows": rng.standard_normal((1, TOKENS, CHANNELS)).astype(np.float16),
        "weight": rng.standard_normal((CHANNELS, 1, KERNEL)).astype(np.float32),
        "bias": rng.standard_normal(CHANNELS).astype(np.float32),
        "states": np.zeros((ROWS, CHANNELS, KERNEL), np.float32),
        "steps": STEPS,
        "kernels": kernels.number,
    }


def test_a_node_computes_rows_of_sixteen_bits_and_writes_its_state(session, kernels):
    inputs = inputs_of(kernels)
    (mixed,) = session.run(None, inputs)
    rows = np.concatenate([np.zeros((KERNEL - 1, CHANNELS)), inputs["rows"][0]])
    expected = [
        (rows[token : token + KERNEL].T * inputs["weight"][:, 0]).sum(1) + inputs["bias"]
        for token in range(TOKENS)
    ]
    np.testing.assert_allclose(mixed[0], expected, atol=1e-5)
    np.testing.assert_array_equal(inputs["states"][1], rows[-KERNEL:].T)
    assert not inputs["states"][0].any()


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"kernels": np.zeros(1, np.int32)}, "the number of the kernels"),
        ({"states": np.zeros((ROWS, CHANNELS, KERNEL + 1), np.float32)}, "states"),
        ({"steps": STEPS[:, :5]}, "steps"),
    ],
)
def test_what_does_not_fit_is_refused(session, kernels, changed, fault):
    with pytest.raises(RUNTIME_ERRORS, match=f"ShortConv: not as it has to be: {fault}"):
        session.run(None, inputs_of(kernels) | changed)


def test_kernels_of_a_closed_session_are_forgotten(session, kernels, library):
    other = StateKernels(HostDevice(), library)
    other.close()
    assert other.number != kernels.number
    with pytest.raises(RUNTIME_ERRORS, match="the number of the kernels"):
        session.run(None, inputs_of(other))
    session.run(None, inputs_of(kernels))


def test_a_kernel_that_cannot_be_launched_is_an_error(session, library):
    """The driver answers like this once the device has lost its context."""
    broken = HostDevice()
    failing = LAUNCH(lambda *arguments: 700)
    address = ctypes.cast(failing, ctypes.c_void_p).value
    broken.launcher = lambda names: Launcher(address, [1] * len(names), failing)
    kernels = StateKernels(broken, library)
    with pytest.raises(RUNTIME_ERRORS, match="cannot be launched: error 700"):
        session.run(None, inputs_of(kernels))
    kernels.close()
