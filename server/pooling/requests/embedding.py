"""The body of embeddings, and the fields that say how numbers are sent.

Knows nothing of HTTP or of how a reply looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pipelines.errors import RequestError
from pipelines.tasks import PoolingInput
from server.generation.requests.field_types import MAX_TOKEN_ID, Whole, check
from server.generation.requests.known_fields import Refused
from server.pooling.requests.inputs import InputRequest
from server.pooling.requests.unsupported_fields import REFUSED, REFUSED_EMBEDDING

Dimensions = Annotated[
    Whole, check(lambda n: 0 <= n <= MAX_TOKEN_ID, "{name} must be non-negative, got {got}.")
]
"""What the model allows is said by the model."""


MAX_IN_HEADER = 512
"""A header that tells where more vectors lie is longer than the 64 KiB that clients read."""


class EncodedRequest(InputRequest):
    """How the numbers of a reply are written; `embed_dtype` and `endianness` are for bytes and base64."""

    encoding_format: Literal["float", "base64", "bytes", "bytes_only"] | None = None
    embed_dtype: Literal["float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2"] | None = None
    endianness: Literal["native", "little", "big"] | None = None

    def pooling(self) -> PoolingInput:
        asked = super().pooling()
        num_texts = len(asked.prompts) + len(asked.conversations)
        if self.encoding_format == "bytes" and num_texts > MAX_IN_HEADER:
            raise RequestError(
                f"`bytes` says in a header where each vector lies, of {MAX_IN_HEADER} at most, got "
                f"{num_texts}; ask for `bytes_only`, or send fewer texts",
                field="encoding_format",
            )
        return asked


class EmbeddingRequest(EncodedRequest):
    """The body of embeddings."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_EMBEDDING

    dimensions: Dimensions | None = None

    def shared(self) -> dict[str, Any]:
        return super().shared() | {"dimensions": self.dimensions}
