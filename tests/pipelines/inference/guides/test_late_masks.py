"""A mask that takes longer than a step: its sequence waits alone, and the tokens are the same."""

from __future__ import annotations

import threading

import pytest
from guide_rig import TOKENIZER, GuidedRig, grammar_node, schema, tokens
from patience import PATIENCE_S

from pipelines.base.errors import RequestError
from pipelines.grammars.grammar_text import grammar_of_format
from pipelines.inference.guides import guide_compiler, mask_jobs
from pipelines.inference.guides.grammar_guide import GrammarGuide
from pipelines.inference.guides.guide_compiler import GuideCompiler
from pipelines.wire.sampling_params import GuideSpec, SamplingParams

PERSON = schema(
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer", "maximum": 99}},
        "required": ["name", "age"],
    }
)


class Held:
    """Masks wait for `go` from the `first` on."""

    def __init__(self, monkeypatch, first=0):
        self.go, self.asked, self.num_left = threading.Event(), threading.Event(), first
        fill = GrammarGuide.fill

        def held(guide, bits):
            if getattr(guide, "is_held", False):
                self.num_left -= 1
                if self.num_left < 0:
                    guide.is_waiting = True
                    self.asked.set()
                    assert self.go.wait(PATIENCE_S)
            fill(guide, bits)

        monkeypatch.setattr(GrammarGuide, "fill", held)
        monkeypatch.setattr(mask_jobs, "PATIENCE_S", 0.0)  # whatever runs still is late
        monkeypatch.setattr(mask_jobs, "MAX_MASK_S", 1e9)


@pytest.fixture
def rig():
    node = grammar_node()
    yield GuidedRig(node)
    node.close()


def hold(rig, key):
    """The guides of a request, whose masks are held from now on."""
    sequences = [*rig.engine.scheduler.waiting, *rig.engine.scheduler.running]
    guides = [member.guide for sequence in sequences if sequence.key == key for member in sequence.group]
    for guide in guides:
        guide.is_held = guide.is_slow = True
    return guides


def waits(guide):
    """Whether the mask of a guide's next token is in a job that is held."""
    return guide.late is not None and any(hasattr(run.guide, "is_waiting") for run in guide.late.job.runs)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("first", [0, 3])
def test_others_go_on_and_the_text_is_the_same(rig, monkeypatch, first, n):
    monkeypatch.setattr(mask_jobs, "MAX_MASK_S", 1e9)  # on a busy machine a mask takes longer
    spec = GuideSpec(PERSON)
    alone = GuidedRig(rig.node)
    alone.submit("slow", spec, n=n)
    alone.submit("plain", None, max_tokens=30)
    alone.run()
    held = Held(monkeypatch, first)
    rig.submit("slow", spec, n=n)
    guides = hold(rig, "slow")
    rig.submit("plain", None, max_tokens=30)
    for _ in range(10_000):
        rig.step()
        if rig.endings and held.asked.wait(0.001) and all(map(waits, guides)):
            break
    assert rig.endings.keys() == {("plain", 0)}
    assert held.asked.is_set()
    before = rig.steps
    for _ in range(3):
        rig.step()
    assert rig.steps == before, "a sequence that waits is in no step"
    assert rig.engine.has_work
    held.go.set()
    rig.run(100_000)
    assert rig.outputs == alone.outputs
    assert rig.engine.counts().blocks_used == 0


def test_one_that_waits_can_be_cancelled(rig, monkeypatch):
    held = Held(monkeypatch)
    rig.submit("slow", GuideSpec(PERSON))
    hold(rig, "slow")
    for _ in range(5):
        rig.step()
    rig.engine.abort("slow")
    held.go.set()
    assert not rig.engine.has_work
    rig.submit("next", GuideSpec(PERSON))
    rig.run(100_000)
    assert rig.finish("next") in ("stop", "length")


def test_a_mask_beyond_its_bound_ends_its_sequence_alone(rig, monkeypatch):
    monkeypatch.setattr(mask_jobs, "PATIENCE_S", 0.0)
    monkeypatch.setattr(mask_jobs, "MAX_MASK_S", 0.0)
    rig.submit("over", GuideSpec(PERSON))
    rig.submit("plain", None, max_tokens=30)
    rig.run(100_000)
    assert rig.endings["over", 0].piece.finish == "error"
    assert "too long to follow" in rig.endings["over", 0].error
    assert rig.finish("plain") == "length"


def test_what_stops_without_being_complete_is_an_error(rig):
    """The grammar passes the checks of workers, which do not know that these classes have nothing in common."""
    dead = '{"grammars": [{"lark_grammar": "start: \\"ab\\" A\\nA: /[a-c]/ & /[x-z]/"}]}'
    rig.submit("dead", GuideSpec(dead))
    rig.run()
    ended = rig.endings["dead", 0]
    assert (ended.piece.finish, ended.error_status) == ("error", 400)
    assert "could not be followed" in ended.error


def test_a_grammar_without_a_first_token_does_not_enter(rig):
    nothing = '{"grammars": [{"lark_grammar": "start: A\\nA: /[a-c]/ & /[x-z]/"}]}'
    with pytest.raises(RequestError, match="no text fits this grammar"):
        rig.node.maker(SamplingParams(guide=GuideSpec(nothing)))


def test_what_was_tried_does_not_force_tokens_in_the_steps_thread():
    text = grammar_of_format(
        {"type": "grammar", "grammar": 'root ::= t ("+" t)*\nt ::= "1234567" | "(" root ")"'},
        "f",
        tokenizer=TOKENIZER,
    )
    guide = GuideCompiler(tokens()).maker(GuideSpec(text), SamplingParams())()
    assert guide.is_slow
    assert guide.append(tokens().tokenizer.tokenize_str("1")[0]) == []


def test_the_cache_of_grammars_is_bounded_in_bytes(monkeypatch):
    compiler = GuideCompiler(tokens())
    monkeypatch.setattr(guide_compiler, "MAX_CACHED_BYTES", 3 * guide_compiler.LEAST_BYTES)
    monkeypatch.setattr(guide_compiler, "resident_bytes", lambda: 0)
    texts = [f'{{"grammars": [{{"lark_grammar": "start: \\"{word}\\""}}]}}' for word in "abcd"]
    for text in texts:
        compiler.maker(GuideSpec(text), SamplingParams())
    assert list(compiler._cache) == texts[1:]
    monkeypatch.setattr(guide_compiler, "MAX_CACHED_BYTES", 0)
    compiler.maker(GuideSpec(texts[0]), SamplingParams())()
    assert (compiler._num_bytes, len(compiler._cache)) == (0, 0)
