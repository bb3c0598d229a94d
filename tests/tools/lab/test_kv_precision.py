"""How far logits are from exact ones, and how far a u8 cache puts the demo's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.paging.sparse_prefill import RetainedContext
from tools.lab.kv_precision import Distance, compare, distance, over_all, table

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "model_repo" / "braid-demo" / "model"


def test_equal_logits_are_no_way_apart():
    logits = np.random.default_rng(0).normal(size=(3, 11)).astype(np.float32)
    assert distance(logits, logits) == Distance(0, 0, 0, 0, 1)


def test_what_all_tokens_gain_counts_for_nothing():
    logits = np.random.default_rng(0).normal(size=(3, 11)).astype(np.float32)
    assert distance(logits, logits + 7) == pytest.approx(Distance(0, 0, 0, 0, 1), abs=1e-5)


def test_the_divergence_is_that_of_the_textbook():
    exact, other = np.log([[0.5, 0.5], [0.9, 0.1]]), np.log([[0.75, 0.25], [0.1, 0.9]])
    found = distance(exact.astype(np.float32), other.astype(np.float32))
    first, second = 0.5 * np.log(2) + 0.5 * np.log(2 / 3), 0.9 * np.log(9) + 0.1 * np.log(1 / 9)
    assert found.kl == pytest.approx((first + second) / 2, rel=1e-5)
    assert found.kl_max == pytest.approx(second, rel=1e-5)
    assert found.same == 0.5


def test_how_much_less_likely_the_text_becomes():
    exact, other = np.log([[0.5, 0.5], [0.9, 0.1]]), np.log([[0.25, 0.75], [0.45, 0.55]])
    found = distance(exact.astype(np.float32), other.astype(np.float32), np.array([0, 0]))
    assert found.worse == pytest.approx(np.log(2), rel=1e-5)


def test_parts_are_weighed_by_their_positions():
    parts = [(3, Distance(1, 5, 0.1, 0.2, 1)), (1, Distance(5, 2, 0.5, 0.9, 0))]
    assert over_all(parts) == pytest.approx(Distance(2, 5, 0.2, 0.9, 0.75))


def test_a_u8_cache_moves_the_demos_logits_less_than_this():
    """Measured: mean divergence 5e-4 nats, the same likeliest token at 98 % of the positions."""
    ids = Tokenizer.from_file(str(DEMO / "tokenizer.json")).encode(_conversation()).ids[:256]
    [(name, found)] = compare(DEMO / "model.onnx", ids, [OpenVINOSettings("cpu", "u8", "f32")])
    assert name == "u8 cache, f32 activations"
    assert 0 < found.kl < 5e-3
    assert found.mean_abs < 0.15
    assert found.same > 0.94
    assert len(list(table([(name, found)]))) == 3


@pytest.mark.breadth
def test_what_is_left_out_of_a_context_changes_logits_after_it():
    ids = Tokenizer.from_file(str(DEMO / "tokenizer.json")).encode(_conversation()).ids[: 3 * 512 + 17]
    all_kept, most = RetainedContext(64, 2048), RetainedContext(0, 32)
    exact = OpenVINOSettings("cpu", "f32", "f32")
    rows = compare(
        DEMO / "model.onnx", ids, [replace(exact, retained=one) for one in (all_kept, most)], 3 * 512
    )
    assert rows[0] == ("f32 cache, f32 activations, sparse prefill 64+2048", Distance(0, 0, 0, 0, 1, 0))
    assert rows[1][1].kl > 1e-6


def _conversation() -> str:
    held_out = json.loads((ROOT / "tests" / "fixtures" / "held_out.json").read_text())
    said = [message for one in [*held_out["pirate"], *held_out["french"]] for message in one["messages"]]
    return "\n".join(f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>" for one in said)
