"""Clauses of espeak-ng → sentences of phonemes.  The endings are those that Piper's own espeak-ng reports."""

import pytest

from pipelines.nodes.voice.sentences import cut, endings, sentences

READ = {
    "Hello, world. ok": (["Hello, w", "orld. o", "k "], [(",", False), (".", True), ("", False)]),
    'He said "no!" Then': (['He said "no!"', " Then "], [("!", True), ("", False)]),
    "What?! No": (["What?! N", "o "], [("?", True), ("", False)]),
    "wait... go": (["wait... g", "o "], [("", False), ("", False)]),
    "one\n\ntwo": (["one\n\nt", "wo "], [("", True), ("", False)]),
    "x. \n\ny": (["x. \n\ny", " "], [("", True), ("", False)]),
    "ok – so: it; is": (
        ["ok – s", "o: i", "t; i", "s "],
        [(";", False), (":", False), (";", False), ("", False)],
    ),
    "好。好": (["好。好", " "], [("", True), ("", False)]),
    "-!": (["-! "], [("", False)]),
}


@pytest.mark.parametrize("text", READ)
def test_how_clauses_end(text):
    read, expected = READ[text]
    assert [tuple(each) for each in endings(read)] == expected


def test_sentences_have_their_marks_and_accents_apart():
    clauses = [("hɛlˈo", "Hello, w"), ("wˈɜːld", "orld. Ç"), ("(fr)ça(en-us)", "a! "), ("", " ")]
    assert sentences(clauses) == ["hɛlˈo, wˈɜːld.", "c\u0327a!"]


def test_nothing_spoken_is_no_sentence():
    assert sentences([("", "... ")]) == []


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("aaa bbb", ["aaa bbb"]),
        ("aa, bb cc dd", ["aa,", "bb cc ", "dd"]),
        ("aaaa bbbb cc", ["aaaa ", "bbbb cc"]),
        ("aaaaaaaaaa", ["aaaaaaa", "aaa"]),
    ],
)
def test_long_sentences_are_cut(sentence, parts):
    assert list(cut(sentence, 7)) == parts
