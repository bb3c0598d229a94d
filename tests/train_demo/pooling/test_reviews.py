"""Reviews and texts of topics: the same for a seed, every label, and a label that the words bear out."""

from __future__ import annotations

import re

from tools.train_demo.pooling.corpus import reviews, topics
from tools.train_demo.pooling.corpus.opinions import WHOLE, WORDS
from tools.train_demo.split import Draw


def sample(make, seed: int, held_out: bool = False, size: int = 600):  # type: ignore[no-untyped-def]
    draw = Draw(seed, held_out)
    return [make(draw) for _ in range(size)]


def test_same_seed_gives_the_same_texts() -> None:
    for make in (reviews.review, topics.topic_text):
        assert sample(make, 3) == sample(make, 3)
        assert sample(make, 3) != sample(make, 4)


def test_every_label_is_common() -> None:
    for make, labels in ((reviews.review, reviews.LABELS), (topics.topic_text, topics.LABELS)):
        told = [one.label for one in sample(make, 5)]
        assert set(told) == set(labels)
        assert min(told.count(label) for label in labels) > 0.5 * len(told) / len(labels)


def test_nothing_is_left_to_fill_in() -> None:
    for make in (reviews.review, topics.topic_text):
        for one in sample(make, 6) + sample(make, 6, held_out=True):
            assert not re.search(r"[{}]|  |\ba [aeiou]", one.text), one.text


def test_what_is_denied_has_the_other_label() -> None:
    told = [
        (re.fullmatch(r"The [a-z ]+ was not ([a-z]+)\.", one.text), one.label)
        for one in sample(reviews.review, 7, size=6000)
    ]
    denied = {(found[1], label) for found, label in told if found}
    assert len(denied) > 5
    for word, label in denied:
        assert word in reviews.NEGATABLE[reviews.OPPOSITE[label]]


def test_no_word_means_two_things() -> None:
    positive, negative, neutral = ({*words.seen, *words.unseen} for words in WORDS.values())
    assert not positive & negative
    assert not neutral & (positive | negative)


def test_held_out_sentences_are_not_trained_on() -> None:
    held = {phrase.lower().strip(".!") for split in WHOLE.values() for phrase in split.unseen}
    texts = [one.text.lower() for one in sample(reviews.review, 1, size=4000)]
    assert not held & {sentence.strip() for text in texts for sentence in re.split("[.!]", text)}
