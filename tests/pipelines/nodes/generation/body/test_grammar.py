"""The grammar node: when masks are filled, which rows they touch, and what a tokenizer must be."""

from __future__ import annotations

import copy
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from host_device import HostDevice
from patience import PATIENCE_S

from ops.cuda.sampling import CudaSamplingOps
from pipelines.base.errors import RequestError
from pipelines.inference.contracts.guide import MaskTiming
from pipelines.inference.contracts.step import DraftRows, Step
from pipelines.inference.guides import token_tables
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.nodes.generation.body.grammar import Grammar
from pipelines.wire.sampling_params import GuideSpec, HeldCalls, SamplingParams, Thinking

FOLDER = Path(__file__).parents[5] / "model_repo" / "braid-demo" / "model"
VOCAB_SIZE = 2048
ENDS = [2037, 2039]


@pytest.fixture
def node():
    made = Grammar(Grammar.Config(tokenizer="tokenizer.json"), FOLDER)
    made.start(VOCAB_SIZE, ENDS)
    yield made
    made.close()


class Watched(MaskTiming):
    """A guide that allows one token, tells when it is asked, and waits until it may answer."""

    def __init__(self, token_id: int, restricting: bool = True) -> None:
        self.token_id = token_id
        self.restricting = restricting
        self.asked, self.answers = threading.Event(), threading.Event()

    def restricts(self):
        return self.restricting

    def fill(self, bits):
        self.asked.set()
        assert self.answers.wait(PATIENCE_S)
        bits[:] = 0
        bits[self.token_id // 32] = 1 << self.token_id % 32


def step_of(*guides, **params) -> StepContext:
    rows = SamplingSlots(len(guides), VOCAB_SIZE)
    for row, guide in enumerate(guides):
        rows.set(row, SamplingParams(**{"temperature": 0.0, **params}), [1], [], 0, ENDS, guide)
    count = len(guides)
    step = Step(
        token_ids=np.zeros(count, np.int64),
        positions=np.zeros(count, np.int64),
        starts=np.arange(count + 1, dtype=np.int32),
        num_past=np.zeros(count, np.int32),
        block_table=np.zeros((count, 1), np.int32),
        num_blocks=np.ones(count, np.int32),
        max_context=1,
        logit_indices=np.arange(count),
        logit_slots=np.arange(count, dtype=np.int32),
        copies=np.zeros((0, 2), np.int32),
    )
    return StepContext(step, rows)


class Counting(MaskTiming):
    """Allows the next number alone, from `first` on; before it all."""

    finished = False

    def __init__(self, number: int, first: int = 0) -> None:
        self.number, self.first = number, first

    def restricts(self):
        return self.number >= self.first

    def fill(self, bits):
        bits[:] = 0
        bits.view(np.uint32)[self.number // 32] = 1 << self.number % 32

    def append(self, token_id):
        self.number += 1
        return []

    def copy(self):
        return copy.copy(self)


def with_runs(context: StepContext, *runs: list[int]) -> StepContext:
    """One run for each row, of these draft tokens."""
    step = context.step
    drafted = replace(
        step,
        logit_slots=np.repeat(step.logit_slots, [len(run) + 1 for run in runs]),
        draft=DraftRows(
            token_ids=np.array([draft_token for run in runs for draft_token in [*run, -1]]),
            offsets=np.array([i for run in runs for i in range(len(run) + 1)]),
        ),
    )
    return context.with_step(drafted)


def ids_of(masks) -> list[int]:
    """The one id that each mask allows."""
    return [int(np.flatnonzero(np.unpackbits(b.view(np.uint8), bitorder="little"))[0]) for b in masks.bits]


def values(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, VOCAB_SIZE)).astype(np.float32)


def test_masks_are_filled_while_the_model_runs(node):
    """The model would wait for ever if its step began before the masks did, or they waited for it."""
    guides = [Watched(7), Watched(1000), Watched(2040)]
    step = step_of(*guides)
    node.prepare(step)
    assert guides[0].asked.wait(PATIENCE_S)  # here the model runs
    for guide in guides:
        guide.answers.set()
    assert sample(node.run(Logits(values(3), step))).token_ids.tolist() == [7, 1000, 2040]


def test_rows_that_are_free_are_not_touched(node):
    watched, free = Watched(7), Watched(8, restricting=False)
    watched.answers.set()
    step, wanted = step_of(None, watched, free), values(3)
    node.prepare(step)
    logits = node.run(Logits(values(3), step))
    assert logits.masks.rows.tolist() == [1]
    assert sample(logits).token_ids.tolist() == [wanted[0].argmax(), 7, wanted[2].argmax()]
    np.testing.assert_array_equal(logits.values[[0, 2]], wanted[[0, 2]])


def test_a_step_without_guides_passes_as_it_is(node):
    step = step_of(None, Watched(8, restricting=False))
    node.prepare(step)
    logits = Logits(values(2), step)
    assert node.run(logits) is logits


def test_rows_behind_guesses_have_the_masks_that_come_after_these(node):
    guides = [Counting(5), None, Counting(20), Counting(30), Counting(40), Counting(50)]
    runs = [[5, 6], [8], [], [30, 9, 32], [40], [51]]
    step = with_runs(step_of(*guides), *runs)
    node.prepare(step)
    logits = node.run(Logits(values(len(step.step.logit_slots)), step))
    assert logits.masks.rows.tolist() == [0, 1, 2, 5, 6, 7, 10, 11, 12]
    assert ids_of(logits.masks) == [5, 6, 7, 20, 30, 31, 40, 41, 50]
    sampled = sample(logits)
    assert sampled.num_tokens[[0, 2, 3, 4, 5]].tolist() == [3, 1, 2, 2, 1]
    assert [guide.number for guide in guides if guide] == [5, 20, 30, 40, 50]


@pytest.mark.parametrize("num_threads", [1, 2, 3, 8])
def test_runs_are_shared_between_threads(node, num_threads):
    node._num_threads = num_threads
    step = with_runs(step_of(*(Counting(40 * i) for i in range(7))), *([40 * i] * (i % 3) for i in range(7)))
    node.prepare(step)
    masks = node.run(Logits(values(len(step.step.logit_slots)), step)).masks
    assert ids_of(masks) == [0, 40, 41, 80, 81, 120, 160, 161, 200, 201, 240]
    assert masks.rows.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12]


