"""What splits a text before pairs of bytes are merged, by the name that GGUF files give it.

The expressions are those of the models' own tokenizer.json; llama.cpp's are the same but for the letters that
it cannot write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tokenizers import Regex, normalizers, pre_tokenizers

from pipelines.gguf.errors import GgufError

ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
PATHS = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
UPPER_OTHERS, LOWER_OTHERS = (letters.replace("]", r"&&[^\p{Han}]]") for letters in (UPPER, LOWER))
SIGNS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""


def _by_case(upper: str, lower: str, endings: str = "") -> str:
    """Words of upper, then lower letters."""
    begin = r"[^\r\n\p{L}\p{N}]?"
    return rf"{begin}{upper}*{lower}+{endings}|{begin}{upper}+{lower}*{endings}"


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{ENDINGS}|{WORDS}|\p{{N}}{{1,3}}" + OTHERS
QWEN2 = rf"{ENDINGS}|{WORDS}|\p{{N}}" + OTHERS
QWEN35 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + SPACES
TEKKEN = _by_case(UPPER, LOWER) + r"|\p{N}" + PATHS
GPT4O = _by_case(UPPER, LOWER, ENDINGS + "?") + r"|\p{N}{1,3}" + PATHS
KIMI = r"[\p{Han}]+|" + _by_case(UPPER_OTHERS, LOWER_OTHERS, ENDINGS + "?") + r"|\p{N}{1,3}" + OTHERS
DEEPSEEK3 = (
    rf"{SIGNS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*" + SPACES
)
BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
SEED = rf"{ENDINGS}|{WORDS}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+" + SPACES
EXAONE = (
    ENDINGS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
DEEPSEEK_LETTERS = (
    r"A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅ"
    r"ὐ-ὗὙὛὝὟ-\x{1f7d}ᾀ-ᾴᾶ-ᾼ\x{1fbe}ῂ-ῄῆ-ῌῐ-\x{1fd3}ῖ-\x{1fdb}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ"
    r"\x{212a}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
"""Letters that have an upper and a lower form."""


@dataclass(frozen=True)
class PreTokenizer:
    """`expressions` split the text one after the other: what each finds, and what is between, stands alone.

    `whole_words`: a word that is a token is not merged from its parts.  `begins`: a text begins with bos
    where the file does not say, and, with `separates`, ends with a separator.  `composed`: characters are
    composed (NFC).
    """

    expressions: tuple[str, ...]
    whole_words: bool = False
    begins: bool = False
    separates: bool = False
    composed: bool = False

    def splitter(self) -> Any:
        splits = [pre_tokenizers.Split(Regex(each), "isolated") for each in self.expressions]
        bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*splits, bytes_alone])

    def normalizer(self) -> Any:
        return normalizers.NFC() if self.composed else None


_GPT2, _SMOLLM = PreTokenizer((GPT2,)), PreTokenizer((r"\p{N}", GPT2))
_LLAMA3, _QWEN2, _GPT4O = (PreTokenizer((each,)) for each in (LLAMA3, QWEN2, GPT4O))
_LLAMA3_WORDS = replace(_LLAMA3, whole_words=True, begins=True)
_QWEN2_COMPOSED = replace(_QWEN2, composed=True)
_DEEPSEEK3 = PreTokenizer((r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3))
_BAILING = PreTokenizer((BAILING,))
PRE_TOKENIZERS = {
    "gpt-2": _GPT2,
    "phi-2": _GPT2,
    "exaone4": _GPT2,
    "modern-bert": _GPT2,
    "roberta-bpe": replace(_GPT2, separates=True),
    "jina-v1-en": replace(_GPT2, separates=True),
    "jina-v2-code": replace(_GPT2, separates=True),
    "jina-v2-de": _GPT2,
    "jina-v2-es": _GPT2,
    "granite-docling": _GPT2,
    "olmo": replace(_GPT2, composed=True),
    "smollm": _SMOLLM,
    "starcoder": _SMOLLM,
    "refact": _SMOLLM,
    "exaone": _SMOLLM,
    "command-r": replace(_SMOLLM, composed=True),
    "llama-bpe": _LLAMA3_WORDS,
    "llama3": _LLAMA3_WORDS,
    "llama-v3": _LLAMA3_WORDS,
    "falcon3": _LLAMA3_WORDS,
    "falcon-h1": _LLAMA3_WORDS,
    "pixtral": _LLAMA3_WORDS,
    "lfm2": _LLAMA3_WORDS,
    "jina-v5-nano": _LLAMA3_WORDS,
    "dbrx": _LLAMA3,
    "smaug-bpe": _LLAMA3,
    "glm4": _LLAMA3,
    "chatglm-bpe": _LLAMA3,
    "qwen2": _QWEN2_COMPOSED,
    "deepseek-r1-qwen": _QWEN2_COMPOSED,
    "megrez": _QWEN2_COMPOSED,
    "qwen35": PreTokenizer((QWEN35,), composed=True),
    "hunyuan": _QWEN2,
    "solar-open": _QWEN2,
    "stablelm2": _QWEN2,
    "tekken": PreTokenizer((TEKKEN,), whole_words=True, begins=True),
    "gpt-4o": _GPT4O,
    "llama4": _GPT4O,
    "kanana2": _GPT4O,
    "minimax-m2": _GPT4O,
    "kimi-k2": PreTokenizer((KIMI,)),
    "deepseek-v3": _DEEPSEEK3,
    "hunyuan-dense": _DEEPSEEK3,
    "joyai-llm": _DEEPSEEK3,
    "deepseek-llm": PreTokenizer(
        (
            r"[\r\n]",
            rf"\s?[{DEEPSEEK_LETTERS}]+",
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
            r"\s+$",
            "[一-龥ࠀ-一가-퟿]+",
            r"\p{N}+",
        )
    ),
    "deepseek-coder": PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}")),
    "bailingmoe": _BAILING,
    "bailingmoe2": _BAILING,
    "llada-moe": _BAILING,
    "seed-coder": PreTokenizer((SEED,)),
    "exaone-moe": PreTokenizer((EXAONE,)),
    "minicpm5": PreTokenizer((r"\p{N}{1,3}", rf"{ENDINGS}|{WORDS}|\p{{N}}+" + OTHERS), whole_words=True),
}
"""`tokenizer.ggml.pre` → what it means.  A wrong one gives other ids in silence, so others are refused."""


def find_pre_tokenizer(name: str) -> PreTokenizer:
    """Raises `GgufError` for a name that is not in the table."""
    if name not in PRE_TOKENIZERS:
        raise GgufError(f"splits texts by {name!r}; these are served: {', '.join(PRE_TOKENIZERS)}")
    return PRE_TOKENIZERS[name]
