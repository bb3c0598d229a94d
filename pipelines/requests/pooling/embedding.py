"""The request body of embeddings, and the fields that select how numbers are encoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import FiniteFloat, StrictStr

from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import MAX_TOKEN_ID, Items, Whole, check
from pipelines.requests.fields.known_fields import Refused
from pipelines.requests.pooling.input_request import InputRequest
from pipelines.requests.pooling.unsupported_fields import (
    IGNORED,
    IGNORED_EMBEDDING,
    REFUSED,
    REFUSED_EMBEDDING,
)
from pipelines.values.tasks import PoolingInput

Dimensions = Annotated[
    Whole, check(lambda n: 0 <= n <= MAX_TOKEN_ID, "{name} must be non-negative, got {got}.")
]
"""Which sizes are allowed is checked by the model's graph."""


PURPOSES = {"query": "search_query", "passage": "search_document", "document": "search_document"}
"""An `input_type` of NVIDIA's and Voyage's clients → Cohere's name for it."""

MAX_IN_HEADER = 512
"""Most vectors whose offsets fit into a header of 64 KiB, the limit of common clients."""


class EncodedRequest(InputRequest):
    """Selects the encoding of the numbers; `embed_dtype` and `endianness` apply to bytes and base64."""

    encoding_format: Literal["float", "base64", "bytes", "bytes_only"] | None = None
    embed_dtype: Literal["float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2"] | None = None
    endianness: Literal["native", "little", "big"] | None = None

    def pooling_input(self) -> PoolingInput:
        pooling_input = super().pooling_input()
        num_texts = len(pooling_input.prompts) + len(pooling_input.conversations)
        if self.encoding_format == "bytes" and num_texts > MAX_IN_HEADER:
            raise RequestError(
                f"`bytes` sends the offset of each vector in a header, which holds at most {MAX_IN_HEADER}; "
                f"got {num_texts} texts; use `bytes_only`, or send fewer texts",
                field="encoding_format",
            )
        return pooling_input


class EmbeddingRequest(EncodedRequest):
    """The request body of embeddings."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_EMBEDDING
    ignored: ClassVar[Mapping[str, str]] = IGNORED | IGNORED_EMBEDDING

    dimensions: Dimensions | None = None
    input_type: StrictStr | None = None
    embedding_kinds: Annotated[Items[StrictStr], check(len, "{name} must name at least one")] | None = None
    sparse_format: Literal["indices", "ids", "tokens", "list"] | None = None
    sparse_top_k: (
        Annotated[Whole, check(lambda n: n >= 1, "{name} must be at least 1, got {got}.")] | None
    ) = None
    sparse_threshold: FiniteFloat | None = None

    def shared_fields(self) -> dict[str, Any]:
        purpose = None if self.input_type is None else PURPOSES.get(self.input_type, self.input_type)
        kinds = tuple(dict.fromkeys(self.embedding_kinds or ()))
        return super().shared_fields() | {
            "dimensions": self.dimensions,
            "purpose": purpose,
            "results": kinds,
        }

    def pooling_input(self) -> PoolingInput:
        """Raises RequestError for bytes of several kinds, and for options of kinds that are not named."""
        if self.embedding_kinds and self.encoding_format in ("bytes", "bytes_only"):
            raise RequestError(
                "bytes are vectors of one kind: leave `embedding_kinds` out", "encoding_format"
            )
        for name in ("sparse_format", "sparse_top_k", "sparse_threshold"):
            if getattr(self, name) is not None and not self.embedding_kinds:
                raise RequestError(f"`{name}` goes with `embedding_kinds`", name)
        return super().pooling_input()
