"""What the tool asks, and what it says of logits that differ."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.inference.backends.openvino.open_decoder import settings_of
from pipelines.nodes.generation.body.model import Model
from tools.lab.first_tokens.__main__ import conversations, row
from tools.lab.kv_precision import distance


def test_there_are_200_chats_and_the_turn_is_the_assistants():
    chats = list(conversations())
    assert len(chats) == 200
    assert {chat[-1]["role"] for chat in chats} == {"user"}
    assert len({chat[-1]["content"] for chat in chats}) > 190


def test_a_row_counts_first_tokens_that_are_others():
    exact = np.log(np.array([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]], np.float32))
    other = exact[:, [1, 0, 2]]
    assert row("swapped", distance(exact, other), distance(exact, exact)).startswith("| swapped | 100.0% | ")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ({}, "f32"),
        ({"precision": "bf16"}, "bf16"),
        ({"activation_group": 0}, "f32"),
        ({"activation_group": 64}, None),
    ],
)
def test_a_line_that_says_nothing_computes_in_float32(line, wanted):
    assert settings_of(Model.Config(path="model.onnx", **line).settings()).precision == wanted
