"""The tokenize node: prompts → token ids; and what the nodes with a tokenizer have in common."""

from __future__ import annotations

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.errors import ContextTooLong, RequestError
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.text.tokenizing.text_reader import TextReader, cut, max_prompt_tokens
from pipelines.nodes.text.tokenizing.tokenizer import longest_token, open_tokenizer
from pipelines.tasks import GenerationInput, PoolingInput
from pipelines.values import Prompt, Tokens

SLACK = 4
"""A token represents at most this multiple of the longest token's characters: normalizers drop some."""


class TokenizerNode(Node):
    """A node with a tokenizer, which is the graph's tokenizer for endpoints too."""

    class Config(NodeConfig):
        tokenizer: FilePath = Field(description="a tokenizer.json")

    def load(self, resources: Loading) -> None:
        self.path = self.folder / self.config.tokenizer
        self.tokenizer = resources.shared(open_tokenizer, self.path)
        self.max_context = resources.max_context
        self.max_chars = self.max_context * longest_token(self.tokenizer) * SLACK
        self.reader = TextReader(self.tokenizer, self.max_context, self.max_chars)

    def whole(self, request: PoolingInput, prompts: list[Prompt]) -> list[Tokens]:
        """The tokens of texts for an embedding or pooling model.  Raises RequestError."""
        check_given(prompts)
        return self.reader.read(prompts, self.max_tokens(request), request.truncate_left)

    def max_tokens(self, request: PoolingInput) -> int | None:
        """To how many tokens the request has its texts cut; None: not cut.  Raises RequestError."""
        return max_prompt_tokens(request, self.max_context, self.max_context)

    def ids(self, prompt: Prompt) -> list[int]:
        """All tokens of one prompt."""
        if prompt.ids is not None:
            return prompt.ids
        special = prompt.add_special_tokens
        ids: list[int] = self.tokenizer.encode_batch_fast([prompt.text], add_special_tokens=special)[0].ids
        return ids  # encoded as a batch of one, which releases the GIL


def check_given(prompts: list[Prompt]) -> None:
    """Raise RequestError where the graph made no prompt of a conversation."""
    if not prompts:
        raise RequestError("this model takes raw prompts: its graph lacks a chat_template", "messages")


PROMPT_TAIL_TOKENS = 64
"""The last tokens of a prompt in token ids are decoded for parsers, which read only how a prompt ends."""


class Tokenize(TokenizerNode):
    """Turns prompts into token ids; ids that the client made pass through."""

    def run(self, call: Running, prompts: list[Prompt]) -> list[Tokens]:
        if isinstance(call.request, PoolingInput):
            return self.whole(call.request, prompts)
        return self.to_continue(call.request, prompts)

    def to_continue(self, request: GenerationInput, prompts: list[Prompt]) -> list[Tokens]:
        """The tokens of prompts that a generative model continues.  Raises RequestError."""
        check_given(prompts)
        if request.truncate_prompt_tokens is None:
            self.check_length(prompts, "prompt" if request.messages is None else "messages")
        bad_words = self.spellings(request.bad_words)
        reply_text = self.read(request.completion_ids) if request.parse_reasoning else ""
        return [
            Tokens(
                self.truncated(self.ids(each) + request.completion_ids, request),
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
        """Raise RequestError for text that cannot fit, before it is encoded, which takes seconds."""
        longest = max(len(prompt.text or "") for prompt in prompts)
        if longest > self.max_chars > 0:
            raise ContextTooLong(
                f"You passed {longest} input characters. However, the model's context length is only "
                f"{self.max_context} tokens (at most {self.max_chars} characters). "
                "Please reduce the length of the input prompt.",
                field,
            )

    def truncated(self, ids: list[int], request: GenerationInput) -> list[int]:
        """The tokens of a prompt, cut as the request sets it."""
        most = max_prompt_tokens(request, self.max_context, self.max_context - 1)
        return cut(ids, most, request.truncate_left)

    def read(self, ids: list[int]) -> str:
        """The text of ids for parsers, special tokens included."""
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
