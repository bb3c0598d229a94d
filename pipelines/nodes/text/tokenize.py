"""The tokenize node: prompts → token ids.

Knows requests and a tokenizer; knows nothing of HTTP or of how tokens are computed.
"""

from __future__ import annotations

from pipelines.errors import RequestError
from pipelines.nodes.interface import Running
from pipelines.nodes.text.text_reader import kept_tokens
from pipelines.nodes.text.tokenizing import Tokenizing, check_given
from pipelines.nodes.text.truncation import cut
from pipelines.tasks import GenerationInput, PoolingInput
from pipelines.values import Prompt, Tokens

PROMPT_TAIL_TOKENS = 64
"""The last tokens of a prompt in token ids are decoded for parsers, which read only how a prompt ends."""


class Tokenize(Tokenizing):
    """Turns prompts into token ids; ids that the client made pass through."""

    def run(self, call: Running, prompts: list[Prompt]) -> list[Tokens]:
        if isinstance(call.request, PoolingInput):
            return self.whole(call.request, prompts)
        return self.begun(call.request, prompts)

    def begun(self, request: GenerationInput, prompts: list[Prompt]) -> list[Tokens]:
        """The tokens of prompts that a generative model continues.  Raises RequestError."""
        check_given(prompts)
        if request.truncate_prompt_tokens is None:
            self.check_length(prompts, "prompt" if request.messages is None else "messages")
        bad_words = self.spellings(request.bad_words)
        reply_text = self.read(request.completion_ids) if request.parse_reasoning else ""
        return [
            Tokens(
                self.cut(self.ids(each) + request.completion_ids, request),
                bad_words,
                prompt_text=self.prompt_text(each, request),
                reply_text=reply_text,
            )
            for each in prompts
        ]

    def prompt_text(self, prompt: Prompt, request: GenerationInput) -> str:
        """The prompt's text; of ids its end, where parsers of reasoning read it."""
        if prompt.ids is None:
            return prompt.text or ""
        return self.read(prompt.ids[-PROMPT_TAIL_TOKENS:]) if request.parse_reasoning else ""

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
