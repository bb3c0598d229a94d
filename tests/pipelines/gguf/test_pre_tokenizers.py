"""Texts are split as llama.cpp splits them: ids that llama.cpp 0.5.0 gave on a vocabulary in which pairs merge
across every border, so that each other way to split gives other ids.

Ids that were recorded depend on `add_bos_token` as well: the files did not say it.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from functools import cache
from pathlib import Path

import gguf
import pytest
from breadth import after
from hostile_texts import hostile_texts

from pipelines.gguf.metadata import Metadata
from pipelines.gguf.pre_tokenizers import PRE_TOKENIZERS
from pipelines.gguf.reader import read_gguf
from pipelines.gguf.tokenizer import make_tokenizer
from pipelines.gguf.vocabulary import read_vocabulary

RECORDED = Path(__file__).parents[2] / "fixtures" / "recorded" / "llama_cpp_ids.json"
BY_CASE, SPACES = "Lu Ll Lt Mn Mc Me", "Zs Zl Zp"
OTHERWISE = dict.fromkeys(("tekken", "gpt-4o", "llama4", "kanana2", "minimax-m2"), BY_CASE)
OTHERWISE |= dict.fromkeys(("deepseek-llm", "deepseek-coder"), SPACES)
"""Categories of characters beyond ASCII that llama.cpp takes for others: all letters but a to z for upper ones,
all but A to Z for lower ones; spaces for what is no space.
"""
OF_ITS_OWN = "kimi-k2"
"""llama.cpp does not split its words by case, as its own tokenizer does."""
NAMES = [name for name in PRE_TOKENIZERS if name != OF_ITS_OWN]
DIFFERENT = list({PRE_TOKENIZERS[name]: name for name in NAMES}.values())
ALIKE = [name for name in NAMES if name not in DIFFERENT]
DIGITS = 4
"""Hexadecimal digits of the digest of a text's ids."""


@cache
def recorded():
    return json.loads(RECORDED.read_text())


@cache
def splits():
    """Name → the digests of its ids, of all texts together and one by one."""
    return {name: group for group in recorded()["ids"] for name in group["pre"]}


def write_vocabulary(path, name):
    tokens = recorded()["vocabulary"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list([*tokens, "<s>", "</s>"])
    writer.add_token_types([1] * len(tokens) + [3, 3])
    writer.add_token_merges(recorded()["merges"])
    writer.add_bos_token_id(len(tokens))
    writer.add_eos_token_id(len(tokens) + 1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def tokenizer(path, name):
    write_vocabulary(path, name)
    metadata = Metadata(read_gguf(path).fields)
    return make_tokenizer(metadata, read_vocabulary(metadata, 1 << 20))


def is_comparable(name, text):
    """llama.cpp does not compose characters, and does not know all letters."""
    unlike = OTHERWISE.get(name, "").split()
    categories = {unicodedata.category(character) for character in text if not character.isascii()}
    return unicodedata.normalize("NFC", text) == text and not categories & set(unlike)


def digest(ids, size):
    return hashlib.blake2b(json.dumps(ids).encode(), digest_size=size).hexdigest()


@pytest.mark.parametrize("name", after(len(DIFFERENT), DIFFERENT + ALIKE))
def test_ids_are_those_of_llama_cpp(tmp_path, name):
    splitter = tokenizer(tmp_path / "a.gguf", name)
    wanted = splits()[name]["texts"]
    texts = hostile_texts(300, seed=5)
    assert len(wanted) == DIGITS * len(texts)
    compared = 0
    for at, text in enumerate(texts):
        if is_comparable(name, text):
            compared += 1
            assert digest(splitter.encode(text).ids, 2) == wanted[DIGITS * at : DIGITS * (at + 1)], repr(text)
        if not PRE_TOKENIZERS[name].composed:
            assert splitter.decode(splitter.encode(text).ids) == text
    assert compared > 90


@pytest.mark.breadth
@pytest.mark.parametrize("name", NAMES)
def test_ids_of_ten_thousand_texts_are_those_of_llama_cpp(tmp_path, name):
    made = tokenizer(tmp_path / "a.gguf", name)
    texts = [text for text in hostile_texts(10_000, seed=6) if is_comparable(name, text)]
    ids = [encoding.ids for encoding in made.encode_batch(texts)]
    assert digest(ids, 16) == splits()[name]["all"]


EXPRESSIONS = list({kind.expressions: name for name, kind in PRE_TOKENIZERS.items()}.values())
IN_BRACES = re.compile(r"\\x\{([0-9A-Fa-f]+)\}")


def found_words(expressions, text):
    """The words that another engine for expressions finds, one expression after the other."""
    parts = [text]
    for expression in expressions:
        parts = [word for part in parts for word in isolated(expression, part)]
    return parts


def isolated(expression, text):
    at = 0
    for match in expression.finditer(text):
        if match[0]:
            yield from (text[at : match.start()], match[0]) if match.start() > at else (match[0],)
            at = match.end()
    if at < len(text):
        yield text[at:]


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.breadth)])
def test_words_are_those_of_the_expressions(name, count):
    """All texts are compared, those too of which llama.cpp does not know all letters."""
    regex = pytest.importorskip("regex", reason="comes with transformers")
    splitter, kind = PRE_TOKENIZERS[name].splitter(), PRE_TOKENIZERS[name]
    python = [IN_BRACES.sub(lambda code: f"\\U{int(code[1], 16):08X}", each) for each in kind.expressions]
    expressions = [regex.compile(expression, regex.V1) for expression in python]
    for text in hostile_texts(count, seed=6):
        words = [text[begin:end] for _, (begin, end) in splitter.pre_tokenize_str(text)]
        assert words == found_words(expressions, text), repr(text)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("kimi-k2", "getUserName 今天a12345", ["get", "User", "Name", " ", "今天", "a", "123", "45"]),
        ("gpt-4o", "ÉCOLE's été", ["ÉCOLE's", " été"]),
        ("tekken", "étéÉCOLE 12", ["été", "ÉCOLE", " ", "1", "2"]),
    ],
)
def test_words_that_llama_cpp_splits_otherwise(name, text, words):
    """As the models' own expressions split them."""
    splitter = PRE_TOKENIZERS[name].splitter()
    spans = [span for _, span in splitter.pre_tokenize_str(text)]
    assert [text[begin:end] for begin, end in spans] == words
