"""The body of vLLM's generative_scoring: a query, items, and the tokens that are scored."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StrictStr, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import (
    CacheSalt,
    Items,
    ListedIds,
    Priority,
    RequestId,
    TokenIds,
    at_most,
)
from pipelines.requests.fields.known_fields import check_fields

MAX_ITEMS = 1024

TextOrIds = StrictStr | TokenIds


class GenerativeScoringRequest(DeferredModel):
    """Each prompt is the query and an item; with `item_first` the item and the query.

    `add_special_tokens` is for the query alone.
    """

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    model: StrictStr | None = None
    query: TextOrIds
    items: Annotated[Items[TextOrIds], Field(min_length=1), at_most(MAX_ITEMS, "items")]
    label_token_ids: Annotated[ListedIds, Field(min_length=1)]
    apply_softmax: bool = True
    item_first: bool = False
    add_special_tokens: bool = True
    cache_salt: CacheSalt | None = None
    priority: Priority | None = None
    request_id: RequestId | None = None

    @model_validator(mode="after")
    def _check_fields(self) -> GenerativeScoringRequest:
        """Raises RequestError."""
        check_fields(self.model_extra or {}, type(self).model_fields)
        if "" in (self.query, *self.items) or [] in (self.query, *self.items):
            raise RequestError("`query` and `items` must not be empty", field="items")
        return self
