"""The tokenizer of a GGUF file as a `tokenizers` object: pairs of bytes (gpt2) or scored pieces (llama)."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.pre_tokenizers import find_pre_tokenizer
from pipelines.gguf.vocabulary import CONTROL, NORMAL, USER_DEFINED, GgufVocabulary

BYTE_PAIRS, PIECES = "gpt2", "llama"
SPACE = "▁"
LONGEST_PIECE = 256
"""Characters of a scored piece; sentencepiece makes 16 by default."""


def make_tokenizer(metadata: Metadata, vocabulary: GgufVocabulary) -> Tokenizer:
    """Raises `GgufError` for a kind or a pre-tokenizer that is not served, and for damaged ones."""
    kind = metadata.text("tokenizer.ggml.model")
    if kind not in (BYTE_PAIRS, PIECES):
        raise GgufError(f"has a tokenizer of kind {kind}; {BYTE_PAIRS} and {PIECES} are served")
    try:
        tokenizer, begins = (_byte_pairs if kind == BYTE_PAIRS else _pieces)(metadata, vocabulary)
        for kinds, special in ((CONTROL, True), (USER_DEFINED, False)):
            names = vocabulary.of_kind(kinds)
            tokenizer.add_tokens(
                [AddedToken(name, special=special, normalized=False) for name in names if name]
            )
        _add_ends(tokenizer, metadata, vocabulary, begins)
    except GgufError:
        raise
    except Exception as error:  # the library raises plain exceptions
        raise GgufError(f"has a tokenizer that cannot be made: {error}") from error
    if tokenizer.get_vocab_size() != len(vocabulary.tokens):
        raise GgufError("has tokens that the tokenizer would number anew")
    return tokenizer


def _byte_pairs(metadata: Metadata, vocabulary: GgufVocabulary) -> tuple[Tokenizer, bool]:
    pre = find_pre_tokenizer(metadata.text("tokenizer.ggml.pre") or "gpt-2")
    merges = [_pair(merge) for merge in metadata.texts("tokenizer.ggml.merges")]
    vocab = {token: number for number, token in enumerate(vocabulary.tokens)}
    made = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=pre.whole_words))
    made.pre_tokenizer = pre.splitter()
    if (normalizer := pre.normalizer()) is not None:
        made.normalizer = normalizer
    made.decoder = decoders.ByteLevel()
    return made, pre.begins


def _pair(merge: str) -> tuple[str, str]:
    """The parts of a merge; the first may itself begin with a space."""
    cut = merge.find(" ", 1)
    if cut < 0:
        raise GgufError(f"has a merge of one part, {merge!r:.60}")
    return merge[:cut], merge[cut + 1 :]


def _pieces(metadata: Metadata, vocabulary: GgufVocabulary) -> tuple[Tokenizer, bool]:
    vocab = {token: number for number, token in enumerate(vocabulary.tokens)}
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocab,
            merges=_scored_merges(metadata, vocabulary, vocab),
            unk_token=vocabulary.text("unknown"),
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    spaces = normalizers.Replace(" ", SPACE)
    decoding: list[Any] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if metadata.flag("tokenizer.ggml.add_space_prefix") is False:
        tokenizer.normalizer = spaces
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
        decoding.append(decoders.Strip(" ", 1, 0))
    tokenizer.decoder = decoders.Sequence(decoding)
    return tokenizer, True


def _scored_merges(
    metadata: Metadata, vocabulary: GgufVocabulary, vocab: dict[str, int]
) -> list[tuple[str, str]]:
    """Every way to make a piece of two others, that of the best piece first, as sentencepiece merges."""
    scores = metadata.array("tokenizer.ggml.scores")
    if scores is None or len(scores) != len(vocabulary.tokens):
        raise GgufError("has no score for each token")
    normal = {
        token for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True) if kind == NORMAL
    }
    merges = []
    for token, score in zip(vocabulary.tokens, scores.tolist(), strict=True):
        if token not in normal:
            continue
        if len(token) > LONGEST_PIECE:
            raise GgufError(f"has a piece of {len(token)} characters")
        cuts = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        pairs = [(left, right) for left, right in cuts if left in normal and right in normal]
        pairs.sort(key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
        merges += [(score, left, right) for left, right in pairs]
    merges.sort(key=lambda merge: (merge[0], len(merge[1]), len(merge[2])), reverse=True)
    return [(left, right) for _, left, right in merges]


def _add_ends(tokenizer: Tokenizer, metadata: Metadata, vocabulary: GgufVocabulary, begins: bool) -> None:
    """What stands before and after each text: bos and eos, where the file says so."""
    wanted = {"bos": begins, "eos": False}
    for role, default in wanted.items():
        said = metadata.flag(f"tokenizer.ggml.add_{role}_token")
        wanted[role] = (default if said is None else said) and role in vocabulary.roles
    if not any(wanted.values()):
        return
    bos, eos = (
        [vocabulary.tokens[vocabulary.roles[role]]] if is_on else [] for role, is_on in wanted.items()
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*bos, "$A", *eos],
        pair=[*bos, "$A", *eos, *(f"{token}:1" for token in bos), "$B:1", *(f"{token}:1" for token in eos)],
        special_tokens=[(token, vocabulary.tokens.index(token)) for token in {*bos, *eos}],
    )
