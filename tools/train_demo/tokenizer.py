"""The demo model's tokenizer: byte-level BPE with single digits; a new word is the same tokens in all places.

A space and the word behind it are one token only where the whole word is in the vocabulary. Any other
word is the same tokens after a space, after a quotation mark and at the beginning, so that it can be copied.

The template's two long passages about tools are one token each, so that declaring a tool costs the
tool alone. Thinking and tool tags are tokens but not special: they stay in decoded text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .rendering import render

PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (PAD, TURN_START, TURN_END)
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
PIECES = "|".join(
    [
        r"'(?:s|m|t|re|ve|ll|d)",
        r" ?[\p{Ll}\p{Lo}\p{Lm}]+",
        r"\p{Lu}\p{Ll}*",  # a name is the same tokens after a space and after a quotation mark
        r"\p{L}+",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}]+",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
SPACE_AND_LETTER = re.compile(r"Ġ[^\W\d_]")


def train_tokenizer(texts: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """A tokenizer of `vocabulary_size` tokens, added ones included, that covers any bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kept_tags = [AddedToken(tag, special=False, normalized=False) for tag in (*TAGS, *tool_passages())]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size - len(SPECIAL) - len(kept_tags),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_without_tags(texts), trainer)
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens(kept_tags)
    return with_spaces_apart(tokenizer)


def with_spaces_apart(tokenizer: Tokenizer) -> Tokenizer:
    """The same vocabulary, where a space never joins a part of a word."""
    state = json.loads(tokenizer.to_str())
    model = state["model"]
    model["ignore_merges"] = True  # what is in the vocabulary as a whole stays whole
    model["merges"] = [pair for pair in model["merges"] if not SPACE_AND_LETTER.match("".join(pair))]
    return Tokenizer.from_str(json.dumps(state))


def tool_passages() -> tuple[str, str]:
    """The text of the template before and after the declared tools."""
    before, after = render([{"role": "user", "content": ""}], [{}]).split("\n{}\n")
    return before.removeprefix(f"{TURN_START}system\n"), after.split(TURN_END)[0]


def save_tokenizer(tokenizer: Tokenizer, folder: Path, max_tokens: int) -> None:
    """Writes `tokenizer.json` and the settings that go with it."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": TURN_END,
        "pad_token": PAD,
        "additional_special_tokens": [TURN_START, TURN_END],
        "model_max_length": max_tokens,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def _without_tags(texts: Iterable[str]) -> Iterable[str]:
    """The texts between added tokens, on which the BPE is trained."""
    added = re.compile("|".join(map(re.escape, (*tool_passages(), *SPECIAL, *TAGS))))
    for text in texts:
        yield from added.split(text)
