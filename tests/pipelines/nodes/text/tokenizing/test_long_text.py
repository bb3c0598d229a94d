"""Texts that are read in pieces give the ids of the whole text."""

from __future__ import annotations

import json
import math
import random
import threading
from pathlib import Path

import pytest
from breadth import after
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from pipelines.base.cancellation import WorkCancelled, cancelled_by
from pipelines.base.errors import RequestError
from pipelines.nodes.text.tokenizing import long_text
from pipelines.nodes.text.tokenizing.long_text import LongTextReader

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[5]
REPOSITORY = ROOT / "model_repo"
CORPUS = [path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {
    "prose": "".join(CORPUS)[:20_000],
    "no spaces": "".join(CORPUS)[:20_000].replace(" ", ""),
    "chinese": "".join(chr(0x4E00 + (i * 7919) % 2000) + "，。"[i % 2] * (i % 9 == 0) for i in range(9_000)),
    "emoji": "👩‍👩‍👧 é e\u0301 ñ 🏳️‍🌈 " * 900,
    "numbers": "".join(str(i * 7919) + "\n" * (i % 3) for i in range(3_000)),
    "special": "a<|im_end|>b <|im_start|>user\n" * 700,
    "spaces": "a" + "   \t\n " * 300 + "b " * 2_000,
}


NAMES = ("braid-demo", "braid-embed", "one word", "unigram")


def trained(kind):
    """A small tokenizer as SentencePiece makes them; that of BPE sees a text as one word."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>") if kind == "bpe" else models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=kind == "unigram")
    tokenizer.decoder = decoders.Metaspace()
    unknown = {} if kind == "bpe" else {"unk_token": "<unk>"}
    trainer = trainers.BpeTrainer if kind == "bpe" else trainers.UnigramTrainer
    made = trainer(vocab_size=3_000, show_progress=False, special_tokens=["<unk>"], **unknown)
    tokenizer.train_from_iterator([*" ".join(CORPUS)[:60_000].split("\n"), TEXTS["chinese"]], made)
    return tokenizer


@pytest.fixture(scope="module")
def tokenizers():
    return {
        **{
            name: Tokenizer.from_file(str(REPOSITORY / name / "model" / "tokenizer.json"))
            for name in ("braid-demo", "braid-embed")
        },
        "one word": trained("bpe"),
        "unigram": trained("unigram"),
    }


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    for name, size in (("PIECE", 700), ("OVERLAP", 200), ("MARGIN", 40), ("MAX_PIECE", 6_000)):
        monkeypatch.setattr(long_text, f"{name}_CHARS", size)


def whole(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def check_read_as_whole(tokenizer, text):
    """The ids of the whole text; of a unigram model, ids of the same text that are exactly as likely.

    `───` is `─`, `──` or `──`, `─`: a unigram model chooses by how its sum of all tokens before was rounded.
    """
    ids, wanted = LongTextReader(tokenizer, text).ids(), whole(tokenizer, text)
    if ids != wanted and isinstance(tokenizer.model, models.Unigram):
        scores = [score for _, score in json.loads(tokenizer.to_str())["model"]["vocab"]]
        likely, wanted_likely = (
            math.fsum(scores[token] for token in token_ids) for token_ids in (ids, wanted)
        )
        assert likely == pytest.approx(wanted_likely, rel=1e-12)
        ids, wanted = (tokenizer.decode(token_ids, skip_special_tokens=False) for token_ids in (ids, wanted))
    assert ids == wanted


@pytest.mark.parametrize("cut", after(1, [17, 0, 1]))
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", TEXTS)
def test_pieces_joined_are_the_whole(kind, name, cut, tokenizers):
    check_read_as_whole(tokenizers[name], TEXTS[kind][cut:])


@pytest.mark.parametrize("num_texts", after(1, [6, 20]))
@pytest.mark.parametrize("name", NAMES)
def test_mixed_texts(name, num_texts, tokenizers):
    draw = random.Random(5)
    for _ in range(num_texts):
        parts = [draw.choice(list(TEXTS.values())) for _ in range(40)]
        starts = [draw.randrange(len(part)) for part in parts]
        text = "".join(part[i : i + draw.randrange(400)] for part, i in zip(parts, starts, strict=True))
        check_read_as_whole(tokenizers[name], text)


def test_a_choice_of_equal_likelihood():
    """Cuts that change how a sum is rounded change no more than such a choice."""
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("x", -3.1), ("─", -1.7), ("───", -2.3)], 0))
    tokenizer.decoder = decoders.Fuse()
    draw = random.Random(7)
    texts = ["".join(draw.choice("x─") * draw.randrange(1, 9) for _ in range(1_500)) for _ in range(4)]
    assert any(LongTextReader(tokenizer, text).ids() != whole(tokenizer, text) for text in texts)
    for text in texts:
        check_read_as_whole(tokenizer, text)


def test_reading_stops_once_there_are_enough(tokenizers, monkeypatch):
    text = TEXTS["prose"]
    read = []
    reader = LongTextReader(tokenizers["braid-demo"], text)
    piece = reader._piece
    monkeypatch.setattr(reader, "_piece", lambda start, size: read.append(start) or piece(start, size))
    ids = reader.ids(most=500)
    assert 500 < len(ids) < 1500
    assert ids[:500] == whole(tokenizers["braid-demo"], text)[:500]
    assert max(read) < len(text) / 4


def test_a_text_without_a_receiver_is_read_no_further(tokenizers):
    gone = threading.Event()
    gone.set()
    with cancelled_by(gone), pytest.raises(WorkCancelled):
        LongTextReader(tokenizers["braid-demo"], TEXTS["prose"]).ids()


@pytest.mark.parametrize("kind", TEXTS)
def test_the_end_alone(kind, tokenizers):
    for tokenizer in tokenizers.values():
        text = TEXTS[kind]
        ids = LongTextReader(tokenizer, text).last_ids(1000)
        wanted = whole(tokenizer, text)
        assert len(ids) < len(wanted)
        assert wanted[len(wanted) - len(ids) :] == ids


def test_a_word_that_cannot_be_cut_is_read_whole(tokenizers):
    """As long as a run of equal tokens is in step with the cuts, or fits into a piece."""
    text = "x " + "=" * 2_000 + " y " * 500
    assert LongTextReader(tokenizers["braid-demo"], text).ids() == whole(tokenizers["braid-demo"], text)


def test_a_word_without_end_is_refused(tokenizers):
    with pytest.raises(RequestError, match="a word of more than 5600 characters"):
        LongTextReader(tokenizers["braid-embed"], "a" * 20_000).ids()
