"""Lists of models in Anthropic's shape, for clients that send its header."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from pipelines.base.errors import RequestError
from server.schema.anthropic_errors import AllFieldsReply
from server.schema.model_list import ModelInfo

VERSION_HEADER = "anthropic-version"
"""Every client of Anthropic's API sends it."""
DEFAULT_LIMIT, MAX_LIMIT = 20, 1000


class AnthropicModel(AllFieldsReply):
    """`max_tokens` is the same as `max_input_tokens`: a prompt and its reply share the context."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"] = "active"
    max_input_tokens: int | None
    max_tokens: int | None


class AnthropicModels(AllFieldsReply):
    data: list[AnthropicModel]
    has_more: bool
    first_id: str | None
    last_id: str | None


def anthropic_model(model: ModelInfo) -> AnthropicModel:
    context = model.max_model_len or None
    return AnthropicModel(
        id=model.id,
        display_name=model.id,
        created_at=datetime.fromtimestamp(model.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_input_tokens=context,
        max_tokens=context,
    )


def anthropic_models(
    models: Sequence[ModelInfo], limit: int | None, after: str | None, before: str | None
) -> AnthropicModels:
    """A page of the list: the first behind the model `after`, or the last in front of the model `before`.

    Raises RequestError.
    """
    limit = DEFAULT_LIMIT if limit is None else limit
    if not 1 <= limit <= MAX_LIMIT:
        raise RequestError(f"`limit` must be from 1 to {MAX_LIMIT}, got {limit}", field="limit")
    names = [model.id for model in models]
    begin = names.index(after) + 1 if after in names else 0
    end = names.index(before) if before in names else len(names)
    page = models[begin:end][-limit:] if before in names else models[begin:end][:limit]
    return AnthropicModels(
        data=[anthropic_model(model) for model in page],
        has_more=len(page) < max(end - begin, 0),
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
    )
