"""Masks of rows behind draft tokens are those that would come one token at a time, and the guide stays as it is."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from breadth import after
from guide_rig import ENDS, VOCAB_SIZE, grammar, schema, tokens
from random_schemas import SchemaMaker

from pipelines.inference.contracts.guide import Guide, GuideError, GuideMaker
from pipelines.inference.guides.draft_masks import fill_run_masks
from pipelines.inference.guides.guide_compiler import GuideCompiler
from pipelines.wire.sampling_params import GuideSpec, HeldCalls, SamplingParams, Thinking

MARKS = [("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("[x]", "[/x]")]
PATTERNS = ("[a-c]{2,9}", "(yes|no|never)( it is){0,3}", "[A-Z][a-z]*( [a-z]+){2,5}\\.", "x|yz", "(ab)+")
MAKERS = GuideCompiler(tokens())


def random_maker(draw: Random) -> GuideMaker:
    """A grammar, a bound on reasoning, or both; with and without forced tokens."""
    kind = draw.random()
    rule = None
    if kind < 0.5:
        rule = schema(SchemaMaker(draw.randrange(2000)).root(), disable_any_whitespace=draw.random() < 0.5)
    elif kind < 0.8:
        rule = grammar({"type": "regex", "pattern": draw.choice(PATTERNS)})
    thinking = None
    if rule is None or draw.random() < 0.5:
        budget = draw.choice([None, 0, 1, 3, 8])
        thinking = Thinking(*draw.choice(MARKS), opened=draw.random() < 0.5, budget=budget)
    calls = None
    if rule is None and draw.random() < 0.5:
        calls = HeldCalls("ing", grammar({"type": "regex", "pattern": draw.choice(PATTERNS)}))
    logprobs = draw.choice([None, 0])  # with log-probabilities nothing is forced
    params = SamplingParams(logprobs=logprobs, ignore_eos=draw.random() < 0.3)
    return MAKERS.maker(GuideSpec(rule, thinking, calls), params)


def mask_of(guide: Guide) -> list[int] | None:
    """The allowed ids, or None where all are."""
    if not guide.restricts():
        return None
    bits = np.full(tokens().num_words, -1, np.int32)
    guide.fill(bits)
    return ids_of(bits)


def ids_of(bits: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()


def next_token(draw: Random, guide: Guide, marks: list[int]) -> int:
    """One that is allowed, often one of a mark, seldom one that ends all."""
    allowed = mask_of(guide)
    wanted = [token_id for token_id in marks if allowed is None or token_id in allowed]
    if wanted and draw.random() < 0.3:
        return draw.choice(wanted)
    usual = range(VOCAB_SIZE) if allowed is None else allowed
    others = [token_id for token_id in usual if token_id not in ENDS]
    return draw.choice(others if others and draw.random() < 0.95 else list(usual))


def grow(guide: Guide, text: list[int], token_id: int) -> None:
    """As an engine does: what the guide forces belongs to the text."""
    text += [token_id, *guide.append(token_id)]


def random_draft_tokens(draw: Random, make: GuideMaker, text: list[int], marks: list[int]) -> list[int]:
    """Mostly what a sequence might say, with what was forced; now and then any id, or one too large."""
    guide, draft_tokens = replayed(make, text), list[int]()
    while len(draft_tokens) < draw.randint(1, 6) and not guide.finished:
        token_id = next_token(draw, guide, marks)
        try:
            draft_tokens += [token_id, *guide.append(token_id)]
        except GuideError:
            break
    if draw.random() < 0.4:
        noise = draw.choice([draw.randrange(VOCAB_SIZE), VOCAB_SIZE + 3, VOCAB_SIZE + 400, *ENDS])
        draft_tokens[draw.randrange(len(draft_tokens))] = noise
    return draft_tokens[:6]


def replayed(make: GuideMaker, text: list[int]) -> Guide:
    """A guide that has followed a text; what it forces is in the text already."""
    guide, forced = make(), list[int]()
    for token_id in text:
        if forced:
            assert forced.pop(0) == token_id
        else:
            forced = list(guide.append(token_id))
    return guide


def expected_masks(make: GuideMaker, text: list[int], draft_tokens: list[int]) -> list[list[int] | None]:
    """Of a fresh guide for each row; None where all is allowed, or no row can count."""
    masks: list[list[int] | None] = [None] * (len(draft_tokens) + 1)
    for i in range(len(draft_tokens) + 1):
        guide, forced = replayed(make, text), list[int]()
        try:
            for token_id in draft_tokens[:i]:
                if not forced and guide.finished:
                    return masks
                forced = forced[1:] if forced else list(guide.append(token_id))
        except GuideError:
            return masks
        if i and not forced and guide.finished:
            return masks
        masks[i] = [forced[0]] if forced else mask_of(guide)
        allowed = masks[i]
        if i < len(draft_tokens) and (allowed is None or draft_tokens[i] in allowed):
            continue
        return masks
    return masks


@pytest.mark.parametrize("seed", after(30, range(400)))
def test_runs_are_masked_as_one_token_at_a_time(seed):
    draw = Random(seed)
    make = random_maker(draw)
    guide, text = make(), list[int]()
    marks = [token_id for pair in MARKS for mark in pair for token_id in tokens().spell(mark)]
    for _ in range(8):
        draft_tokens = random_draft_tokens(draw, make, text, marks)
        bits = np.full((len(draft_tokens) + 1, tokens().num_words), 7, np.int32)
        filled = fill_run_masks(guide, bits, draft_tokens)
        masks = [ids_of(row) if is_filled else None for row, is_filled in zip(bits, filled, strict=True)]
        assert masks == expected_masks(make, text, draft_tokens)
        assert (bits[np.logical_not(filled)] == 7).all()
        assert mask_of(guide) == mask_of(replayed(make, text))
        try:
            grow(guide, text, next_token(draw, guide, marks))
        except GuideError:
            return
        if guide.finished:
            return


def test_a_budget_that_ends_within_a_run_restricts_its_later_rows_alone():
    thinking = Thinking("<think>", "</think>", opened=True, budget=2)
    guide = MAKERS.maker(GuideSpec(None, thinking), SamplingParams(logprobs=0))()
    (close,) = tokens().spell("</think>")
    bits = np.zeros((5, tokens().num_words), np.int32)
    assert fill_run_masks(guide, bits, [5, 6, close, 9]) == [False, False, True, False, False]
    assert ids_of(bits[2]) == [close]
    assert fill_run_masks(guide, bits, [5, 6, 7, 9]) == [False, False, True, False, False]
    assert guide.append(5) == []
    assert not guide.restricts()
    assert guide.append(6) == []
    assert mask_of(guide) == [close]


def test_a_mark_that_was_only_guessed_has_not_closed_the_reasoning():
    thinking = Thinking("<think>", "</think>", opened=True)
    guide = MAKERS.maker(GuideSpec(schema({"type": "boolean"}), thinking), SamplingParams(logprobs=0))()
    (close,) = tokens().spell("</think>")
    bits = np.zeros((2, tokens().num_words), np.int32)
    assert fill_run_masks(guide, bits, [close]) == [True, True]
    assert len(ids_of(bits[0])) > 1000 > len(ids_of(bits[1]))
    assert len(mask_of(guide) or []) > 1000


def test_forced_tokens_are_the_only_ones_behind_what_forces_them():
    """The engine takes them unasked: rows that chose otherwise would be computed in vain."""
    make = MAKERS.maker(GuideSpec(grammar({"type": "regex", "pattern": "(x|yzzzz)"})), SamplingParams())
    (y,) = tokens().spell("y")
    forced = make().append(y)
    bits = np.zeros((2 + len(forced), tokens().num_words), np.int32)
    assert fill_run_masks(make(), bits, [y, *forced]) == [True] * (1 + len(forced)) + [False]
    assert [ids_of(row) for row in bits[1:-1]] == [[token_id] for token_id in forced]


class Faulty:
    """A guide that allows all and fails when it is given a token; a copy of it counts its own."""

    finished = False

    def restricts(self):
        return False

    def copy(self):
        return Faulty()

    def append(self, token_id):
        raise ZeroDivisionError


def test_a_fault_behind_a_guess_is_met_when_the_guess_comes_true():
    bits = np.zeros((3, 2), np.int32)
    assert fill_run_masks(Faulty(), bits, [1, 2]) == [False] * 3