def test_what_becomes_restricted_within_a_run_is_masked_from_there(node):
    step = with_runs(step_of(Counting(5, first=7), Counting(5, first=9)), [1, 2, 7], [1])
    node.prepare(step)
    logits = node.run(Logits(values(6), step))
    assert logits.masks.rows.tolist() == [2, 3]
    assert ids_of(logits.masks) == [7, 8]


def test_a_run_that_nothing_restricts_passes_as_it_is(node):
    step = with_runs(step_of(Counting(5, first=9)), [1])
    node.prepare(step)
    logits = Logits(values(2), step)
    assert node.run(logits) is logits


def test_masks_of_a_step_that_failed_are_not_those_of_the_next(node):
    first, second = Watched(7), Watched(9)
    node.prepare(step_of(first))
    first.answers.set()
    second.answers.set()
    step = step_of(None, second)
    node.prepare(step)
    assert sample(node.run(Logits(values(2), step))).token_ids[1] == 9


def test_a_guide_that_fails_fails_its_step(node):
    class Broken(Watched):
        def fill(self, bits):
            raise ZeroDivisionError

    step = step_of(Broken(1))
    node.prepare(step)
    with pytest.raises(ZeroDivisionError):
        node.run(Logits(values(1), step))


@pytest.mark.parametrize("logprobs", [None, 3])
def test_a_device_gives_what_numpy_gives(node, logprobs):
    device = HostDevice()
    answers = []
    for ops, upload in ((None, np.copy), (CudaSamplingOps(device), device.upload)):
        guides = [Watched(7), None, Watched(1500)]
        for guide in (guides[0], guides[2]):
            guide.answers.set()
        step = step_of(*guides, logprobs=logprobs, logit_bias={7: -100.0, 3: 50.0}, min_tokens=2)
        node.prepare(step)
        more = {} if ops is None else {"ops": ops}
        answers.append(sample(node.run(Logits(upload(values(3)), step, **more))))
    assert answers[0].token_ids.tolist() == answers[1].token_ids.tolist() == [7, 3, 1500]
    for here, there in zip(answers[0].logprobs, answers[1].logprobs, strict=True):
        assert here.rank == there.rank
        np.testing.assert_allclose(here.top_logprobs, there.top_logprobs, atol=1e-5)


