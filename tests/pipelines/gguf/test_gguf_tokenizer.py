"""Token ids of converted tokenizers, compared with sentencepiece's and with transformers' own tables."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import gguf
import pytest
import sentencepiece
from gguf_files import GgufModel, vocabulary
from hostile_texts import hostile_texts
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.pre_tokenizers import LLAMA3, QWEN2, find_pre_tokenizer
from pipelines.gguf.reader import read_gguf
from pipelines.gguf.tokenizer import make_tokenizer
from pipelines.gguf.vocabulary import read_vocabulary

PIECES = [
    "the ",
    "The",
    " in",
    "12",
    "2024",
    " 3",
    "²",
    "naïve",
    "año",
    "今天天气",
    "\n",
    "\n\n ",
    "\t",
    "  ",
    "   ",
]
PIECES += ["'s", "don't", "WE'LL", "😀", "x=1;", "()", "{}", "...", "a", "Ġ", "▁", "٣", "é", "I'm"]


def texts(count=300):
    chance = random.Random(3)
    return [" ".join(PIECES[:4]), "", " "] + [
        "".join(chance.choices(PIECES, k=chance.randrange(1, 12))) for _ in range(count)
    ]


def tokenizer_of(path, size=None):
    file = read_gguf(path)
    metadata = Metadata(file.fields)
    tokens = read_vocabulary(metadata, size or 1 << 20)
    return make_tokenizer(metadata, tokens), tokens


def byte_pairs(path, pre):
    model = GgufModel(path, "llama")
    model.text(pre=pre)
    model.write()
    return tokenizer_of(path)[0]


def reference(splits):
    """The same vocabulary as `tokenizers` documents it, without what reads GGUF files."""
    tokens, _, merges = vocabulary()
    pairs = [tuple(merge.split(" ")) for merge in merges]
    made = Tokenizer(models.BPE(vocab={token: at for at, token in enumerate(tokens)}, merges=pairs))
    made.pre_tokenizer = pre_tokenizers.Sequence(splits)
    made.decoder = decoders.ByteLevel()
    return made


def test_smollm_splits_digits_first(tmp_path):
    made = byte_pairs(tmp_path / "a.gguf", "smollm")
    wanted = reference([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    for text in texts():
        assert made.encode(text).ids == wanted.encode(text).ids
        assert made.decode(made.encode(text).ids) == text


def test_the_expressions_are_those_of_transformers():
    package = Path(importlib.util.find_spec("transformers").origin).parent  # importing it takes seconds
    source = (package / "convert_slow_tokenizer.py").read_text()
    qwen2, llama3 = source.split("class Qwen2Converter")[1], source.split("class TikTokenConverter")[1]
    assert f'r"""{QWEN2}"""' in qwen2[:2000]
    assert f'pattern=r"""{LLAMA3}"""' in llama3[:500]


def test_special_tokens_are_found_whole_and_left_out_of_text(tmp_path):
    made = byte_pairs(tmp_path / "a.gguf", "gpt-2")
    ids = made.encode("<|im_start|>the<|im_end|>").ids
    assert (ids[0], ids[-1]) == (3, 4)
    assert made.decode(ids) == "the"


def test_an_unknown_pre_tokenizer_is_named():
    with pytest.raises(GgufError, match=r"splits texts by 'chameleon'; these are served: gpt-2"):
        find_pre_tokenizer("chameleon")


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """A small sentencepiece model, trained here: its processor, and a GGUF file of the same pieces."""
    folder = tmp_path_factory.mktemp("pieces")
    (folder / "corpus.txt").write_text("\n".join(texts(400)) + "\nthe cat in the hat is in the house\n" * 50)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"),
        model_prefix=str(folder / "small"),
        model_type="bpe",
        vocab_size=420,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True,
        split_digits=True,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "small.model"))
    write_pieces(folder / "small.gguf", processor)
    return processor, folder / "small.gguf"


def write_pieces(path, processor):
    """As converters of llama write a sentencepiece model."""
    numbers = range(len(processor))
    kinds = [
        2
        if processor.is_unknown(at)
        else 3
        if processor.is_control(at)
        else 6
        if processor.is_byte(at)
        else 1
        for at in numbers
    ]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([processor.id_to_piece(at) for at in numbers])
    writer.add_token_scores([processor.get_score(at) for at in numbers])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(processor.bos_id())
    writer.add_eos_token_id(processor.eos_id())
    writer.add_unk_token_id(processor.unk_id())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


@pytest.mark.parametrize("count", [0, pytest.param(10_000, marks=pytest.mark.breadth)])
def test_pieces_are_those_of_sentencepiece(pieces, count):
    processor, path = pieces
    made, tokens = tokenizer_of(path)
    for text in (*texts(), *hostile_texts(count, seed=14)):
        ids = made.encode(text).ids
        assert ids == [processor.bos_id(), *processor.encode(text)], text
        assert made.decode(ids) == text.replace("▁", " ")
    assert tokens.ends() == [processor.eos_id()]
