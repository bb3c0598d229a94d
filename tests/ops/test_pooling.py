"""What is made of an encoder's values, against torch and the formulas of sentence-transformers."""

from __future__ import annotations

import numpy as np
import pytest
from later import Later, missing

from ops import pooling

if missing("torch"):
    pytest.skip("needs the extra export", allow_module_level=True)
torch = Later("torch")

LENGTHS = np.array([5, 1, 9, 4])
EVERY = np.ones(len(LENGTHS), np.bool_)


@pytest.fixture
def values():
    """[4, 9, 24], and no number where no token stands."""
    array = np.random.default_rng(0).normal(size=(4, 9, 24)).astype(np.float32)
    array[np.arange(9) >= LENGTHS[:, None]] = np.nan
    return array


def sentence_transformers(values, how):
    """`models/Pooling.py` of sentence-transformers 5, for its modes by our names."""
    tokens = torch.from_numpy(np.nan_to_num(values))
    mask = torch.from_numpy(np.arange(9) < LENGTHS[:, None]).long()
    wide = mask.unsqueeze(-1).expand(tokens.size()).to(tokens.dtype)
    if how == "cls":
        return tokens[:, 0]
    if how == "max":
        return tokens.masked_fill(wide == 0, -1e9).max(1)[0]
    if how == "last":
        at = (mask.sum(1) - 1).view(-1, 1, 1).expand(-1, 1, tokens.shape[2])
        return torch.gather(tokens, 1, at)[:, 0]
    if how == "weighted_mean":
        wide = wide * torch.arange(1, tokens.shape[1] + 1).unsqueeze(0).unsqueeze(-1)
    summed, counted = (tokens * wide).sum(1), wide.sum(1).clamp(min=1e-9)
    return summed / (torch.sqrt(counted) if how == "mean_sqrt_len" else counted)


@pytest.mark.parametrize("how", pooling.POOLINGS)
def test_poolings_are_those_of_sentence_transformers_and_read_no_padding(values, how):
    pooled = pooling.pool(values, LENGTHS, how)
    assert pooled.dtype == np.float32
    np.testing.assert_allclose(pooled, sentence_transformers(values, how).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("how", pooling.POOLINGS)
def test_a_text_is_pooled_beside_others_as_alone(values, how):
    together = pooling.pool(values, LENGTHS, how)
    for text, length, row in zip(values, LENGTHS, together, strict=True):
        alone = pooling.pool(text[None, :length].copy(), np.array([length]), how)[0]
        np.testing.assert_allclose(row, alone, rtol=1e-6, atol=1e-7)


def test_vectors_have_length_1_but_where_there_is_none():
    rows = np.array([[3, 4], [0, 0], [1e-20, 0]], np.float32)
    unit = pooling.normalize(rows, np.ones(3, np.bool_))
    expected = torch.nn.functional.normalize(torch.from_numpy(rows), dim=-1)
    np.testing.assert_allclose(unit, expected.numpy(), rtol=1e-6)


def test_softmax_and_sigmoid_bear_large_numbers():
    rows = np.array([[1000, -1000, 3], [-90, 90, 0.5]], np.float32)
    both = np.ones(2, np.bool_)
    tensor = torch.from_numpy(rows)
    np.testing.assert_allclose(pooling.softmax(rows, both), tensor.softmax(-1).numpy(), atol=1e-7)
    np.testing.assert_allclose(pooling.sigmoid(rows, both), tensor.sigmoid().numpy(), atol=1e-7)


@pytest.mark.parametrize("change", [pooling.normalize, pooling.sigmoid, pooling.softmax])
def test_only_texts_that_want_it_are_changed_and_what_was_given_is_not(change):
    rows = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    before = rows.copy()
    changed = change(rows, np.array([True, False, True]))
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_array_equal(changed[1], before[1])
    np.testing.assert_array_equal(changed[[0, 2]], change(before[[0, 2]], np.ones(2, np.bool_)))
    assert change(rows, np.zeros(3, np.bool_)) is rows


@pytest.mark.parametrize("change", [pooling.normalize, pooling.softmax])
def test_rows_of_tokens_are_changed_one_by_one(values, change):
    changed = change(values, EVERY)
    for text, length, row in zip(values, LENGTHS, changed, strict=True):
        np.testing.assert_allclose(row[:length], change(text[:length], np.ones(length, np.bool_)), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("identity", "Identity"),
        ("tanh", "Tanh"),
        ("relu", "ReLU"),
        ("gelu", "GELU"),
        ("sigmoid", "Sigmoid"),
        ("silu", "SiLU"),
    ],
)
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_dense_layer_is_torchs(name, module, has_bias):
    torch.manual_seed(0)
    layer = torch.nn.Linear(7, 11, has_bias)
    rows = np.random.default_rng(0).normal(0, 3, (4, 7)).astype(np.float32)
    weight, bias = (
        None if one is None else pooling.load(one.detach().numpy()) for one in (layer.weight, layer.bias)
    )
    expected = getattr(torch.nn, module)()(layer(torch.from_numpy(rows))).detach().numpy()
    np.testing.assert_allclose(pooling.dense(rows, weight, bias, name), expected, atol=2e-6)


def test_what_is_fetched_is_the_callers_own(values):
    fetched = pooling.fetch(pooling.pool(values, LENGTHS, "cls"))
    fetched[:] = 0
    assert values[0, 0, 0] != 0
