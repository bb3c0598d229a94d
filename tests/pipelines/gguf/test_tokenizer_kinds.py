"""Word pieces, unigrams and merged pieces of GGUF files, beside transformers and sentencepiece."""

from __future__ import annotations

import string

import gguf
import pytest
import sentencepiece
from hostile_texts import PIECES, hostile_texts
from later import Later
from tokenizers import pre_tokenizers

from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import read_gguf
from pipelines.gguf.tokenizer import make_tokenizer
from pipelines.gguf.vocabulary import read_vocabulary

hf = Later("transformers")

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
COUNTS = [pytest.param(300), pytest.param(5000, marks=pytest.mark.breadth)]


def made(path):
    metadata = Metadata(read_gguf(path).fields)
    return make_tokenizer(metadata, read_vocabulary(metadata, 1 << 20))


def write(path, kind, tokens, kinds, charsmap=None, **fields):
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_tokenizer_model(kind)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    if charsmap:
        writer.add_precompiled_charsmap(charsmap)
    for name, value in fields.items():
        writer.add_key_value(f"tokenizer.ggml.{name}", value, gguf.GGUFValueType.get_type(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def word_pieces():
    """A vocabulary of BERT's form: letters and some parts of words."""
    letters = sorted((set("".join(PIECES)) | set(string.printable)) - set(string.whitespace) - {"▁"})
    parts = ["the", "don", "user", "name", "html", "今天", "привет", "ecole"]
    words = [*dict.fromkeys([*SPECIALS, *letters, *parts])]
    return [*words, *(f"##{word}" for word in words[len(SPECIALS) :])]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("lower", [True, False])
def test_word_pieces_are_those_of_transformers(tmp_path, lower, count):
    words = word_pieces()
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8", newline="\n")
    theirs = hf.BertTokenizerFast(str(tmp_path / "vocab.txt"), do_lower_case=lower)
    kinds = [3] * len(SPECIALS) + [1] * (len(words) - len(SPECIALS))
    # the file marks what begins a word, as llama.cpp's converter does
    names = [word[2:] if word.startswith("##") else f"▁{word}" for word in words[len(SPECIALS) :]]
    fields = {} if lower else {"normalizer.lowercase": False}
    roles = {"cls_token_id": 2, "seperator_token_id": 3, "unknown_token_id": 1, "padding_token_id": 0}
    write(tmp_path / "a.gguf", "bert", SPECIALS + names, kinds, **roles, **fields)
    ours = made(tmp_path / "a.gguf")
    for text in hostile_texts(count, seed=8):
        assert ours.encode(text).ids == theirs(text)["input_ids"], repr(text)
    pair = ours.encode("the user", "don't")
    wanted = theirs("the user", "don't")
    assert (pair.ids, pair.type_ids) == (wanted["input_ids"], wanted["token_type_ids"])


def trained(folder, kind, **options):
    """A small sentencepiece model of hostile texts."""
    texts = [text for text in hostile_texts(3000, seed=9) if "\0" not in text and "\n" not in text]
    (folder / "corpus.txt").write_text("\n".join(texts), encoding="utf-8", newline="\n")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"),
        model_prefix=str(folder / "small"),
        model_type=kind,
        vocab_size=700,
        character_coverage=0.995,
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "small.model"))


def pieces_of(processor):
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
    return [processor.id_to_piece(at) for at in numbers], kinds


@pytest.mark.parametrize("count", COUNTS)
def test_unigrams_are_those_of_transformers(tmp_path, count):
    processor = trained(tmp_path, "unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    tokens, kinds = pieces_of(processor)
    charsmap = sentencepiece_charsmap(tmp_path / "small.model")
    assert len(charsmap) > 1000
    write(
        tmp_path / "a.gguf",
        "t5",
        tokens,
        kinds,
        scores=[processor.get_score(at) for at in range(len(processor))],
        unknown_token_id=2,
        eos_token_id=1,
        padding_token_id=0,
        add_space_prefix=True,
        remove_extra_whitespaces=True,
        charsmap=charsmap,
    )
    ours = made(tmp_path / "a.gguf")
    theirs, are_equal = hf.T5TokenizerFast(str(tmp_path / "small.model"), extra_ids=0).backend_tokenizer, 0
    theirs.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")  # as in the files of T5's models
    for text in hostile_texts(count, seed=10):
        ids = ours.encode(text).ids
        assert ids == theirs.encode(text).ids, repr(text)
        are_equal += ids == [*processor.encode(text), 1]
    assert are_equal > 0.95 * count, "all but some marks behind letters, which transformers leaves out"


@pytest.mark.breadth
def test_pairs_of_unigrams_are_those_of_xlm_roberta(tmp_path):
    """As rerankers of its form read them (bge-reranker): two separators between a query and a document."""
    processor = trained(tmp_path, "unigram")
    names, _ = pieces_of(processor)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *names[3:], "<mask>"]
    scores = [0.0] * 4 + [processor.get_score(at) for at in range(3, len(names))] + [0.0]
    roles = {"bos": 0, "padding": 1, "eos": 2, "seperator": 2, "unknown": 3, "mask": len(tokens) - 1}
    write(
        tmp_path / "a.gguf",
        "t5",
        tokens,
        [3, 3, 3, 2, *([1] * (len(names) - 3)), 3],
        scores=scores,
        **{f"{role}_token_id": number for role, number in roles.items()},
        **{f"add_{role}_token": True for role in ("bos", "eos", "sep")},
        add_space_prefix=True,
        remove_extra_whitespaces=True,
        charsmap=sentencepiece_charsmap(tmp_path / "small.model"),
    )
    ours = made(tmp_path / "a.gguf")
    theirs = hf.XLMRobertaTokenizerFast(str(tmp_path / "small.model")).backend_tokenizer
    for query, document in zip(hostile_texts(60, seed=12), hostile_texts(60, seed=13), strict=True):
        assert ours.encode(query, document).ids == theirs.encode(query, document).ids, (query, document)
    pair = ours.encode("the user", "don't").tokens
    assert [pair[0], pair[-1]] == ["<s>", "</s>"]
    assert pair.count("</s>") == 3


def sentencepiece_charsmap(path):
    from transformers.convert_slow_tokenizer import import_protobuf

    proto = import_protobuf().ModelProto()
    proto.ParseFromString(path.read_bytes())
    return proto.normalizer_spec.precompiled_charsmap


@pytest.mark.parametrize("count", COUNTS)
def test_merged_pieces_are_those_of_sentencepiece(tmp_path, count):
    """Gemma 4's form: the file has merges, in the order in which sentencepiece would choose them."""
    processor = trained(
        tmp_path,
        "bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
    )
    tokens, kinds = pieces_of(processor)
    scores = {token: processor.get_score(at) for at, token in enumerate(tokens) if kinds[at] == 1}
    pairs = [
        (score, token[:cut], token[cut:])
        for token, score in scores.items()
        for cut in range(1, len(token))
        if token[:cut] in scores and token[cut:] in scores
    ]
    merges = [f"{left} {right}" for _, left, right in sorted(pairs, key=lambda pair: -pair[0])]
    roles = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    write(tmp_path / "a.gguf", "gemma4", tokens, kinds, merges=merges, **roles)
    ours = made(tmp_path / "a.gguf")
    for text in hostile_texts(count, seed=12):
        ids = ours.encode(text).ids
        assert ids == [1, *processor.encode(text)], repr(text)
        assert ours.decode(ids) == text.replace("▁", " ")
