"""Words of passages: the same words, and the same BM25, as SQLite's FTS5 has, over any number of parts."""

import random
import sqlite3

import numpy as np
import pytest

from pipelines.retrieval.cutting import Passage
from pipelines.retrieval.index_parts import write_removed
from pipelines.retrieval.passages import Passages, PassageWriter
from pipelines.retrieval.words import StoredWords, query_words

TEXTS = (
    "The moon is far, the moon is cold.",
    "Ça va? Crème brûlée à Zürich, naïve Ångström; İstanbul.",
    "Привет, мир! Й и й; Ёлка.",
    "Ελλάδα και ΆΝΘΡΩΠΟΣ, μία ώρα",
    "東京は大きい。 ガラス がらす 한국어 텍스트",
    "max_tokens and max-tokens, __init__ of snake_case_name_2, x² ½ 10.5e3",
    "हिन्दी में लिखा हुआ",
    "",
    "cafe\u0301 e\u0302tre, o'clock don't",
    "the the the moon",
)


def documents(texts):
    return [(f"d{number}", "digest", "{}", [Passage(text, 0, f"head {number}")]) for number, text in texts]


def opened(folder, texts, num_parts, gone=()):
    """The words of an index of these texts in parts, some of which were removed."""
    numbered = [*enumerate(texts)]
    counts = []
    for part in range(num_parts):
        own = numbered[part * len(texts) // num_parts : (part + 1) * len(texts) // num_parts]
        writer = PassageWriter(folder, part)
        for document in documents(own):
            writer.add(*document)
        writer.close()
        rows = [place for place, (number, _) in enumerate(own) if number in gone]
        if rows:
            write_removed(folder, part, np.array([(row, row, 1) for row in rows], np.int32))
        counts.append(len(own))
    passages = Passages(folder, counts)
    return StoredWords([part.words for part in passages.parts], passages.allowed(None) if gone else None)


def by_fts5(texts, query, gone=()):
    """(row, score) of each text that SQLite finds."""
    db = sqlite3.connect(":memory:")
    db.execute(
        "CREATE VIRTUAL TABLE words USING fts5 (text, heading, tokenize = 'unicode61 remove_diacritics 2')"
    )
    for number, text in enumerate(texts):
        if number not in gone:
            db.execute(
                "INSERT INTO words (rowid, text, heading) VALUES (?, ?, ?)", (number, text, f"head {number}")
            )
    match = " OR ".join(f'"{word}"' for word in query_words(query, 64))
    hits = db.execute(
        "SELECT rowid, -bm25(words) FROM words WHERE words MATCH ? ORDER BY bm25(words), rowid", (match,)
    )
    return hits.fetchall()


@pytest.mark.parametrize("num_parts", [1, 3])
def test_every_word_is_found_with_the_score_of_fts5(tmp_path, num_parts):
    words = opened(tmp_path, TEXTS, num_parts)
    queries = [word for text in TEXTS for word in text.replace("_", " ").split()]
    for query in [*queries, "the moon", "moon head 3 far", "ÉTRE cafe", "nothing here"]:
        if not query_words(query, 64):
            continue
        rows, scores = words.best(query_words(query, 64), 100)
        expected = by_fts5(TEXTS, query)
        assert rows.tolist() == [row for row, _ in expected], query
        np.testing.assert_allclose(scores, [score for _, score in expected], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_scores_count_all_parts_and_nothing_that_was_removed(tmp_path, seed):
    draw = random.Random(seed)
    vocabulary = [f"w{int(draw.paretovariate(0.7))}" for _ in range(500)]
    texts = [" ".join(draw.choices(vocabulary, k=draw.randrange(0, 60))) for _ in range(300)]
    gone = set(draw.sample(range(300), 80)) if seed else set()
    words = opened(tmp_path, texts, 1 + 2 * seed, gone)
    for _ in range(20):
        query = " ".join(draw.sample(vocabulary, draw.randrange(1, 6)))
        expected = by_fts5(texts, query, gone)
        rows, scores = words.best(query_words(query, 64), 10)
        assert rows.tolist() == [row for row, _ in expected[:10]]
        np.testing.assert_allclose(scores, [score for _, score in expected[:10]], rtol=1e-9)
        allowed = np.array([number % 3 == 0 and number not in gone for number in range(300)])
        rows, _ = words.best(query_words(query, 64), 1000, allowed)
        assert sorted(rows.tolist()) == sorted(row for row, _ in expected if row % 3 == 0)


def test_a_name_with_low_lines_is_found_as_a_whole_and_by_its_words(tmp_path):
    texts = ["max tokens", "set max_tokens to 7", "max and min", "the maximum", "_max_tokens_ is private"]
    words = opened(tmp_path, texts, 2)
    rows, _ = words.best(query_words("max_tokens", 64), 10)
    assert {*rows[:2].tolist()} == {1, 4}
    assert {*rows[2:].tolist()} == {0, 2}
    assert sorted(words.best(query_words("tokens", 64), 10)[0]) == [0, 1, 4]


def test_a_query_has_a_bound():
    assert query_words(" ".join(map(str, range(1000))), 64) == [str(number) for number in range(64)]
    assert query_words("?! ... _", 64) == []


def test_letters_with_very_many_marks_are_read_in_time_that_grows_with_their_number():
    """100,000 marks that are not in order took Unicode's normalization 15 seconds, with the interpreter's lock."""
    many = "\u0301\u0316" * 50_000
    assert query_words(f"caf e{many} \u0439{many} end", 64) == ["caf", "e", "\u0439", "end"]
