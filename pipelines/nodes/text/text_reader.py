"""Whole texts → token ids that a model can read: encoded together, cut as asked, refused where too long.

For models that read a text and write none.  Knows nothing of graphs or of pairs' rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tokenizers import Tokenizer

from pipelines.errors import RequestError
from pipelines.host.engine.batching.text_checks import too_long
from pipelines.nodes.text.tokenizer_frame import Frame
from pipelines.nodes.text.truncation import cut
from pipelines.tasks import PromptInput
from pipelines.values import Prompt, Tokens


class TextReader:
    """A tokenizer, and how many tokens of a text a model reads.

    `max_context` counts special tokens, `max_chars` is what can be that many tokens at most; 0: no bound.
    """

    def __init__(self, tokenizer: Tokenizer, max_context: int, max_chars: int) -> None:
        self.tokenizer = tokenizer
        self.max_context = max_context
        self.max_chars = max_chars

    @cached_property
    def frames(self) -> dict[tuple[int, bool], Frame]:
        """What stands around one or two texts, with special tokens or without."""
        return {
            (num_texts, special): Frame.learned(self.tokenizer, num_texts, special)
            for num_texts in (1, 2)
            for special in (False, True)
        }

    def read(self, prompts: Sequence[Prompt], most: int | None, left: bool) -> list[Tokens]:
        """Each prompt's tokens; `most`, unless it is None, of a longer one are kept, its special tokens too.

        Ids that the client made get no special tokens.  Raises RequestError.
        """
        if most is None:
            self.refuse_long_texts([prompt.text for prompt in prompts if prompt.text is not None])
        encoded = iter(self.encode([prompt.text for prompt in prompts if prompt.text is not None]))
        return [
            self.cut_ids(of, prompt.ids, most, left)
            if prompt.ids is not None
            else self.framed(of, next(encoded), prompt.add_special_tokens, most, left)
            for of, prompt in enumerate(prompts)
        ]

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Each text's ids without special tokens, by all cores; the GIL is released."""
        encodings = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False) if texts else []
        return [encoding.ids for encoding in encodings]

    def framed(self, of: int, ids: list[int], special: bool, most: int | None, left: bool) -> Tokens:
        """A text's own ids with what the tokenizer puts around them, cut before that and checked after."""
        frame = self.frames[1, special]
        room = None if most is None else max(most - frame.num_special, 0)
        return self.checked(of, *frame.around(cut(ids, room, left)))

    def cut_ids(self, of: int, ids: list[int], most: int | None, left: bool) -> Tokens:
        kept = cut(ids, most, left)
        if len(kept) > self.max_context > 0:
            raise too_long(self.max_context, str(len(kept)))
        return self.checked(of, kept, None)

    def checked(self, of: int, ids: list[int], types: list[int] | None) -> Tokens:
        """Raises RequestError for no token, and for more than the model reads."""
        if not ids:
            raise RequestError("The decoder prompt cannot be empty")
        if len(ids) > self.max_context > 0:
            raise too_long(self.max_context, f"at least {self.max_context + 1}")
        return Tokens(ids, types=types, of=of)

    def refuse_long_texts(self, texts: list[str]) -> None:
        """Raise RequestError for text that cannot fit, before it is read for seconds."""
        longest = max(map(len, texts), default=0)
        if longest > self.max_chars > 0:
            raise RequestError(
                f"This model's maximum context length is {self.max_context} tokens. However, your prompt "
                f"contains {longest} characters (more than {self.max_chars} characters, which is the upper "
                f"bound for {self.max_context} input tokens). Please reduce the length of the input prompt.",
                "input_text",
            )


def kept_tokens(request: PromptInput, max_context: int, all_tokens: int) -> int | None:
    """How many tokens of a prompt the request wants kept, None for all; its -1 stands for `all_tokens`.

    Raises RequestError.
    """
    kept = request.truncate_prompt_tokens
    if kept is None:
        return None
    if kept < -1 or kept == 0:
        raise RequestError("truncate_prompt_tokens must be -1, or at least 1", "truncate_prompt_tokens")
    if kept > max_context > 0:
        raise RequestError(
            "truncate_prompt_tokens value is greater than max_model_len. "
            "Please request a smaller truncation size.",
            "truncate_prompt_tokens",
        )
    kept = kept if kept > 0 else all_tokens
    return kept if kept > 0 else None
