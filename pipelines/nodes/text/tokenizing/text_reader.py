"""Whole texts → token ids for embedding and pooling models; long ones are truncated or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from tokenizers import Tokenizer

from pipelines.base.errors import ContextTooLong, RequestError
from pipelines.inference.engine.batching.text_checks import too_long
from pipelines.nodes.text.tokenizing.long_text import PIECE_CHARS, LongTextReader
from pipelines.nodes.text.tokenizing.tokenizer import TokenizerFrame, longest_token
from pipelines.values.node_values import Prompt, Tokens
from pipelines.values.tasks import PromptInput

MAX_WINDOW_TOKENS = 4_000_000
"""The most tokens of all windows of a request."""
SLACK = 4
"""A token represents at most this multiple of the longest token's characters: normalizers drop some."""
FEW_CHARS = 1 << 14
"""Texts of fewer characters together are encoded one after the other, in the calling thread: those on all
cores wait for all that other requests have there."""


class TextReader:
    """A tokenizer, and how many tokens of a text a model takes.

    `max_context` counts special tokens, `max_chars` is what can be that many tokens at most; 0: no bound.
    """

    def __init__(self, tokenizer: Tokenizer, max_context: int) -> None:
        self.tokenizer = tokenizer
        self.max_context = max_context
        self.chars_per_token = longest_token(tokenizer) * SLACK
        self.max_chars = max_context * self.chars_per_token

    @cached_property
    def frames(self) -> dict[tuple[int, bool], TokenizerFrame]:
        """What the tokenizer puts around one or two texts, with special tokens or without."""
        return {
            (num_texts, special): TokenizerFrame.learned(self.tokenizer, num_texts, special)
            for num_texts in (1, 2)
            for special in (False, True)
        }

    def read(self, prompts: Sequence[Prompt], most: int | None, left: bool) -> list[Tokens]:
        """Each prompt's tokens, cut to `most` with its special tokens (None: not cut).

        Ids that the client made get no special tokens.  Raises RequestError.
        """
        if most is None:
            self.refuse_long_texts([prompt.text for prompt in prompts if prompt.text is not None])
        texts = [prompt.text for prompt in prompts if prompt.text is not None]
        encoded = iter(self.encode(texts, most or self.max_context or None, most is not None and left))
        return [
            self.cut_ids(of, prompt.ids, most, left)
            if prompt.ids is not None
            else self.framed(of, next(encoded), prompt.add_special_tokens, most, left)
            for of, prompt in enumerate(prompts)
        ]

    def windows(self, prompts: Sequence[Prompt], stride: int) -> list[Tokens]:
        """The tokens of each text, of one that is longer than the model takes in windows: neighbours have
        `stride` tokens in common.  Raises RequestError for token ids, and for a stride that is too large.
        """
        if any(prompt.text is None for prompt in prompts):
            raise RequestError("windows are of texts; send the text, not token ids", "input")
        windows: list[Tokens] = []
        num_tokens = 0
        for of, ids in enumerate(self.encode([prompt.text or "" for prompt in prompts])):
            frame = self.frames[1, prompts[of].add_special_tokens]
            size = self.max_context - frame.num_special if self.max_context else max(len(ids), 1)
            if self.max_context and stride >= size:
                raise RequestError(
                    f"must be less than {size}, the tokens of a window, got {stride}", "stride"
                )
            starts = range(0, max(len(ids) - stride, 1), size - stride) if len(ids) > size else range(1)
            num_tokens += len(starts) * min(size, len(ids))
            if num_tokens > MAX_WINDOW_TOKENS:
                raise RequestError(
                    f"the windows of all texts have more than {MAX_WINDOW_TOKENS} tokens; choose a smaller "
                    "stride, or send the texts in several requests",
                    "stride",
                )
            windows += [
                replace(self.checked(of, *frame.around(ids[start : start + size])), start=start)
                for start in starts
            ]
        return windows

    def encode(self, texts: list[str], most: int | None = None, left: bool = False) -> list[list[int]]:
        """Each text's ids without special tokens; uses all cores and releases the GIL.

        Of a long text only those that are left when it is cut to `most` must be right, and whether there are
        more; `left`: it is cut at its left end.
        """
        if sum(map(len, texts)) <= FEW_CHARS:
            return [ids for text in texts for ids in self._batch([text])]
        batch = iter(self._batch([text for text in texts if len(text) <= PIECE_CHARS]))
        return [
            next(batch) if len(text) <= PIECE_CHARS else self.encode_long(text, most, left) for text in texts
        ]

    def _batch(self, texts: list[str]) -> list[list[int]]:
        encodings = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def encode_long(self, text: str, most: int | None, left: bool) -> list[int]:
        """The ids of a text that is read in pieces, as `encode` gives them."""
        reader = LongTextReader(self.tokenizer, text)
        if most is None or not left:
            return reader.ids(most)
        ids = reader.last_ids(most * self.chars_per_token)
        return ids if len(ids) >= most else reader.ids()

    def cut_text(self, text: str, most: int | None) -> str:
        """The longest beginning of a text that ends at a token's end and has at most `most` tokens."""
        matters = (most or 0) * self.chars_per_token + PIECE_CHARS
        return cut_text(self.tokenizer, text[:matters] if most else text, most)

    def framed(self, of: int, ids: list[int], special: bool, most: int | None, left: bool) -> Tokens:
        """A text's own ids with what the tokenizer puts around them, cut before that and checked after."""
        frame = self.frames[1, special]
        size = None if most is None else max(most - frame.num_special, 0)
        return self.checked(of, *frame.around(cut(ids, size, left)))

    def cut_ids(self, of: int, ids: list[int], most: int | None, left: bool) -> Tokens:
        ids = cut(ids, most, left)
        self.check_size(ids)
        return self.checked(of, ids, types=None)

    def check_size(self, ids: list[int]) -> None:
        """Raises RequestError for more than the model takes."""
        if len(ids) > self.max_context > 0:
            raise too_long(self.max_context, str(len(ids)))

    def checked(self, of: int, ids: list[int], types: list[int] | None) -> Tokens:
        """Raises RequestError for no token, and for more than the model takes."""
        if not ids:
            raise RequestError("The decoder prompt cannot be empty")
        if len(ids) > self.max_context > 0:
            raise too_long(self.max_context, f"at least {self.max_context + 1}")
        return Tokens(ids, types=types, of=of)

    def refuse_long_texts(self, texts: list[str]) -> None:
        """Raise RequestError for text that cannot fit, before it is encoded, which takes seconds."""
        longest = max(map(len, texts), default=0)
        if longest > self.max_chars > 0:
            raise ContextTooLong(
                f"This model's maximum context length is {self.max_context} tokens. However, your prompt "
                f"contains {longest} characters (more than {self.max_chars} characters, which is the upper "
                f"bound for {self.max_context} input tokens). Please reduce the length of the input prompt.",
                "input_text",
            )


