"""What the export records of attention, and how it computes it until it writes its node."""

from __future__ import annotations

import importlib.util
from functools import cache

import pytest
from later import Later

if not all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
    pytest.skip("needs the export extra", allow_module_level=True)


from tools.export.base.folder import ExportError

torch, watched = Later("torch"), Later("tools.export.decoders.attention")


@cache
def random():
    return torch.Generator().manual_seed(5)


def heads(size: int) -> torch.Tensor:
    """[1, 4 heads, 5 tokens, size]."""
    return torch.randn(1, 4, 5, size, generator=random())


def test_values_smaller_than_keys_are_attended_to_as_they_are():
    query, key, value = heads(8), heads(8), heads(6)
    attention = watched.Attention()
    with attention.run():
        attended, _ = attention(torch.nn.Identity(), query, key, value, watched.Seen(watched.EVERYTHING))
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(
        1, 2
    )
    torch.testing.assert_close(attended, expected)
    assert attention.layers[0].head_size == 8


@pytest.mark.parametrize(
    ("size", "mask", "why"),
    [(8, None, "other tokens than a causal window"), (9, "everything", "a larger head size")],
)
def test_what_the_node_cannot_say_is_refused(size, mask, why):
    with pytest.raises(ExportError, match=why):
        watched.Attention()(
            torch.nn.Identity(), heads(8), heads(8), heads(size), watched.Seen(mask and watched.EVERYTHING)
        )
