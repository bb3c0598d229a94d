"""Rotary settings that transformers 5 wrote, as transformers 4 reads them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tools.export.base.folder import ExportError
from tools.export.base.model_config import place_rope_parameters

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


def placed(rope, **fields):
    config = SimpleNamespace(
        model_type="m", rope_parameters=rope, rope_theta=1e4, rope_scaling=None, **fields
    )
    place_rope_parameters(config)
    return config


def test_a_base_of_its_own():
    assert placed({"rope_type": "default", "rope_theta": 5e5}).rope_theta == 5e5


def test_another_kind_is_the_scaling():
    config = placed({"rope_theta": 1e6, **YARN})
    assert (config.rope_theta, config.rope_scaling) == (1e6, YARN)


def test_a_part_of_a_head():
    assert placed({"partial_rotary_factor": 0.5}, partial_rotary_factor=1.0).partial_rotary_factor == 0.5


def test_a_part_of_a_head_in_the_words_of_transformers_4():
    assert placed(None, partial_rotary_factor=0.5).partial_rotary_factor == 0.5


def test_two_kinds_of_layers():
    rope = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    }
    config = placed(rope, rope_local_base_freq=1e4)
    assert (config.rope_theta, config.rope_local_base_freq) == (1e6, 2e4)
    assert config.rope_scaling == {"rope_type": "linear", "factor": 8.0}


@pytest.mark.parametrize(
    "rope",
    [
        {"partial_rotary_factor": 0.5},
        {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}},
    ],
)
def test_what_has_no_field_is_refused(rope):
    with pytest.raises(ExportError, match="rope_parameters transformers 4 cannot read for m"):
        placed(rope)