def max_prompt_tokens(request: PromptInput, max_context: int, all_tokens: int) -> int | None:
    """The tokens to which the request has a prompt cut, None: not cut; -1 in the request means `all_tokens`.

    Raises RequestError.
    """
    size = request.truncate_prompt_tokens
    if size is None:
        return None
    if size < -1 or size == 0:
        raise RequestError("truncate_prompt_tokens must be -1, or at least 1", "truncate_prompt_tokens")
    if size > max_context > 0:
        raise RequestError(
            "truncate_prompt_tokens value is greater than max_model_len. "
            "Please request a smaller truncation size.",
            "truncate_prompt_tokens",
        )
    size = size if size > 0 else all_tokens
    return size if size > 0 else None


def cut(ids: list[int], most: int | None, left: bool) -> list[int]:
    """At most `most` ids, cut at the left or right end; None: not cut."""
    if most is None or len(ids) <= most:
        return ids
    return ids[len(ids) - most :] if left else ids[:most]


def pair_lengths(first: int, second: int, most: int) -> tuple[int, int]:
    """The tokens to which the texts of a pair are cut, together at most `most`: the longer one first.

    As `longest_first` of `tokenizers` (truncation.rs): both get the same length once both are cut, and an odd
    token goes to the longer one.
    """
    short, long = sorted((first, second))
    if short + long > most:
        long = max(short, most - short)
    if short + long > most:
        short = most // 2
        long = most - short
    return (long, short) if first > second else (short, long)


def parts(ids: list[int], size: int) -> list[list[int]]:
    """The ids in lists of at most `size`, in order; an empty list is one part."""
    return [ids[start : start + size] for start in range(0, max(len(ids), 1), size)]


def cut_text(tokenizer: Tokenizer, text: str, most: int | None) -> str:
    """The longest beginning of a text that ends at a token's end and has at most `most` tokens.

    vLLM's rule for the texts of a pair; None or 0: not cut.  Where the beginning of a word is encoded in more
    tokens than the whole word, the text is cut again.
    """
    while most and text:
        encoding = tokenizer.encode_batch([text], add_special_tokens=False)[0]  # a batch releases the GIL
        if len(encoding.ids) <= most:
            break
        end = min(encoding.offsets[most - 1][1], encoding.offsets[most][0])
        text = text[: min(end, len(text) - 1)]
    return text


def text_parts(tokenizer: Tokenizer, text: str, size: int | None) -> list[str]:
    """The text in parts of about `size` tokens, which joined are the text; None: one part.

    A character whose bytes are several tokens is in one part, so that a part can have a few tokens more.
    """
    if size is None:
        return [text]
    offsets = tokenizer.encode_batch([text], add_special_tokens=False)[0].offsets
    starts = [0, *(offset[0] for offset in offsets[size::size]), len(text)]
    return [text[start:end] for start, end in pairwise(starts) if end > start] or [text]
