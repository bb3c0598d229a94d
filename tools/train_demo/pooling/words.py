"""The small vocabulary of the pooling demos and its word embeddings.

Both come from a teacher, a sentence encoder in transformers' format: its most common pieces, and the
embeddings that it gives to each piece alone, in fewer dimensions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from .teacher import Teacher

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY_SIZE = 12_000
SEED = 7
DISTINCTION = 0.15  # how far pieces of one meaning are set apart, in standard deviations
SCALE = 0.08  # standard deviation of the numbers of a word embedding


def small_tokenizer(teacher: Teacher, texts: Iterable[str]) -> Tokenizer:
    """WordPiece without case: all letters, the words of `texts` and the teacher's commonest pieces."""
    known: dict[str, int] = teacher.tokenizer.get_vocab()
    ranked = sorted(known, key=lambda piece: known[piece])
    letters = [piece for piece in ranked if len(piece.removeprefix("##")) == 1 and piece.isascii()]
    counts = Counter(piece for text in texts for piece in teacher.tokenizer.encode(text).tokens)
    frequent = [piece for piece, count in counts.most_common() if count > 2]
    plain = [piece for piece in ranked if piece.isascii() and piece.removeprefix("##").isalpha()]
    chosen = list(dict.fromkeys([*SPECIALS, *letters, "’", *frequent, *plain]))
    return new_tokenizer({piece: index for index, piece in enumerate(chosen[:VOCABULARY_SIZE])})


def new_tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    """BERT's tokenizer with another vocabulary."""
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return tokenizer


def word_vectors(teacher: Teacher, tokenizer: Tokenizer, size: int) -> np.ndarray:
    """float32[vocabulary, size]: the main components of the teacher's vectors, and a little noise."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    pieces = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    vectors = teacher.of_pieces(pieces)
    centred = vectors - vectors.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    reduced = centred @ directions[:size].T
    reduced /= reduced.std()
    noise = np.random.default_rng(SEED).standard_normal(reduced.shape)
    return (SCALE * (reduced + DISTINCTION * noise)).astype(np.float32)


def save_tokenizer(tokenizer: Tokenizer, folder: Path, max_tokens: int) -> None:
    """tokenizer.json, tokenizer_config.json and special_tokens_map.json, as transformers reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    names = {f"{piece[1:-1].lower()}_token": piece for piece in SPECIALS}
    config: dict[str, Any] = {"tokenizer_class": "BertTokenizerFast", "do_lower_case": True, **names}
    config["model_max_length"] = max_tokens
    for name, content in {"tokenizer_config.json": config, "special_tokens_map.json": names}.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
