"""Poolings, activations and projections of the kernels against numpy's, for every type that models give."""

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops import pooling as host
from ops.cuda import pooling
from ops.cuda.device_buffers import DeviceBuffers
from ops.cuda.pooling import CudaPoolingOps

F = np.float32
TYPES = ("float32", "float16", "bfloat16")
CLOSE = {"rtol": 2e-5, "atol": 2e-6}
ON_ROWS = ("normalize", "sigmoid", "softmax")


def as_given(values, kind):
    """The values as an array that holds them in `kind`."""
    if kind != "bfloat16":
        return values.astype(kind)
    return (values.astype(F).view(np.uint32) >> 16).astype(np.uint16)


def widened(given):
    """What an array of any type means, in float32."""
    if given.dtype != np.uint16:
        return given.astype(F)
    return (given.astype(np.uint32) << 16).view(F)


def random_values(shape, kind, seed):
    return as_given(np.random.default_rng(seed).standard_normal(shape) * 3, kind)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("how", host.POOLINGS)
def test_texts_are_pooled_as_numpy_pools_them(device, how, kind):
    values, lengths = random_values((5, 19, 70), kind, 1), np.array([19, 1, 8, 9, 2])
    behind = np.arange(19) >= lengths[:, None]
    values[behind] = 0x7FFF if kind == "bfloat16" else np.nan
    ops = CudaPoolingOps(device)
    found = ops.fetch(ops.pool(device.upload(values), lengths, how))
    np.testing.assert_allclose(found, host.pool(widened(values), lengths, how), **CLOSE)
    assert found.dtype == F


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(host.POOLINGS)), st.integers(1, 40), st.integers(1, 100), st.integers(0, 999))
def test_a_text_is_the_same_to_the_last_bit_in_any_batch(one_device, how, length, size, seed):
    values, ops = random_values((3, 40, size), "float16", seed), CudaPoolingOps(one_device)
    lengths = np.array([40, length, 1])
    together = ops.fetch(ops.pool(one_device.upload(values), lengths, how))
    alone = ops.fetch(ops.pool(one_device.upload(values[1:2, :length].copy()), lengths[1:2], how))
    np.testing.assert_array_equal(together[1:2], alone)


def test_every_half_is_the_float_that_numpy_says(one_device):
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    ops = CudaPoolingOps(one_device)
    found = ops.pool(one_device.upload(halves.reshape(1, 1, -1)), np.array([1]), "max")
    np.testing.assert_array_equal(one_device.download(found)[0], halves.astype(F))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(6, 70), (6, 1), (3, 5, 33)])
@pytest.mark.parametrize("name", ON_ROWS)
def test_rows_of_texts_and_of_tokens(device, name, shape, kind):
    values = random_values(shape, kind, 3)
    ops, on_device = CudaPoolingOps(device), device.upload(values)
    for where in (np.ones(shape[0], bool), np.arange(shape[0]) % 2 == 1, np.zeros(shape[0], bool)):
        found = ops.fetch(getattr(ops, name)(on_device, where))
        np.testing.assert_allclose(found, getattr(host, name)(widened(values), where), **CLOSE)
    np.testing.assert_array_equal(on_device, values)


@pytest.mark.parametrize("name", ON_ROWS)
def test_rows_that_are_odd(one_device, name):
    """Nothing, the smallest, the largest, and what is no number."""
    values = np.array([[0, 0, 0], [1e-30, 0, 0], [88, 200, -200], [np.nan, 1, 2], [-np.inf, 1, 2]], F)
    where, ops = np.ones(5, bool), CudaPoolingOps(one_device)
    found = ops.fetch(getattr(ops, name)(one_device.upload(values), where))
    np.testing.assert_allclose(found, getattr(host, name)(values, where), **CLOSE)


@pytest.mark.parametrize("activation", host.ACTIVATIONS)
def test_dense_layers_with_every_activation(device, activation):
    random = np.random.default_rng(4)
    values, weight = random.standard_normal((5, 40)).astype(F), random.standard_normal((33, 40)).astype(F)
    bias, ops = random.standard_normal(33).astype(F), CudaPoolingOps(device)
    found = ops.dense(device.upload(values), ops.load(weight), ops.load(bias), activation)
    np.testing.assert_allclose(
        ops.fetch(found), host.dense(values, weight, bias, activation), rtol=1e-5, atol=2e-5
    )


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("shape", "num_out"), [((70, 31), 1), ((2, 37, 64), 65), ((1, 1), 3)])
def test_dense_layers_of_every_shape_without_a_bias(one_device, shape, num_out, kind):
    values = random_values(shape, kind, 5)
    weight = np.random.default_rng(6).standard_normal((num_out, shape[-1])).astype(F)
    ops = CudaPoolingOps(one_device)
    found = ops.fetch(ops.dense(one_device.upload(values), ops.load(weight), None, "identity"))
    np.testing.assert_allclose(found, widened(values) @ weight.T, rtol=1e-5, atol=5e-5)


def test_what_is_fetched_untouched_is_float32_too(one_device):
    ops = CudaPoolingOps(one_device)
    for kind in TYPES:
        values = random_values((2, 3, 4), kind, 7)
        found = ops.fetch(one_device.upload(values))
        assert found.dtype == F
        np.testing.assert_array_equal(found, widened(values))


def test_kept_memory_is_the_same_until_more_is_asked_for(one_device):
    kept = DeviceBuffers(one_device)
    first = kept.take("a", (3, 4), np.int64)
    first[:] = 7
    assert kept.take("b", 12, np.int64).ctypes.data != first.ctypes.data
    smaller = kept.take("a", (5,), np.float32)
    assert (smaller.ctypes.data, smaller.shape, smaller.dtype) == (first.ctypes.data, (5,), F)
    larger = kept.take("a", (40, 4), np.int64)
    larger[:] = 1
    assert larger.shape == (40, 4)
    one_device.check_guards()


def test_everything_that_numpy_has_is_there():
    assert set(pooling.POOLINGS) == set(host.POOLINGS)
    assert set(pooling.ACTIVATIONS) == set(host.ACTIVATIONS)


def test_what_does_not_fit_is_refused(one_device):
    ops, values = CudaPoolingOps(one_device), one_device.zeros((2, 4, 8), F)
    for lengths in (np.array([4, 5]), np.array([0, 1]), np.array([1])):
        with pytest.raises(IndexError, match="do not fit"):
            ops.pool(values, lengths, "mean")
    with pytest.raises(ValueError, match="do not fit"):
        ops.dense(values, ops.load(np.zeros((3, 7), F)), None, "tanh")
    with pytest.raises(ValueError, match="do not fit"):
        ops.dense(values, ops.load(np.zeros((3, 8), F)), ops.load(np.zeros(2, F)), "tanh")


def test_memory_is_taken_and_waited_for_only_while_calls_are_held(one_device):
    """Of a device that says when."""
    held, seen = [], []

    @contextlib.contextmanager
    def calls():
        held.append(1)
        yield
        held.pop()

    class Watched:
        def __getattr__(self, name):
            if name in ("empty", "zeros", "upload", "download", "launch"):
                seen.append(bool(held))
            return getattr(one_device, name)

    ops, where = CudaPoolingOps(Watched(), calls), np.array([True, False])
    pooled = ops.pool(one_device.zeros((2, 4, 8), F), np.array([4, 2]), "mean")
    ops.fetch(ops.normalize(ops.dense(pooled, ops.load(np.zeros((3, 8), F)), None, "tanh"), where))
    assert seen
    assert all(seen)
