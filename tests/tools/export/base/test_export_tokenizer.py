"""A tokenizer that transformers makes of another library's file gives the ids of that library, or is refused."""

from __future__ import annotations

import base64
import importlib.util
import io
import json

import pytest

if not all(importlib.util.find_spec(name) for name in ("sentencepiece", "tiktoken", "transformers")):
    pytest.skip("needs the export extra", allow_module_level=True)

from tools.export.base.folder import ExportError
from tools.export.base.model_config import is_transformers_5
from tools.export.base.tokenizer_files import write_tokenizer

SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<SPECIAL_5>"]
WORDS = [*(bytes([each]) for each in range(256)), b"th", b"he", b" t", b"the", b" the"]
PATTERN = r"[^\r\n\p{L}\p{N}]?[\p{L}]+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@pytest.fixture
def mistral(tmp_path):
    """A folder that says which family it is of, without a tokenizer."""
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "mistral", "architectures": ["MistralForCausalLM"]})
    )
    return tmp_path


def tekken(vocab_size: int) -> str:
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(word).decode()} for rank, word in enumerate(WORDS)
    ]
    special = [{"rank": rank, "token_str": word, "is_control": True} for rank, word in enumerate(SPECIAL)]
    sizes = {"default_vocab_size": vocab_size, "default_num_special_tokens": len(SPECIAL)}
    config = {"pattern": PATTERN, "num_vocab_tokens": len(vocab), "version": "v3", **sizes}
    return json.dumps({"config": config, "vocab": vocab, "special_tokens": special})


def test_ids_of_tekken_come_after_special_tokens(mistral, tmp_path):
    """transformers 4 leaves out that they do."""
    (mistral / "tekken.json").write_text(tekken(len(WORDS) + len(SPECIAL)))
    if not is_transformers_5():
        with pytest.raises(ExportError, match=r"tekken\.json otherwise than it is meant"):
            write_tokenizer(str(mistral), tmp_path / "made")
        return
    tokenizer = write_tokenizer(str(mistral), tmp_path / "made")
    assert tokenizer("the", add_special_tokens=False)["input_ids"] == [WORDS.index(b"the") + len(SPECIAL)]


def pieces(**options: object) -> bytes:
    from sentencepiece import SentencePieceTrainer

    texts = ["A graph is a straight-line program.", "def add(a, b):\n    return a + b", "Größe 今天 3.14"] * 9
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=out,
        vocab_size=320,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return out.getvalue()


def test_pieces_that_are_read_otherwise_are_refused_where_no_class_is_named(mistral, tmp_path):
    """sentencepiece joins blanks here, which no version of transformers does for the family."""
    (mistral / "tokenizer.model").write_bytes(pieces())
    with pytest.raises(ExportError, match=r"tokenizer\.model otherwise than it is meant"):
        write_tokenizer(str(mistral), tmp_path / "made")
    (mistral / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    assert write_tokenizer(str(mistral), tmp_path / "made").is_fast


def test_pieces_as_llama_has_them_are_written(mistral, tmp_path):
    if is_transformers_5():
        pytest.skip("transformers 5 leaves out the blank before a text")
    options = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    (mistral / "tokenizer.model").write_bytes(pieces(**options))
    assert write_tokenizer(str(mistral), tmp_path / "made")("A graph")["input_ids"]


def test_a_tokenizer_json_beside_it_is_what_counts(mistral, tmp_path):
    from tokenizers import Tokenizer, models

    (mistral / "tekken.json").write_text(tekken(1))
    words = {"a": 0, "b": 1, "<unk>": 2}
    Tokenizer(models.WordLevel(words, unk_token="<unk>")).save(str(mistral / "tokenizer.json"))
    assert write_tokenizer(str(mistral), tmp_path / "made")("a")["input_ids"][-1:] == [0]
