"""How many blocks and rows for states fit the memory of a cache."""

from __future__ import annotations

import pytest

from pipelines.inference.backends.fake_decoder import FakeSession
from pipelines.inference.engine.kv_cache.cache import Cache
from pipelines.inference.engine.kv_cache.cache_size import (
    GIB,
    TOKENS_PER_STORED_STATE,
    CacheSize,
    device_cache,
    host_blocks,
)
from pipelines.inference.engine.sequences.policy import EngineSettings
from pipelines.inference.engine.sequences.slots import SequenceSlots

SETTINGS = EngineSettings(max_sequences=4, max_step_tokens=64)
BLOCK_BYTES = FakeSession().block_bytes
STATE_BYTES = FakeSession(keeps_states=True).state_bytes


def test_a_model_without_states_has_blocks_alone():
    size = device_cache(100 * BLOCK_BYTES / GIB, SETTINGS, [FakeSession()], 4000)
    assert size == CacheSize(100, 0)


def test_what_all_sequences_can_use_includes_their_frames():
    sizes = [device_cache(1.0, SETTINGS, [FakeSession(max_frames=count)], 40) for count in (0, 1500)]
    assert [size.num_blocks for size in sizes] == [4 * 10, 4 * (10 + 375)]


def test_states_of_sequences_drafts_and_prefixes_are_counted_against_the_memory():
    session = FakeSession(keeps_states=True, block_tokens=64)
    budget = 100 * session.shape.block_bytes
    plain = EngineSettings(max_sequences=4, max_step_tokens=64, reuse_prefixes=False)
    drafting = EngineSettings(max_sequences=4, max_step_tokens=64, reuse_prefixes=False, num_draft_tokens=3)
    assert device_cache(budget / GIB, plain, [session], 4000).num_states == 8
    assert device_cache(budget / GIB, drafting, [session], 4000).num_states == 11
    size = device_cache(budget / GIB, SETTINGS, [session], 4000)
    assert size.num_states == 8 + 99 * 64 // TOKENS_PER_STORED_STATE
    assert 0 <= budget - size.num_blocks * session.shape.block_bytes - size.num_states * STATE_BYTES < 512


def test_large_states_take_a_quarter_of_the_memory_at_most(monkeypatch):
    monkeypatch.setattr(FakeSession, "state_bytes", 1 << 20)
    session = FakeSession(keeps_states=True)
    size = device_cache(1.0, SETTINGS, [session], 1 << 28)
    assert size.num_states == 8 + (1024 - 8) // 4


def test_states_that_leave_no_room_for_a_block_are_refused_with_advice():
    with pytest.raises(ValueError, match=r"beside 64 bytes for the states .* lower max_sequences"):
        device_cache(80 / GIB, SETTINGS, [FakeSession(keeps_states=True)], 4000)


def test_states_are_not_swapped():
    session = FakeSession(keeps_states=True)
    with pytest.raises(ValueError, match=r"cache.swap_gb: .* recurrent states, which are not swapped"):
        host_blocks(1.0, [session])
    assert host_blocks(0, [session]) == 0
    with pytest.raises(ValueError, match="recurrent states"):
        Cache(4, 4, SequenceSlots(2, 4), True, num_host_blocks=1, num_states=4)
