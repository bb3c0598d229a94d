"""The tokenize node: prompts → token ids.

Knows requests and a tokenizer; knows nothing of HTTP or of how tokens are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.errors import RequestError
from pipelines.nodes.text.text_reader import kept_tokens
from pipelines.nodes.text.tokenizing import Tokenizing, check_given
from pipelines.nodes.text.truncation import cut
from pipelines.tasks import GenerationInput, PoolingInput
from pipelines.values import Prompt, Tokens

if TYPE_CHECKING:
    from pipelines.worker.call import Call


PROMPT_TAIL_TOKENS = 64
"""Of a chat prompt in token ids so many are read as text: parsers ask only how a prompt ends."""


class Tokenize(Tokenizing):
    """Turns prompts into token ids; ids that the client made pass through."""

    def run(self, call: Call, prompts: list[Prompt]) -> list[Tokens]:
        if isinstance(call.request, PoolingInput):
            return self.whole(call.request, prompts)
        return self.begun(call, call.request, prompts)

    def begun(self, call: Call, request: GenerationInput, prompts: list[Prompt]) -> list[Tokens]:
        """The tokens of prompts that the model goes on with.  Raises RequestError."""
        check_given(prompts)
        if request.truncate_prompt_tokens is None:
            self.check_length(prompts, "prompt" if request.messages is None else "messages")
        call.prompt_ids = [self.cut(self.ids(each) + request.completion_ids, request) for each in prompts]
        if request.parse_reasoning:
            call.prompt_text += self.read((prompts[0].ids or [])[-PROMPT_TAIL_TOKENS:])
            call.reply_text = self.read(request.completion_ids)
        bad_words = self.spellings(request.bad_words)
        return [Tokens(ids, bad_words) for ids in call.prompt_ids]

    def check_length(self, prompts: list[Prompt], field: str) -> None:
        """Raise RequestError for text that cannot fit, before it is read for seconds."""
        longest = max(len(prompt.text or "") for prompt in prompts)
        if longest > self.max_chars > 0:
            raise RequestError(
                f"You passed {longest} input characters. However, the model's context length is only "
                f"{self.max_context} tokens (at most {self.max_chars} characters). "
                "Please reduce the length of the input prompt.",
                field,
            )

    def cut(self, ids: list[int], request: GenerationInput) -> list[int]:
        """At most the tokens that the request wants kept of a prompt."""
        return cut(ids, kept_tokens(request, self.max_context, self.max_context - 1), request.truncate_left)

    def read(self, ids: list[int]) -> str:
        """The text of ids, for parsers: with the marks that are special tokens."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False) if ids else ""
        return text

    def spellings(self, words: list[str]) -> list[list[int]]:
        """Each word as it is tokenized at the start of a text and after a space (vLLM's rule)."""
        found = []
        for word in words:
            for spelling in (word.lstrip(), " " + word.lstrip()):
                ids = self.tokenizer.encode(spelling, add_special_tokens=False).ids
                if ids and ids not in found:
                    found.append(ids)
        return found
