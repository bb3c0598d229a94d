"""The request body of POST pooling, with the check of its task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pipelines.base.errors import RequestError
from pipelines.requests.fields.known_fields import Refused
from pipelines.requests.pooling.embedding import EncodedRequest
from pipelines.requests.pooling.entities import EntityFields
from pipelines.requests.pooling.unsupported_fields import REFUSED, REFUSED_POOLING

Task = Literal["embed", "classify", "token_embed", "token_classify", "plugin", "embed&token_classify"]
NAMES = {
    "embed": "embed",
    "token_embed": "token_embed",
    "classify": "classify",
    "token_classify": "token_classify",
    "entities": "token_classify",
    "rerank": "classify",
}
"""Task of a graph → vLLM's name for it in this API."""
FAMILIES = (("embed", "token_embed"), ("classify", "token_classify"))
"""Tasks that the same model could do, per text or per token; a graph does one of them."""


class PoolingRequest(EncodedRequest, EntityFields):
    """The request body of POST pooling."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_POOLING

    task: Task | None = None

    def shared_fields(self) -> dict[str, Any]:
        return super().shared_fields() | {"wanted": self.wanted()}

    def check_task(self, task: str, has_tokens: bool = False) -> None:
        """Raise RequestError when a graph with `task` does not do the requested task; `has_tokens`: it gives
        vectors of tokens beside those of texts.
        """
        own = NAMES[task]
        if self.task in (None, own) or (has_tokens and self.task == "token_embed"):
            return
        if self.task == "plugin":
            raise RequestError(REFUSED_POOLING["data"].reason, field="task")
        (family,) = (family for family in FAMILIES if own in family)
        if self.task in family:
            raise RequestError(
                f"Try switching the model's pooling_task via --pooler-config.task {self.task}.", field="task"
            )
        raise RequestError(f"Unsupported task: '{self.task}' Supported tasks: {list(family)}", field="task")
