"""Which experts each token chose, in whole replies, as vLLM's clients read it."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from scripted import said

from pipelines.wire.token_piece import ExpertChoices

ROWS = np.arange(12, dtype=np.int16).reshape(3, 2, 2)


@pytest.fixture
def choosing(rig):
    parts = [ExpertChoices(2, 2, [rows.tobytes()]) for rows in (ROWS[:2], ROWS[2:])]
    rig.pipeline.batches = [[(0, said("a", experts=parts[0]))], [(0, said("b", "stop", experts=parts[1]))]]
    return rig


def read(text):
    return np.load(io.BytesIO(base64.b64decode(text)))


@pytest.mark.parametrize("kind", ["chat", "complete"])
def test_a_whole_reply_has_the_choices_of_all_its_pieces(choosing, kind):
    reply = getattr(choosing, kind)(return_routed_experts=True, routed_experts_prompt_start=2).json
    found = read(reply["choices"][0]["routed_experts"])
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, ROWS)
    sampling = choosing.pipeline.asked.sampling
    assert (sampling["return_routed_experts"], sampling["routed_experts_prompt_start"]) == (True, 2)


def test_a_reply_of_token_ids_has_them_too(choosing):
    body = {"model": "tiny", "token_ids": [1, 2, 3], "sampling_params": {"routed_experts_prompt_start": 1}}
    reply = choosing.post("/inference/v1/generate", body).json
    np.testing.assert_array_equal(read(reply["choices"][0]["routed_experts"]), ROWS)
    assert choosing.pipeline.asked.sampling["routed_experts_prompt_start"] == 1


def test_replies_without_choices_have_null_and_streams_ask_for_none(rig):
    assert rig.chat().json["choices"][0]["routed_experts"] is None
    assert "return_routed_experts" not in rig.pipeline.asked.sampling
    assert rig.chat(stream=True).status == 200
    assert rig.pipeline.asked.sampling["return_routed_experts"] is False
    assert rig.chat(stream=True, return_routed_experts=True).error["param"] == "return_routed_experts"
