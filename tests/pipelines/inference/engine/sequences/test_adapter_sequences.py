"""Sequences of the base and of adapters in one engine: whose each token is, and whose blocks are shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_rig import Rig

from pipelines.adapters.weights import AdapterWeights, LoraFactors
from pipelines.base.errors import EngineError
from pipelines.inference.backends.fake_decoder import fake_adapter, fake_logits
from pipelines.inference.engine.kv_cache.adapter_keys import AdapterKeys
from pipelines.inference.engine.kv_cache.prefix_digests import root
from pipelines.wire.sampling_params import Beams

PROMPT = list(range(1, 12))


def weights(seed: int) -> AdapterWeights:
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 8), (8, 2)))
    return AdapterWeights(2, {"layers.0.self_attn.q_proj": LoraFactors(a, b)})


def rig(num_host_blocks: int = 0) -> Rig:
    made = Rig(max_step_tokens=6, num_blocks=24, num_host_blocks=num_host_blocks, num_linears=1)
    for number in (1, 2):
        made.engine.put_adapter(number, weights(number))
    return made


def expected(prompt: list[int], adapter: int, num_tokens: int) -> list[int]:
    """What the fake decoder says alone: an adapter counts in each of its tokens."""
    more, ids = fake_adapter(weights(adapter)) if adapter else 0, list(prompt)
    for _ in range(num_tokens):
        ids.append(int(fake_logits([np.array(ids, np.int64) + more], 97)[0].argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("num_host_blocks", [0, 24], ids=["computed again", "swapped"])
def test_a_mixed_batch_says_what_each_says_alone_in_chunks_and_after_preemption(num_host_blocks):
    mixed = rig(num_host_blocks)
    for number in range(9):
        mixed.submit(number, PROMPT[number % 2 :], n=1 + number % 2, adapter=number % 3, max_tokens=7)
        for _ in range(2):
            mixed.step()
        if number % 3 == 2:
            mixed.preempt()
    mixed.run()
    for (key, choice), text in mixed.texts.items():
        assert text.token_ids == expected(PROMPT[key % 2 :], key % 3, 7), (key, choice)
    assert mixed.engine.counts().preemptions >= 3


def test_blocks_are_shared_within_one_load_only():
    alone = rig()
    for key, adapter in enumerate([0, 1, 2, 0, 1]):
        alone.submit(key, PROMPT, adapter=adapter, max_tokens=2)
        alone.run()
    assert [alone.texts[key, 0].num_cached for key in range(5)] == [0, 0, 0, 8, 8]
    alone.engine.drop_adapter(1)
    alone.engine.put_adapter(3, weights(1))  # the same once more
    alone.submit("again", PROMPT, adapter=3, max_tokens=2)
    alone.run()
    assert alone.texts["again", 0].num_cached == 0
    assert alone.texts["again", 0].token_ids == alone.texts[1, 0].token_ids


def test_the_base_has_the_root_that_it_had():
    assert root("salt").hex() == "d7bee2b584bba027c1937f8a98c33e5e"
    keys = AdapterKeys()
    with_digest = replace(weights(1), digest=b"1" * 16)
    for number, each in enumerate([weights(1), weights(1), with_digest, with_digest], 1):
        keys.put(number, each)
    assert len({root("salt", b"", keys.get(number)) for number in range(5)}) == 5


def test_loads_of_the_same_files_share_no_blocks_and_one_that_took_turns_keeps_its_own():
    shared = rig()
    for key, number in enumerate((3, 4, 3)):
        shared.engine.put_adapter(number, replace(weights(1), digest=b"1" * 16))
        shared.submit(key, PROMPT, adapter=number, max_tokens=2)
        shared.run()
        shared.engine.drop_adapter(number)
    assert [shared.texts[key, 0].num_cached for key in range(3)] == [0, 0, 8]
    assert len({tuple(shared.texts[key, 0].token_ids) for key in range(3)}) == 1


def test_beams_are_those_of_their_adapter():
    found = []
    for others in ([], [0, 2]):
        searching = rig()
        for key, adapter in enumerate(others):
            searching.submit(key, PROMPT, adapter=adapter, max_tokens=6)
        searching.submit("beams", PROMPT, n=2, beams=Beams(2), adapter=1, max_tokens=6)
        searching.run()
        found.append([searching.texts["beams", choice].token_ids for choice in range(2)])
    assert found[0] == found[1]


def test_a_step_of_the_base_names_no_adapters():
    plain = rig()
    plain.submit("base", PROMPT, max_tokens=3)
    plain.run()
    assert all(len(step.adapters) == 0 for step in plain.steps)
    plain.submit("one", PROMPT, adapter=2, max_tokens=3)
    plain.run()
    assert plain.steps[-1].adapters.tolist() == [2]
    assert plain.steps[-1].adapters.dtype == np.int32


def test_an_adapter_that_is_not_held_is_refused():
    strict = rig()
    strict.engine.drop_adapter(2)
    with pytest.raises(EngineError, match="adapter 2 is not loaded"):
        strict.submit("gone", PROMPT, adapter=2)
    assert not strict.engine.has_work
    with pytest.raises(ValueError, match="has no `adapters`"):
        Rig().engine.put_adapter(1, weights(1))