def test_log_probabilities_are_told_of_logits_before_the_mask(node):
    guide, wanted = Watched(7), values(1)
    guide.answers.set()
    step = step_of(guide, logprobs=1)
    node.prepare(step)
    (told,) = sample(node.run(Logits(values(1), step))).logprobs
    assert told.rank == 1 + int((wanted[0] > wanted[0, 7]).sum())
    assert told.top_ids == [wanted[0].argmax()]


def test_what_is_not_restricted_has_no_guide(node):
    assert node.maker(SamplingParams()) is None
    assert node.maker(SamplingParams(guide=GuideSpec())) is None


def test_grammars_are_compiled_once(node):
    spec = GuideSpec('start: "a"')
    node.maker(SamplingParams(guide=spec))
    kept = dict(node._makers._cache)
    node.maker(SamplingParams(guide=spec))
    assert dict(node._makers._cache) == kept
    for number in range(100):
        node.maker(SamplingParams(guide=GuideSpec(f'start: "{number}"')))
    assert len(node._makers._cache) == 64


def test_a_tokenizer_that_cannot_be_constrained_refuses_guides_alone(tmp_path):
    tokenizer = json.loads((FOLDER / "tokenizer.json").read_text())
    tokenizer["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    node = Grammar(Grammar.Config(tokenizer="tokenizer.json"), tmp_path)
    node.start(VOCAB_SIZE, ENDS)
    assert node.maker(SamplingParams()) is None
    with pytest.raises(RequestError, match="cannot be restricted to a grammar"):
        node.maker(SamplingParams(guide=GuideSpec('start: "a"')))
    free = GuideSpec(thinking=Thinking("<", ">"), calls=HeldCalls("<tool_call>", 'start: "a"'))
    assert node.maker(SamplingParams(guide=free)) is None
    node.close()


def test_the_first_restricted_request_makes_the_table_from_the_file_as_it_was(tmp_path, monkeypatch):
    tables = []

    class Counted(token_tables.TokenTable):
        def __init__(self, *arguments):
            tables.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(token_tables, "TokenTable", Counted)
    shutil.copy(FOLDER / "tokenizer.json", tmp_path)
    node = Grammar(Grammar.Config(tokenizer="tokenizer.json"), tmp_path)
    node.start(VOCAB_SIZE, ENDS)
    (tmp_path / "tokenizer.json").write_text("another")
    assert node.maker(SamplingParams()) is None
    assert tables == []
    with ThreadPoolExecutor(4) as threads:
        params = SamplingParams(guide=GuideSpec('start: "a" | "b"'))
        assert all(threads.map(node.maker, [params] * 8))
    assert len(tables) == 1
    node.close()


@pytest.mark.parametrize("vocab_size", [2048, 2049, 2100])
def test_a_vocabulary_longer_than_the_tokenizer_is_masked(vocab_size, tmp_path):
    shutil.copy(FOLDER / "tokenizer.json", tmp_path)
    node = Grammar(Grammar.Config(tokenizer="tokenizer.json"), tmp_path)
    node.start(vocab_size, ENDS)
    guide = node.maker(SamplingParams(guide=GuideSpec('start: "a" | "b"')))()
    bits = np.empty(-(-vocab_size // 32), np.int32)
    guide.fill(bits)
    assert np.unpackbits(bits.view(np.uint8)).sum() == 2
    node.close()
