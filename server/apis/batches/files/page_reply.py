"""A page of a list of objects, as OpenAI's API gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, Self, TypeVar

from server.schema.reply_models import Reply


class Identified(Reply):
    """An object of a list."""

    id: str


Item = TypeVar("Item", bound=Identified)


class PageReply(Reply, Generic[Item]):
    """`has_more`: there is another page, after `last_id`."""

    object: Literal["list"] = "list"
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool

    @classmethod
    def of(cls, found: Sequence[Item], limit: int) -> Self:
        """The first `limit` of what was found, which is one more where there is another page."""
        shown = list(found[:limit])
        return cls(
            data=shown,
            first_id=shown[0].id if shown else None,
            last_id=shown[-1].id if shown else None,
            has_more=len(found) > limit,
        )
