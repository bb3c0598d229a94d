"""What is read from the masks of an export: windows, slopes, chunks; and what paging cannot say."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from tiny_decoders import SLIDING

from pipelines.inference.backends.openvino.paging import attention_masks
from pipelines.inference.backends.openvino.paging.attention_masks import CAUSAL, read_attention_masks
from pipelines.inference.contracts.device_errors import ModelError

LOW = np.finfo(np.float32).min
SLOPES = np.array([0.5, 0.125], np.float32)


def rows(num_past, num_new, sees):
    """float32[1, num_new, num_past + num_new]: `sees(query, key)` by position."""
    queries, keys = np.arange(num_past, num_past + num_new)[:, None], np.arange(num_past + num_new)
    return np.where(sees(queries, keys), 0, LOW).astype(np.float32)[None]


def understood(sees, bias=lambda queries, keys: 0.0):
    """What is read of a mask at the beginning and at the end of 300 tokens."""

    def both(num_past, num_new):
        queries, keys = np.arange(num_past, num_past + num_new)[:, None], np.arange(num_past + num_new)
        added = np.broadcast_to(bias(queries, keys), (*np.shape(bias(0, 0))[:-2], num_new, len(keys)))
        return np.maximum(rows(num_past, num_new, sees) + added, LOW).astype(np.float32)

    return attention_masks._understood(3, both(0, 48), both(296, 4))


def causal(queries, keys):
    return keys <= queries


def alibi(queries, keys):
    return SLOPES[:, None, None] * (keys - queries)


def test_a_causal_mask_has_no_limit():
    assert understood(causal) == CAUSAL


@pytest.mark.parametrize("window", [2, 24, 128])
def test_a_window_counts_the_token_itself(window):
    assert understood(lambda query, key: (key <= query) & (key > query - window)).window == window


def test_chunks_are_no_window():
    found = understood(lambda query, key: (key <= query) & (key // 128 == query // 128))
    assert (found.window, found.chunked) == (-1, True)


@pytest.mark.parametrize("shift", [0, 77], ids=["to the query", "to the first token"])
def test_slopes_of_alibi(shift):
    found = understood(causal, lambda query, key: alibi(query, key) + shift)
    np.testing.assert_allclose(found.slopes, SLOPES, rtol=1e-6)


@pytest.mark.parametrize(
    ("sees", "bias", "reason"),
    [
        (lambda query, key: key <= query + 1, 0.0, "sees later tokens"),
        (lambda query, key: key < query, 0.0, "does not see the token itself"),
        (lambda query, key: (key <= query) & (key % 3 < 2), 0.0, "does not see the token itself"),
        (causal, lambda query, key: -np.sqrt(np.maximum(query - key, 0)), "a bias to its scores"),
    ],
)
def test_what_a_paged_attention_cannot_say_is_refused(sees, bias, reason):
    added = bias if callable(bias) else lambda query, key: np.zeros((1, 1))
    with pytest.raises(ModelError, match=f"layer 3 .*{reason}.*--format onnx"):
        understood(sees, added)


@pytest.mark.slow
def test_masks_of_an_export_are_its_layers_windows(exported):
    model = ov.Core().read_model(exported("mistral")[1] / "openvino_model.xml")
    before = [node.get_name() for node in model.get_ops()]
    assert [mask.window for mask in read_attention_masks(model, 512)] == [SLIDING] * 2
    assert [node.get_name() for node in model.get_ops()] == before


@pytest.mark.slow
def test_slopes_of_an_export(exported):
    masks = read_attention_masks(ov.Core().read_model(exported("bloom")[1] / "openvino_model.xml"), 512)
    assert len(masks) == 2
    for mask in masks:
        np.testing.assert_allclose(mask.slopes, [2**-4, 2**-8], rtol=1e-5)
