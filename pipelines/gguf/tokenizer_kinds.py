"""The kinds of tokenizers in GGUF files, each as a `tokenizers` object."""

from __future__ import annotations

from typing import Any, NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.pre_tokenizers import find_pre_tokenizer
from pipelines.gguf.vocabulary import CONTROL, NORMAL, GgufVocabulary

SPACE = "▁"
SEPARATOR = "seperator"
"""A role, as GGUF files spell it."""
LONGEST_PIECE = 256
"""Characters of a scored piece; sentencepiece makes 16 by default."""
LONGEST_WORD = 100
"""Characters of a word that BERT's tokenizer takes apart; a longer one is unknown."""


class Made(NamedTuple):
    """A tokenizer, and what stands around a text where the file does not say.

    `begins`: a text begins with the token of the role `first`.  `last`: the role of the token at its end.
    """

    tokenizer: Tokenizer
    begins: bool = False
    first: str = "bos"
    last: str | None = None


def byte_pairs(metadata: Metadata, vocabulary: GgufVocabulary) -> Made:
    """Pairs of bytes that are merged, of GPT-2's form."""
    pre = find_pre_tokenizer(metadata.text("tokenizer.ggml.pre") or "gpt-2")
    merges = _merges(metadata)
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary.numbers(), merges=merges, ignore_merges=pre.whole_words)
    )
    tokenizer.pre_tokenizer = pre.splitter()
    if (normalizer := pre.normalizer()) is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    return Made(tokenizer, pre.begins, last=SEPARATOR if pre.separates else None)


def scored_pieces(metadata: Metadata, vocabulary: GgufVocabulary) -> Made:
    """Pieces of sentencepiece that are merged, the best one first."""
    prefixed = metadata.flag("tokenizer.ggml.add_space_prefix") is not False
    return Made(_pieces(vocabulary, _scored_merges(metadata, vocabulary), prefixed), begins=True)


def merged_pieces(metadata: Metadata, vocabulary: GgufVocabulary) -> Made:
    """Pieces with the order of their merges, as Gemma 4's."""
    return Made(_pieces(vocabulary, _merges(metadata), is_prefixed=False), begins=True)


def word_pieces(metadata: Metadata, vocabulary: GgufVocabulary) -> Made:
    """BERT's pieces of words.  The file marks those that begin a word, BERT those that do not."""
    specials = set(vocabulary.of_kind(CONTROL))
    names = {token: _word_piece(token, token in specials) for token in vocabulary.tokens}
    numbers = {names[token]: number for token, number in vocabulary.numbers().items()}
    unknown = vocabulary.text("unknown") or "[UNK]"
    tokenizer = Tokenizer(
        models.WordPiece(numbers, unk_token=names[unknown], max_input_chars_per_word=LONGEST_WORD)
    )
    lower = metadata.flag("tokenizer.ggml.normalizer.lowercase") is not False
    strips = metadata.flag("tokenizer.ggml.normalizer.strip_accents")
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lower, strip_accents=lower if strips is None else strips
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    first = "cls" if "cls" in vocabulary.roles else "bos"
    return Made(tokenizer, begins=True, first=first, last=SEPARATOR)


def unigrams(metadata: Metadata, vocabulary: GgufVocabulary) -> Made:
    """Pieces of sentencepiece whose likeliest sequence is taken, as T5's and XLM-RoBERTa's."""
    scored = list(zip(vocabulary.tokens, _scores(metadata, vocabulary), strict=True))
    if "unknown" not in vocabulary.roles:
        raise GgufError("has pieces, but none for what is unknown")
    tokenizer = Tokenizer(models.Unigram(scored, vocabulary.roles["unknown"], byte_fallback=False))
    steps: list[Any] = []
    if (characters := metadata.array("tokenizer.ggml.precompiled_charsmap")) is not None:
        steps.append(normalizers.Precompiled(characters.tobytes()))
    if metadata.flag("tokenizer.ggml.remove_extra_whitespaces"):
        steps += [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), SPACE)]
    tokenizer.normalizer = normalizers.Sequence(steps)
    scheme = "always" if metadata.flag("tokenizer.ggml.add_space_prefix") else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme)
    tokenizer.decoder = decoders.Metaspace(SPACE, prepend_scheme=scheme)
    return Made(tokenizer, last="eos")


KINDS = {
    "gpt2": byte_pairs,
    "llama": scored_pieces,
    "gemma4": merged_pieces,
    "bert": word_pieces,
    "t5": unigrams,
}
"""`tokenizer.ggml.model` → what makes its tokenizer."""


def _pieces(vocabulary: GgufVocabulary, merges: list[tuple[str, str]], is_prefixed: bool) -> Tokenizer:
    """Merged pieces with ▁ for spaces, and bytes for what no piece has; `is_prefixed`: a space stands before
    each text.
    """
    unknown, numbers = vocabulary.text("unknown"), vocabulary.numbers()
    tokenizer = Tokenizer(
        models.BPE(vocab=numbers, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    spaces = normalizers.Replace(" ", SPACE)
    decoding: list[Any] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if is_prefixed:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
        decoding.append(decoders.Strip(" ", 1, 0))
    else:
        tokenizer.normalizer = spaces
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(decoding)
    return tokenizer


def _word_piece(token: str, is_special: bool) -> str:
    if is_special:
        return token
    return token[1:] if token.startswith(SPACE) else f"##{token}"


def _merges(metadata: Metadata) -> list[tuple[str, str]]:
    return [_pair(merge) for merge in metadata.texts("tokenizer.ggml.merges")]


def _pair(merge: str) -> tuple[str, str]:
    """The parts of a merge; the first may itself begin with a space."""
    cut = merge.find(" ", 1)
    if cut < 0:
        raise GgufError(f"has a merge of one part, {merge!r:.60}")
    return merge[:cut], merge[cut + 1 :]


def _scores(metadata: Metadata, vocabulary: GgufVocabulary) -> list[float]:
    scores = metadata.array("tokenizer.ggml.scores")
    if scores is None or len(scores) != len(vocabulary.tokens):
        raise GgufError("has no score for each token")
    return [float(score) for score in scores]


def _scored_merges(metadata: Metadata, vocabulary: GgufVocabulary) -> list[tuple[str, str]]:
    """Every way to make a piece of two others, that of the best piece first, as sentencepiece merges."""
    numbers = vocabulary.numbers()
    normal = {
        token for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True) if kind == NORMAL
    }
    merges = []
    for token, score in zip(vocabulary.tokens, _scores(metadata, vocabulary), strict=True):
        if token not in normal:
            continue
        if len(token) > LONGEST_PIECE:
            raise GgufError(f"has a piece of {len(token)} characters")
        cuts = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        pairs = [(left, right) for left, right in cuts if left in normal and right in normal]
        pairs.sort(key=lambda pair: (numbers[pair[0]], numbers[pair[1]]))
        merges += [(score, left, right) for left, right in pairs]
    merges.sort(key=lambda merge: (merge[0], len(merge[1]), len(merge[2])), reverse=True)
    return [(left, right) for _, left, right in merges]
