"""Conversations that share a beginning are one row, and are learned as if each were a row of its own."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional
from transformers import Qwen3Config, Qwen3ForCausalLM

from tools.train_demo.rows import IGNORED, Row, batches, inputs_of, row_of

SEQUENCES = [
    ([1, 2, 3, 4, 5, 6, 7], [-100, -100, -100, -100, -100, 6, 7]),
    ([1, 2, 3, 8, 9], [-100, -100, -100, -100, 9]),
    ([1, 2, 3, 4, 9, 2, 2], [-100, -100, -100, -100, 9, 2, 2]),
]


def test_a_common_beginning_stands_once() -> None:
    row = row_of(SEQUENCES)
    assert row.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 8, 4, 9, 2]
    assert row.positions.tolist() == [0, 1, 2, 3, 4, 5, 3, 3, 4, 5]
    assert row.branches.tolist() == [0, 0, 0, 1, 1, 1, 2, 3, 3, 3]
    assert row.targets[row.targets != IGNORED].tolist() == [6, 7, 9, 9, 2, 2]


def test_one_conversation_needs_no_mask() -> None:
    inputs, targets = inputs_of([row_of(SEQUENCES[:1])])
    assert inputs["input_ids"].tolist() == [[1, 2, 3, 4, 5, 6]]
    assert targets.tolist() == [[-100, -100, -100, -100, 6, 7]]
    assert inputs["attention_mask"] == {"full_attention": None}


def test_equal_conversations_are_one_row() -> None:
    row = row_of([SEQUENCES[0]] * 2)
    assert row.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 6]
    assert row.branches.tolist() == [0, 0, 0, 0, 0, 1, 2]
    assert row.targets[row.targets != IGNORED].tolist() == [7, 7]


def test_a_shared_row_has_the_loss_of_separate_ones() -> None:
    torch.manual_seed(1)
    config = Qwen3Config(
        vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).eval()

    def losses(rows: list[Row]) -> torch.Tensor:
        inputs, targets = inputs_of(rows)
        logits = model(**inputs, use_cache=False).logits
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")

    apart = losses([row_of([sequence]) for sequence in SEQUENCES])
    together = losses([row_of(SEQUENCES), row_of(SEQUENCES[1:2])])
    torch.testing.assert_close(together.sum(), apart.sum() + losses([row_of(SEQUENCES[1:2])]).sum())


def test_every_row_is_in_a_batch() -> None:
    rows = [row_of([([1] * length, [1] * length)]) for length in range(2, 40)]
    found, stream = [], batches(rows, 64, seed=1)
    while len(found) < len(rows):
        batch = next(stream)
        assert sum(len(row.token_ids) for row in batch) <= 64
        found += batch
    assert sorted(len(row.token_ids) for row in found) == sorted(len(row.token_ids) for row in rows)
    assert all(isinstance(row.token_ids, np.ndarray) for row in found)
