"""The request fields that all pooling endpoints share.

Every declared field is honoured (`cache_salt` trivially: nothing is cached); other fields are in
`unsupported_fields.py`, or unknown and refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, StrictStr, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.requests.fields.field_types import CacheSalt, KeptTokens, Priority, RequestId
from pipelines.requests.fields.known_fields import Refused, check_fields
from pipelines.requests.pooling.unsupported_fields import IGNORED, REFUSED
from pipelines.values.tasks import ImageInput, PoolingInput, SoundInput


class BasePoolingRequest(DeferredModel):
    """The fields that all pooling endpoints share.  Null means: not set."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    refused: ClassVar[Mapping[str, Refused]] = REFUSED
    ignored: ClassVar[Mapping[str, str]] = IGNORED

    model: StrictStr | None = None
    truncate_prompt_tokens: KeptTokens | None = None
    truncation_side: Literal["left", "right"] | None = None
    use_activation: bool | None = None
    activation: bool | None = None
    request_id: RequestId | None = None
    priority: Priority | None = None
    cache_salt: CacheSalt | None = None

    @model_validator(mode="after")
    def _check_other_fields(self) -> BasePoolingRequest:
        """Raises RequestError."""
        if self.model_extra:
            check_fields(self.model_extra, type(self).model_fields, self.refused, self.ignored)
        return self

    @property
    def compiles(self) -> bool:
        """Whether the request has a chat template of its own, which must be compiled."""
        return getattr(self, "chat_template", None) is not None

    def pooling_input(self) -> PoolingInput:
        """The input of the pipeline.  Raises RequestError."""
        raise NotImplementedError

    @cached_property
    def shows_images(self) -> bool:
        """Whether a part of the request shows an image, if it is valid."""
        return self.find_image()

    def find_image(self) -> bool:
        """Whether the fields show an image."""
        return False

    @property
    def shown_images(self) -> list[ImageInput]:
        """The images that the request shows.  Raises RequestError."""
        return self.pooling_input().images

    @property
    def activates(self) -> bool:
        """Whether scores and vectors are activated; `activation` is vLLM's older name of the field."""
        given = self.activation if self.use_activation is None else self.use_activation
        return given is not False

    def shared_fields(self) -> dict[str, Any]:
        """The fields of `tasks.PoolingInput` that all endpoints set in the same way."""
        return {
            "truncate_prompt_tokens": self.truncate_prompt_tokens,
            "truncate_left": self.truncation_side == "left",
            "activate": self.activates,
            "priority": self.priority or 0,
        }


@dataclass(frozen=True, slots=True)
class ShownBy:
    """The images of a pooling request (`Showing`), of which a field of Cohere's has the name."""

    request: BasePoolingRequest

    @property
    def shows_images(self) -> bool:
        return self.request.shows_images

    @property
    def images(self) -> list[ImageInput]:
        return self.request.shown_images

    @property
    def sounds(self) -> list[SoundInput]:
        """None: these requests refuse them."""
        return []
