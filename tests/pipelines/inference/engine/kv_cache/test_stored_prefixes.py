"""Prefixes that outlive their engine: one engine after another over the same file.

The model's next token is a hash of its cache, so a wrong block changes the text.
"""

from __future__ import annotations

import random
import threading
from functools import partial

import numpy as np
import pytest
from engine_life import Chances, Life, Wanted
from engine_rig import VOCAB_SIZE, Rig, alone
from patience import PATIENCE_S

from pipelines.adapters.weights import AdapterWeights
from pipelines.inference.engine.kv_cache import stored_prefixes
from pipelines.inference.engine.kv_cache.prefix_file import prefix_file
from pipelines.inference.engine.kv_cache.prefix_file.prefix_file import PrefixFile
from pipelines.inference.engine.kv_cache.prefix_file.slot_file import HEADER_BYTES, SlotFile
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.wire.sampling_params import SamplingParams

BLOCK_TOKENS = 4
BLOCK_BYTES = BLOCK_TOKENS * 8
MIN_TOKENS = 16
SYSTEM = [random.Random(1).randrange(VOCAB_SIZE) for _ in range(40)]
GREEDY = SamplingParams(temperature=0.0, max_tokens=6)


def file_bytes(num_slots: int) -> int:
    return 2 * HEADER_BYTES + num_slots * (BLOCK_BYTES + 32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "prefixes"


@pytest.fixture
def start(path):
    """Starts an engine over the file; all are closed at the end."""
    started: list[Rig] = []

    def start(num_slots: int = 64, **settings: object) -> Rig:
        rig = Rig(**settings)
        opened = partial(SlotFile, path, {"model": "fake"}, BLOCK_BYTES, file_bytes(num_slots))
        rig.engine.store_prefixes(PrefixFile(opened, "fake", 0.01), rig.session, MIN_TOKENS)
        started.append(rig)
        return rig

    yield start
    for rig in started:
        rig.engine.close()


def ask(rig: Rig, key: str, question: list[int], salt: str = "", **asked) -> int:
    """The number of cached tokens of SYSTEM and a question; the answer is that of a model alone."""
    prompt = asked.pop("prompt", SYSTEM) + question
    rig.submit(key, prompt, salt=salt, max_tokens=6, **asked)
    rig.run()
    text = rig.texts[key, 0]
    if not asked:
        assert text.token_ids == alone(prompt, GREEDY).token_ids
    return text.num_cached


def reuse(rig: Rig, name: str = "", **asked) -> None:
    """Have SYSTEM stored: a first prompt computes it, a second one reuses it."""
    ask(rig, "first" + name, [1, 2, 3], **asked)
    ask(rig, "second" + name, [4, 5, 6], **asked)


def restart(rig: Rig, start, **settings: object) -> Rig:
    rig.engine.close()
    return start(**settings)


def test_a_reused_prefix_is_found_by_the_next_engine(start):
    rig = start()
    reuse(rig)
    after = restart(rig, start)
    assert ask(after, "third", [7, 8, 9]) == len(SYSTEM)
    assert len(after.steps[0].token_ids) == 3, "only what follows the prefix is computed"
    assert after.engine.counts().prefix_blocks_read == len(SYSTEM) // BLOCK_TOKENS
    assert after.engine.counts().prefix_hit_tokens == len(SYSTEM)


def test_a_prefix_that_no_second_prompt_has_used_is_not_stored(start):
    rig = start()
    ask(rig, "first", [1, 2, 3])
    assert rig.engine.counts().prefix_blocks_written == 0
    assert ask(restart(rig, start), "third", [7, 8, 9]) == 0


def test_a_short_prefix_is_not_stored(start):
    rig = start()
    short = SYSTEM[: MIN_TOKENS - BLOCK_TOKENS]
    reuse(rig, prompt=short)
    assert ask(restart(rig, start), "third", [7, 8, 9], prompt=short) == 0


def test_blocks_are_written_without_an_end_of_the_engine(start, path):
    """A process that is killed ends like this one: the file is copied while it runs."""
    rig = start()
    reuse(rig)
    wait_for(lambda: rig.engine.counts().prefix_blocks_written == len(SYSTEM) // BLOCK_TOKENS)
    copied = path.with_name("copied")
    copied.write_bytes(path.read_bytes())
    rig.engine.close()
    copied.rename(path)
    assert ask(start(), "third", [7, 8, 9]) == len(SYSTEM)


def test_an_idle_engine_copies_what_is_left(start, monkeypatch):
    monkeypatch.setattr(stored_prefixes, "COPIED_BYTES", BLOCK_BYTES)
    rig = start()
    ask(rig, "first", [1, 2, 3])
    rig.submit("second", [*SYSTEM, 4, 5, 6], max_tokens=1)
    rig.step()
    assert rig.engine.num_active == 0
    assert rig.engine.has_work
    rig.run()
    assert not rig.engine.has_work


def test_a_slow_disk_takes_a_bounded_number_of_blocks_and_delays_no_step(start, monkeypatch):
    monkeypatch.setattr(prefix_file, "MAX_QUEUED_BYTES", 2 * BLOCK_BYTES)
    rig, may_write = start(), threading.Event()
    write = SlotFile.write

    def slow(*args):
        may_write.wait(PATIENCE_S)
        write(*args)

    monkeypatch.setattr(SlotFile, "write", slow)
    reuse(rig)
    assert not rig.engine.has_work, "the engine waits for no disk"
    assert rig.engine.cache.stored._file._num_queued == 2
    may_write.set()
    assert ask(restart(rig, start), "third", [7, 8, 9]) == len(SYSTEM)


def test_prompts_that_come_faster_than_the_disk_are_bounded(start, monkeypatch):
    monkeypatch.setattr(prefix_file, "MAX_QUEUED_BYTES", 0)  # it takes nothing
    rig = start(num_slots=12)
    for seed in range(9):
        reuse(rig, f" {seed}", prompt=[random.Random(seed).randrange(VOCAB_SIZE) for _ in range(40)])
    assert len(rig.engine.cache.stored._wanted) <= 2 * 12 + len(SYSTEM) // BLOCK_TOKENS
    rig.engine.cache.stored.close(0.0)


def test_salts_part_what_is_stored(start):
    rig = start()
    reuse(rig, salt="one")
    after = restart(rig, start)
    assert ask(after, "other", [7, 8, 9], salt="two") == 0
    assert ask(after, "none", [7, 8, 9]) == 0
    assert ask(after, "same", [7, 8, 9], salt="one") == len(SYSTEM)


def test_a_damaged_block_is_computed(start, path):
    rig = start()
    reuse(rig)
    rig.engine.close()
    whole = bytearray(path.read_bytes())
    number = len(whole) - 64 * BLOCK_BYTES + 3 * BLOCK_BYTES  # the fourth block of the chain
    whole[number] ^= 1
    path.write_bytes(whole)
    after = start()
    assert ask(after, "third", [7, 8, 9]) == 3 * BLOCK_TOKENS
    ask(after, "fourth", [1, 2, 3])
    assert ask(restart(after, start), "fifth", [4, 5, 6]) == len(SYSTEM), "it was written anew"


def test_a_block_that_cannot_be_read_is_computed(start, monkeypatch):
    rig = start()
    reuse(rig)
    after = restart(rig, start)

    def fails(*args):
        raise OSError("input/output error")

    monkeypatch.setattr(SlotFile, "read", fails)
    assert ask(after, "third", [7, 8, 9]) == 0


def test_a_full_disk_ends_writing_and_is_logged_once(start, monkeypatch, caplog):
    rig = start()

    def fails(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SlotFile, "write", fails)
    reuse(rig)
    wait_for(lambda: "No space left" in caplog.text)
    ask(rig, "third", [7, 8, 9], prompt=[5] * 40)
    ask(rig, "fourth", [7, 8, 9], prompt=[5] * 40)
    rig.engine.close()
    assert caplog.text.count("No space left") == 1


def test_a_second_engine_goes_without_until_the_first_is_gone(start, caplog):
    first, second = start(), start()
    assert "another process" in caplog.text
    reuse(first)
    reuse(second)
    assert second.engine.counts().prefix_blocks_written == 0
    first.engine.close()
    wait_for(lambda: second.engine.cache.stored._file._file is not None)
    second.engine.cache.pool.remove_digests()
    assert ask(second, "third", [7, 8, 9]) == len(SYSTEM)


def test_a_folder_that_cannot_be_written_to_is_no_fault(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    rig = Rig()
    opened = partial(SlotFile, tmp_path / "file" / "prefixes", {}, BLOCK_BYTES, file_bytes(8))
    rig.engine.store_prefixes(PrefixFile(opened, "fake"), rig.session, MIN_TOKENS)
    reuse(rig)
    assert "is not used" in caplog.text
    rig.engine.close()


def test_a_reset_leaves_nothing_to_find(start, path):
    rig = start()
    reuse(rig)
    wait_for(lambda: rig.engine.counts().prefix_blocks_written > 0)
    rig.engine.reset_prefix_cache()
    assert ask(rig, "third", [7, 8, 9]) == 0
    assert ask(restart(rig, start), "fourth", [7, 8, 9]) == 0


def test_the_file_is_bounded_and_keeps_what_was_used_last(start, path):
    rig = start(num_slots=20)
    other = [random.Random(2).randrange(VOCAB_SIZE) for _ in range(40)]
    third = [random.Random(3).randrange(VOCAB_SIZE) for _ in range(40)]
    for number, prompt in enumerate([SYSTEM, other, SYSTEM, third]):
        ask(rig, f"first {number}", [1, 2, 3], prompt=prompt)
        ask(rig, f"second {number}", [4, 5, 6], prompt=prompt)
    rig.engine.close()
    assert path.stat().st_size <= file_bytes(20)
    after = start(num_slots=20)
    assert ask(after, "system", [7, 8, 9]) == len(SYSTEM)
    assert ask(after, "third", [7, 8, 9], prompt=third) == len(third)
    assert ask(after, "other", [7, 8, 9], prompt=other) == 0


def test_reading_takes_a_part_of_each_step_while_others_go_on(start, monkeypatch):
    rig = start()
    reuse(rig)
    after = restart(rig, start)
    monkeypatch.setattr(stored_prefixes, "READ_S", 0.0)  # a block in a step
    after.submit("other", [1, 2, 3], max_tokens=30)
    after.step()
    after.submit("third", [*SYSTEM, 7, 8, 9], max_tokens=6)
    lengths = []
    while after.texts["third", 0].finish is None:
        after.step()
        lengths.append(len(after.texts["other", 0].token_ids))
    assert lengths[:10] == [*range(2, 12)], "the other one has its token in every step"
    assert after.texts["third", 0].num_cached == len(SYSTEM)
    assert after.texts["third", 0].token_ids == alone([*SYSTEM, 7, 8, 9], GREEDY).token_ids
    after.run()


def test_a_prompt_that_is_cancelled_while_it_is_read_owns_nothing(start, monkeypatch):
    rig = start()
    reuse(rig)
    after = restart(rig, start)
    monkeypatch.setattr(stored_prefixes, "READ_S", 0.0)
    after.submit("third", [*SYSTEM, 7, 8, 9], max_tokens=6)
    after.step()
    after.step()
    after.cancel("third")
    after.run()
    assert ask(after, "fourth", [7, 8, 9]) == len(SYSTEM)


def test_more_blocks_than_the_cache_has_free_are_not_read(start):
    rig = start()
    reuse(rig)
    after = restart(rig, start, num_blocks=20)
    after.submit("other", [3] * 30, max_tokens=30)
    after.step()
    after.submit("third", [*SYSTEM, 7, 8, 9], max_tokens=6)
    after.run()
    assert after.texts["third", 0].token_ids == alone([*SYSTEM, 7, 8, 9], GREEDY).token_ids
    assert after.texts["other", 0].finish == "length"


def test_blocks_of_adapters_are_found_by_their_content(start):
    rig = start(num_linears=2)
    rig.engine.put_adapter(1, adapter(b"one"))
    reuse(rig, adapter=1)
    after = restart(rig, start, num_linears=2)
    after.engine.put_adapter(1, adapter(b"two"))
    after.engine.put_adapter(2, adapter(b"one"))
    assert ask(after, "another", [7, 8, 9], adapter=1) == 0
    assert ask(after, "base", [7, 8, 9]) == 0
    assert ask(after, "same", [7, 8, 9], adapter=2) == len(SYSTEM)
    after.engine.put_adapter(3, adapter(b"one"))
    assert ask(after, "a second load", [7, 8, 9], adapter=3) == 0
    rig.submit("second once more", [*SYSTEM, 7, 8, 9], adapter=1, max_tokens=6)
    rig.run()
    assert after.texts["same", 0].token_ids == rig.texts["second once more", 0].token_ids


def adapter(name: bytes) -> AdapterWeights:
    return AdapterWeights(1, {}, digest=name.ljust(16))


def test_a_prefix_is_stored_up_to_its_first_image(start):
    rows = np.ones((4, 2), np.float32)
    shown = PromptEmbeds([24], [rows], [b"cat"])
    rig = start(embeds_size=2)
    for key in ("first", "second"):
        rig.submit(key, [*SYSTEM, 1, 2, 3], images=[shown], max_tokens=6)
        rig.run()
    assert rig.texts["second", 0].num_cached == len(SYSTEM)
    after = restart(rig, start, embeds_size=2)
    after.submit("third", [*SYSTEM, 1, 2, 3], images=[shown], max_tokens=6)
    after.run()
    assert after.texts["third", 0].num_cached == 24
    assert after.texts["third", 0].token_ids == rig.texts["first", 0].token_ids


class StoredLife(Life):
    """Prompts with few beginnings, in an engine with a small cache and a smaller file."""

    chances = Chances(0.4, leave=0.05, preempt=0.1, lose=0.1)

    def __init__(self, seed: int, rig: Rig) -> None:
        super().__init__(seed)
        self.rig = rig
        self.asked: dict[int, Wanted] = {}

    def request(self, key: int) -> None:
        draw = self.random
        words = random.Random(draw.randrange(3))
        beginning = [words.randrange(VOCAB_SIZE) for _ in range(40)]
        prompt = beginning[: draw.choice([20, 32, 40])] + self.ids(draw.randrange(1, 12))
        params = SamplingParams(temperature=0.0, max_tokens=draw.randrange(1, 8))
        self.asked[key] = Wanted([prompt], params, draw.choice([1, 1, 2]))
        self.submit(key, self.asked[key], salt=draw.choice(["", "", "salt"]))


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_texts_are_those_of_a_model_alone(start, seed, monkeypatch):
    monkeypatch.setattr(stored_prefixes, "READ_S", 0.0 if seed % 2 else 1.0)
    num_read = 0
    for life_number in range(3):
        rig = start(num_slots=24, num_blocks=48)
        life = StoredLife(100 * seed + life_number, rig)
        num_read += life.run(12).prefix_blocks_read
        for (key, choice), text in rig.texts.items():
            asked = life.asked[key]
            if (key, choice) not in life.gone and text.finish == "length":
                assert text.token_ids == alone(asked.prompts[0], asked.params).token_ids
        rig.engine.close()
    assert num_read > 0


def wait_for(reached) -> None:
    """Wait for the thread that writes."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if reached():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come")
