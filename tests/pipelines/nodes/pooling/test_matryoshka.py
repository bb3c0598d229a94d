"""Vectors cut to the length that is asked for."""

import numpy as np
import pytest
from prompt_nodes import call_of

from pipelines.base.errors import RequestError
from pipelines.nodes.pooling.matryoshka import Matryoshka
from pipelines.values.node_values import PooledOutputs
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import PoolingInput

VECTORS = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)


def cut(values, wanted, known=None, activate=True):
    node = Matryoshka(Matryoshka.Config(dimensions=known), None)
    call = call_of(PoolingInput(dimensions=wanted, activate=activate))
    found = PooledOutputs(values)
    for make in node.run(call, Deferred("engine")).makers:
        found = make(found)
    assert node.plan(call.request).handled == {"dimensions"}
    return found.values


def test_a_cut_vector_has_length_1_again():
    kept = cut(VECTORS, 4, [4, 8])
    assert kept.dtype == np.float32
    np.testing.assert_allclose(
        kept, VECTORS[:, :4] / np.linalg.norm(VECTORS[:, :4], axis=1)[:, None], atol=1e-6
    )


def test_without_activation_the_numbers_stay():
    np.testing.assert_array_equal(cut(VECTORS, 4, activate=False), VECTORS[:, :4])


def test_without_dimensions_nothing_is_cut():
    assert cut(VECTORS, None, [4]) is VECTORS


def test_a_vector_of_zeros_stays_one():
    np.testing.assert_array_equal(cut(np.zeros((1, 8), np.float32), 4), np.zeros((1, 4)))


def test_vectors_of_tokens_are_cut_each():
    assert [each.shape for each in cut([VECTORS, VECTORS[:1]], 2)] == [(3, 2), (1, 2)]


def test_a_length_that_was_not_taught_is_refused_before_anything_runs():
    with pytest.raises(RequestError) as error:
        cut(None, 5, [8, 4])
    assert error.value.message == "Model 'm' only supports Matryoshka dimensions [4, 8], got 5."


@pytest.mark.parametrize("wanted", [0, 9, -1])
def test_a_length_that_no_vector_has_is_refused(wanted):
    with pytest.raises(RequestError) as error:
        cut(VECTORS, wanted)
    assert error.value.message == f"Model 'm' only supports dimensions in range [1, 8], got {wanted}."
