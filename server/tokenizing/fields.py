"""Fields of tokenizer requests that are not honoured, and why.

A field that a request model declares is honoured; any other is in a table here, or unknown and refused.
"""

from __future__ import annotations

from pydantic import BaseModel

from pipelines.errors import RequestError
from server.generation.fields import OPERATOR_SETS, Refused, shown, unknown_field

REFUSED_CHAT: dict[str, Refused] = {
    "mm_processor_kwargs": Refused(OPERATOR_SETS, ({},)),
    "media_io_kwargs": Refused(OPERATOR_SETS, ({},)),
    "required_prefix_token_ids": Refused(
        "a conversation is rendered anew; send what must stay as it is as token ids", ([],)
    ),
}
"""Fields of the chat form that a request may carry only with a neutral value."""


def check_extra(model: BaseModel, refused: dict[str, Refused]) -> None:
    """Raise RequestError for a refused field with a value that is not neutral, and for an unknown field."""
    for name, value in (model.model_extra or {}).items():
        if name not in refused:
            raise unknown_field(name, [*type(model).model_fields, *refused])
        if value is not None and value not in refused[name].neutral:
            raise RequestError(f"`{name}`: {refused[name].reason} (got {shown(value)})", field=name)
