"""The tokenize node: prompts → token ids; and what the nodes with a tokenizer have in common."""

from __future__ import annotations

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.errors import RequestError
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.text.tokenizing.text_reader import TextReader, cut, kept_tokens
from pipelines.nodes.text.tokenizing.tokenizer import longest_token, open_tokenizer
from pipelines.tasks import GenerationInput, PoolingInput
from pipelines.values import Prompt, Tokens

SLACK = 4
"""How many times the longest token a token may stand for: normalizers drop some characters."""


class TokenizerNode(Node):
    """A node with a tokenizer.  Whoever asks for a graph's tokenizer finds it here."""

    class Config(NodeConfig):
        tokenizer: FilePath = Field(description="a tokenizer.json")

    def load(self, resources: Loading) -> None:
        self.path = self.folder / self.config.tokenizer
        self.tokenizer = resources.shared(open_tokenizer, self.path)
        self.max_context = resources.max_context
        self.max_chars = self.max_context * longest_token(self.tokenizer) * SLACK
        self.reader = TextReader(self.tokenizer, self.max_context, self.max_chars)

    def whole(self, request: PoolingInput, prompts: list[Prompt]) -> list[Tokens]:
        """The tokens of texts that the model reads and does not go on with.  Raises RequestError."""
        check_given(prompts)
        return self.reader.read(prompts, self.kept(request), request.truncate_left)

    def kept(self, request: PoolingInput) -> int | None:
        """How many tokens of a text the request wants kept, None for all.  Raises RequestError."""
        return kept_tokens(request, self.max_context, self.max_context)

    def ids(self, prompt: Prompt) -> list[int]:
        """All tokens of one prompt."""
        if prompt.ids is not None:
            return prompt.ids
        special = prompt.add_special_tokens
        ids: list[int] = self.tokenizer.encode_batch_fast([prompt.text], add_special_tokens=special)[0].ids
        return ids  # as a batch of one, for then the GIL is released


def check_given(prompts: list[Prompt]) -> None:
    """Raise RequestError for a conversation of which nobody made a prompt."""
    if not prompts:
        raise RequestError("this model takes raw prompts: its graph lacks a chat_template", "messages")


PROMPT_TAIL_TOKENS = 64
"""The last tokens of a prompt in token ids are decoded for parsers, which read only how a prompt ends."""


class Tokenize(TokenizerNode):
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
