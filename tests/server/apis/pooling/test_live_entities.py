"""Entities of the labels in a request over HTTP, beside what the `gliner` package finds by the same weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from live_app import answers
from tokenizers import Tokenizer

from pipelines.base.errors import RequestError
from pipelines.nodes.entities.find_entities import MAX_NUMBERS, FindEntities
from pipelines.nodes.entities.mark_words import MAX_COUNTED_WORDS, LabelledTextReader, words_of
from pipelines.nodes.entities.span_search import MAX_REQUEST_CANDIDATES, SpanSearch, find_spans
from pipelines.nodes.entities.span_settings import read_span_settings
from pipelines.values.entity_values import MarkedText
from pipelines.values.tasks import LabelSet, WantedEntities

GLINER = Path(__file__).parents[3] / "fixtures/recorded/gliner"
KINDS = ("span", "token")
RECORDED = json.loads((GLINER / "entities.json").read_text(encoding="utf-8"))
TEXTS = RECORDED["texts"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    for kind in KINDS:
        shutil.copytree(GLINER / kind, folder / kind)
    return folder


@pytest.fixture
def ask(models):
    return lambda *given: answers(models, given)


def check_entities(got, wanted):
    """The same spans with the same scores; of labels that are as likely as each other one is left to chance."""
    ties = 0
    for mine, theirs in zip(got, wanted, strict=True):
        mine = sorted((span["start"], span["end"], span["label"], span["score"]) for span in mine)
        theirs = sorted(map(tuple, theirs))
        assert [span[:2] for span in mine] == [span[:2] for span in theirs]
        assert [span[3] for span in mine] == pytest.approx([span[3] for span in theirs], abs=1e-4)
        ties += sum(span[2] != other[2] for span, other in zip(mine, theirs, strict=True))
    assert ties <= 6


@pytest.mark.parametrize("kind", KINDS)
def test_all_texts_at_once_give_what_gliner_finds(ask, kind):
    cases = RECORDED[kind]
    body = {"model": kind, "input": TEXTS, "truncate_prompt_tokens": -1}
    replies = ask(*(("/pooling", {**body, "labels": case["labels"], **case["options"]}) for case in cases))
    for reply, case in zip(replies, cases, strict=True):
        assert reply.status == 200, reply.json
        check_entities([item["data"] for item in reply.json["data"]], case["entities"])
    item = replies[1].json["data"][0]["data"][0]
    assert {*item} == {"start", "end", "text", "label", "score"}
    assert item["text"] == TEXTS[0][item["start"] : item["end"]]
    assert replies[0].json["usage"]["prompt_tokens"] > 100


def test_the_other_paths(ask):
    """text-embeddings-inference's and the client's of `gliner`."""
    case, (labels, text) = RECORDED["span"][0], (RECORDED["span"][0]["labels"], TEXTS[1])
    nested = {"inputs": text, "parameters": {"labels": labels, "threshold": 0.2, "flat_ner": False}}
    first_answer, ignored, several, plain, wide = ask(
        ("/predict", {"model": "span", "inputs": text, "labels": labels}),
        ("/predict", {"model": "span", "inputs": text, "labels": labels, "ignore_labels": labels}),
        ("/predict", {"model": "span", "inputs": [[text], ["rain"]], "labels": labels}),
        (
            "/gliner",
            {"model": "span", "text": text, "labels": labels, "flat_ner": True, "multi_label": False},
        ),
        ("/predict", {"model": "span", "aggregation_strategy": "simple", **nested}),
    )
    expected = case["entities"][1]
    assert [(entity["start"], entity["end"], entity["entity_group"]) for entity in first_answer.json] == [
        tuple(span[:3]) for span in expected
    ]
    assert ignored.json == []
    assert several.json[0] == first_answer.json
    assert [entity["label"] for entity in plain.json["entities"]] == [
        entity["entity_group"] for entity in first_answer.json
    ]
    assert len(wide.json) > len(first_answer.json)


@pytest.mark.parametrize("kind", KINDS)
def test_each_text_may_have_labels_of_its_own(ask, kind):
    """Texts with different numbers of labels, in one run, have the entities that each has alone."""
    body = {"model": kind, "truncate_prompt_tokens": -1, "threshold": 0.3, "flat_ner": False}
    labels = [["person"], ["place", "year", "person"], {"where": "some place"}, ["a", "b"], ["x"], ["y", "z"]]
    together, nested, *alone = ask(
        ("/pooling", {**body, "input": TEXTS, "labels": labels}),
        ("/predict", {**body, "inputs": [[text] for text in TEXTS], "labels": labels}),
        *(
            ("/pooling", {**body, "input": text, "labels": own})
            for text, own in zip(TEXTS, labels, strict=True)
        ),
    )
    assert together.status == 200, together.json
    for item, reply, entities in zip(together.json["data"], alone, nested.json, strict=True):
        (expected,) = reply.json["data"]
        check_entities(
            [item["data"]],
            [[(span["start"], span["end"], span["label"], span["score"]) for span in expected["data"]]],
        )
        assert len(entities) == len(expected["data"])
    assert {span["label"] for span in together.json["data"][0]["data"]} <= {"person"}


def test_what_is_refused(ask):
    body = {"model": "span", "input": "Ada of Oslo", "labels": ["person"]}
    refused = {
        "labels": [
            {"labels": None},
            {"labels": []},
            {"labels": [""]},
            {"labels": ["x" * 2000]},
            {"labels": [str(i) for i in range(257)]},
            {"labels": {"a": "same", "b": "same"}},
            {"labels": ["<<ENT>>", "person"]},
            {"labels": {"person": "a <<ENT>> b"}},
            {"labels": 3},
            {"labels": {"a": 1}},
            {"labels": [["a"], ["b"]]},
            {"labels": [["a"], "b"]},
            {"labels": [[]]},
            {"labels": [["x"], []], "input": ["a", "b"]},
            {"labels": [["<<ENT>>"]]},
            {"labels": [{"a": "same", "b": "same"}]},
            {"labels": [[str(i) for i in range(257)]]},
            {"labels": [f"label number {i}" for i in range(60)], "truncate_prompt_tokens": -1},
        ],
        "threshold": [{"threshold": 1.5}, {"labels": None, "threshold": 0.5}],
        "labels.0": [{"labels": [None]}],
        "flat_ner": [{"flat_ner": "perhaps"}],
        "input": [{"input": "word " * 31}, {"input": [1, 2]}],
        "task": [{"task": "embed"}],
    }
    cases = [(field, more) for field, changes in refused.items() for more in changes]
    replies = ask(*(("/pooling", {**body, **more}) for _, more in cases))
    for reply, (field, more) in zip(replies, cases, strict=True):
        assert (reply.status, reply.error["param"]) == (400, field), (more, reply.json)


def test_long_texts_are_cut_or_refused_and_other_ways_of_finding_are_refused(ask):
    cut, whole, strategy, relations = ask(
        ("/predict", {"model": "span", "inputs": "word " * 40, "labels": ["person"], "threshold": 0.01}),
        ("/predict", {"model": "span", "inputs": "word " * 40, "labels": ["a"], "truncate": False}),
        ("/predict", {"model": "span", "inputs": "word", "labels": ["a"], "aggregation_strategy": "first"}),
        ("/gliner", {"model": "span", "text": "word", "labels": ["a"], "relations": ["b"]}),
    )
    assert cut.status == 200
    assert max(entity["end"] for entity in cut.json) <= 30 * 5
    assert whole.status in (413, 422)
    assert "40 words" in whole.json["error"]
    assert strategy.status == 422
    assert "aggregation_strategy" in strategy.json["error"]
    assert (relations.status, relations.error["param"]) == (400, "relations")


def test_labels_that_hold_the_models_token_are_refused_by_models_of_words_too(ask):
    """Their numbers would be read as those of other labels."""
    (reply,) = ask(("/gliner", {"model": "token", "text": "Ada", "labels": ["<<ENT>>", "person"]}))
    assert (reply.status, reply.error["param"]) == (400, "labels")


@pytest.mark.parametrize("kind", KINDS)
def test_words_and_texts_of_a_whole_body(ask, kind):
    """A text of which the model reads little costs little, and what is read stays the same."""
    blob, wanted = "_-" * 400_000, {"model": kind, "labels": ["person"], "threshold": 0}
    replies = ask(
        ("/gliner", {**wanted, "text": f"Ada of {blob}"}),
        ("/gliner", {**wanted, "text": "Ada of " * 100_000}),
        ("/gliner", {**wanted, "text": "Ada of " * 15}),
        ("/pooling", {**wanted, "input": "Ada of " * 100_000}),
    )
    assert [reply.status for reply in replies] == [200, 200, 200, 400]
    assert max(entity["end"] for entity in replies[0].json["entities"]) <= 6  # the blob has too many tokens
    assert replies[1].json == replies[2].json
    assert "32768 words or more" in replies[3].error["message"]


def test_the_words_at_the_end_of_a_long_text():
    text = "one two " * MAX_COUNTED_WORDS + "three-four, five"
    words = words_of(text, left=True)
    assert len(words) == MAX_COUNTED_WORDS
    assert [text[start:end] for start, end in words[-4:]] == ["two", "three-four", ",", "five"]
    assert words_of("  a  b ", left=True) == words_of("  a  b ", left=False) == [(2, 3), (5, 6)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left", [False, True])
def test_the_tokens_of_a_part_are_those_of_the_whole_text(kind, left):
    """A text that is too long becomes tokens once: those of the words that have room are taken from all."""
    settings = read_span_settings(GLINER / kind / "gliner_config.json")
    tokenizer = Tokenizer.from_file(str(GLINER / kind / "tokenizer.json"))
    reader = LabelledTextReader(tokenizer, settings, [settings.entity, "city", settings.separator])
    for text in TEXTS:
        words = words_of(text, left)
        tokens = reader.encode(text, words)
        for most in range(len(reader.encode("", []).ids) + 8, len(tokens.ids), 3):
            fitting = reader.fitting(tokens, max(len(words), 1), most, left)
            part = reader.part_of(tokens, fitting)
            assert part == reader.encode(text, words[fitting.start : fitting.stop])
            assert len(part.ids) <= most


def test_candidates_of_all_texts_of_a_request_are_bounded():
    wanted = WantedEntities((LabelSet(("a",), ("a",)),), threshold=0.0, flat=False)
    search = SpanSearch(wanted, num_candidates=MAX_REQUEST_CANDIDATES - 1)
    text = MarkedText("x y", [1, 2], [1, 2], [(0, 1), (2, 3)])
    with pytest.raises(RequestError, match="of the texts are above a `threshold` of 0.0"):
        find_spans(np.ones((2, 1, 1), np.float32), text, search, ("a",), of_words=False)


def test_what_the_runs_of_a_request_compute_is_bounded():
    """One text with many labels counts in its own run alone, and a short text beside a long one as long."""
    folder = GLINER / "span"
    node = FindEntities(FindEntities.Config(settings="gliner_config.json", max_batch_tokens=400), folder)
    node.settings = read_span_settings(folder / "gliner_config.json")
    few, many = (
        LabelSet(names, names) for names in (("a",), tuple(f"label {number}" for number in range(256)))
    )
    width = node.settings.width
    num_texts = MAX_NUMBERS // (256 * 100 * width) + 1  # too many, if each had 256 labels
    texts = [MarkedText("", [1] * 300, [], [(0, 1)] * 100)] * num_texts

    def check(labels):
        groups = node._groups(texts)
        assert {len(group) for group in groups} == {1}
        node._check_size(groups, texts, WantedEntities(labels, threshold=0.5, of_each=True))

    check((many, *[few] * (num_texts - 1)))
    with pytest.raises(RequestError, match=f"spans, padding included.*and {MAX_NUMBERS} numbers"):
        check((many,) * num_texts)
    short, long = MarkedText("", [1] * 100, [], [(0, 1)]), MarkedText("", [1] * 100, [], [(0, 1)] * 90)
    pairs = [short, long] * 20_000
    wanted = WantedEntities((few,), threshold=0.5)
    with pytest.raises(RequestError, match=f"the texts have {40_000 * 90 * width} spans"):
        node._check_size(node._groups(pairs), pairs, wanted)
