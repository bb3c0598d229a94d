"""The tokenize_pairs node: pairs of a query and a document → token ids, as a cross-encoder reads them."""

from __future__ import annotations

from pydantic import Field

from graphs.node import FilePath
from pipelines.base.errors import RequestError
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.text.templates.chat_template import (
    read_template,
    special_tokens,
    tokenizer_config,
)
from pipelines.nodes.text.templates.jinja_template import Template
from pipelines.nodes.text.templates.request_template import RequestTemplate
from pipelines.nodes.text.tokenizing.pairs import FramedPairs, Pair, RenderedPairs
from pipelines.nodes.text.tokenizing.tokenize import TokenizerNode
from pipelines.values.node_values import Tokens
from pipelines.values.tasks import PoolingInput


class TokenizePairs(TokenizerNode):
    """Turns each pair of a query and a document into the ids of one text; a request without pairs is
    tokenized as single texts.
    """

    class Config(TokenizerNode.Config):
        template: FilePath | None = Field(
            default=None,
            description="a .jinja file that writes a pair as one text: messages of roles query, document",
        )
        instruction: str | None = Field(
            default=None, description="the template's variable of this name; a request's own wins"
        )
        query_prompt: str = Field(
            default="", description="text before each query, as the model was trained; beside no template"
        )
        max_allowed_chunks: int = Field(
            default=10000,
            ge=1,
            description="most parts of all documents together, when long documents are scored in parts",
        )

    def load(self, resources: Loading) -> None:
        super().load(resources)
        path = self.config.template
        self.template: Template | None = resources.shared(read_template, self.folder / path) if path else None
        self.special_tokens = special_tokens(tokenizer_config(self.path.with_name("tokenizer_config.json")))

    def run(self, call: Running, request: PoolingInput) -> list[Tokens]:
        if not request.pairs:
            return self.whole(request, request.prompts)
        pairs = self.texts(request)
        encoding = self.encoding(request)
        if request.chunk:
            return self.chunks(pairs, encoding)
        return encoding.whole(pairs, self.max_tokens(request), request.truncate_left)

    def texts(self, request: PoolingInput) -> list[Pair]:
        """The pairs' texts, each cut to the tokens that it may have.  Raises RequestError."""
        if any(prompt.text is None for pair in request.pairs for prompt in pair):
            raise RequestError("a query and a document are texts, not token ids")
        before = "" if self.template_for(request) else self.config.query_prompt
        pairs = [(before + (query.text or ""), document.text or "") for query, document in request.pairs]
        limits = (request.max_query_tokens, request.max_document_tokens)
        if not any(limits):
            return pairs
        wanted = {sized_text for pair in pairs for sized_text in zip(pair, limits, strict=True)}
        cut = {sized_text: self.reader.cut_text(*sized_text) for sized_text in wanted}
        return [(cut[query, limits[0]], cut[document, limits[1]]) for query, document in pairs]

    def encoding(self, request: PoolingInput) -> FramedPairs | RenderedPairs:
        """How pairs become token ids for this model."""
        special = request.pairs[0][0].add_special_tokens
        template = self.template_for(request)
        if template is None:
            return FramedPairs(self.reader, special)
        instruction = request.instruction or self.config.instruction
        named = {} if instruction is None else {"instruction": instruction}
        return RenderedPairs(self.reader, special, template, named | request.template_kwargs)

    def template_for(self, request: PoolingInput) -> Template | RequestTemplate | None:
        """The request's own template, the node's, or none."""
        if request.chat_template is None:
            return self.template
        return RequestTemplate(request.chat_template, self.special_tokens)

    def chunks(self, pairs: list[Pair], encoding: FramedPairs | RenderedPairs) -> list[Tokens]:
        """The parts of all documents.  Raises RequestError where the graph allows fewer."""
        limit = self.config.max_allowed_chunks
        if len(pairs) > limit:
            raise RequestError("Number of documents exceeds max_allowed_chunks", "documents")
        chunks = encoding.chunks(pairs)
        if len(chunks) > limit:
            raise RequestError(
                "Chunking failed: exceeding max_allowed_chunks after chunking "
                f"limit: {limit}; actual: {len(chunks)}",
                "documents",
            )
        return chunks
