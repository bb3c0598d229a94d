"""What the nodes that tokenize have in common: a tokenizer, and how they read whole texts.

Knows a tokenizer and bounds; knows nothing of what comes before it in a graph, or of pairs.
"""

from __future__ import annotations

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.errors import RequestError
from pipelines.nodes.interface import Loading
from pipelines.nodes.text.text_reader import TextReader, kept_tokens
from pipelines.nodes.text.tokenizer import longest_token, open_tokenizer
from pipelines.tasks import PoolingInput
from pipelines.values import Prompt, Tokens

SLACK = 4
"""How many times the longest token a token may stand for: normalizers drop some characters."""


class Tokenizing(Node):
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
