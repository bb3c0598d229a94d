"""What every body for vectors, classes or scores may hold: checked fields → how `tasks.PoolingInput` is read.

Every declared field is honoured, `cache_salt` by keeping nothing of a text; the others are looked up in
`fields.py`.  Knows nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, StrictBool, StrictStr, model_validator

from pipelines.tasks import PoolingInput
from server.generation.requests.field_types import CacheSalt, KeptTokens, Priority, RequestId
from server.generation.requests.known_fields import Refused, check_fields
from server.pooling.requests.unsupported_fields import IGNORED, REFUSED


class PooledRequest(BaseModel):
    """The fields that all these endpoints share.  Null means: not set."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    refused: ClassVar[Mapping[str, Refused]] = REFUSED
    ignored: ClassVar[Mapping[str, str]] = IGNORED

    model: StrictStr | None = None
    truncate_prompt_tokens: KeptTokens | None = None
    truncation_side: Literal["left", "right"] | None = None
    use_activation: StrictBool | None = None
    request_id: RequestId | None = None
    priority: Priority | None = None
    cache_salt: CacheSalt | None = None

    @model_validator(mode="after")
    def _know_every_field(self) -> PooledRequest:
        """Raises RequestError."""
        check_fields(self.model_extra or {}, type(self).model_fields, self.refused, self.ignored)
        return self

    @property
    def compiles(self) -> bool:
        """Whether it brings a template, which may take long to look at however short it is."""
        return getattr(self, "chat_template", None) is not None

    def pooling(self) -> PoolingInput:
        """What is asked of the model.  Raises RequestError."""
        raise NotImplementedError

    def shared(self) -> dict[str, Any]:
        """Fields of `tasks.PoolingInput` that every endpoint sets alike."""
        return {
            "truncate_prompt_tokens": self.truncate_prompt_tokens,
            "truncate_left": self.truncation_side == "left",
            "activate": self.use_activation is not False,
            "priority": self.priority or 0,
        }
