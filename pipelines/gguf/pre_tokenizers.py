"""What splits a text before pairs of bytes are merged, by the name that GGUF files give it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, normalizers, pre_tokenizers

from pipelines.gguf.errors import GgufError

ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + OTHERS
QWEN2 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + OTHERS
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PATHS = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}" + PATHS
GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDINGS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDINGS}?"
    r"|\p{N}{1,3}" + PATHS
)


@dataclass(frozen=True)
class PreTokenizer:
    """`expression` splits the text, that of GPT-2 where there is none.

    `digits`: each digit stands alone.  `whole_words`: a word that is a token is not merged from its parts.
    `begins`: a text begins with bos where the file does not say.  `composed`: characters are composed (NFC).
    """

    expression: str | None = None
    digits: bool = False
    whole_words: bool = False
    begins: bool = False
    composed: bool = False

    def splitter(self) -> Any:
        if self.expression is None:
            gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
            return pre_tokenizers.Sequence([pre_tokenizers.Digits(True), gpt2]) if self.digits else gpt2
        split = pre_tokenizers.Split(Regex(self.expression), "isolated")
        bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([split, bytes_alone])

    def normalizer(self) -> Any:
        return normalizers.NFC() if self.composed else None


_LLAMA3 = PreTokenizer(LLAMA3, whole_words=True, begins=True)
_QWEN2 = PreTokenizer(QWEN2, composed=True)
_GPT2 = PreTokenizer()
_SMOLLM = PreTokenizer(digits=True)
PRE_TOKENIZERS = {
    "gpt-2": _GPT2,
    "phi-2": _GPT2,
    "smollm": _SMOLLM,
    "starcoder": _SMOLLM,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "dbrx": PreTokenizer(LLAMA3),
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "tekken": PreTokenizer(TEKKEN, whole_words=True, begins=True),
    "gpt-4o": PreTokenizer(GPT4O),
}
"""`tokenizer.ggml.pre` → what it means.  A wrong one gives other ids in silence, so others are refused."""


def find_pre_tokenizer(name: str) -> PreTokenizer:
    """Raises `GgufError` for a name that is not in the table."""
    if name not in PRE_TOKENIZERS:
        raise GgufError(f"splits texts by {name!r}; these are served: {', '.join(PRE_TOKENIZERS)}")
    return PRE_TOKENIZERS[name]
