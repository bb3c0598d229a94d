"""The body of Triton's generate extension."""

from __future__ import annotations

from typing import Any

import msgspec

from pipelines.base.errors import RequestError
from server.apis.kserve.text import TextQuestion
from server.http.request_body import BYTE_ORDER_MARK, check_structure


class GenerateRequest(msgspec.Struct):
    """The body; other members are parameters too, as Triton's own models take them."""

    text_input: str | list[str]
    documents: list[str] | None = None
    id: str | None = None
    parameters: dict[str, Any] | None = None


_REQUEST = msgspec.json.Decoder(GenerateRequest)
_MEMBERS = msgspec.json.Decoder(dict[str, Any])


def read_generate(body: bytes) -> tuple[str | None, TextQuestion]:
    """The id and the texts of a body.  Raises RequestError."""
    text = body.removeprefix(BYTE_ORDER_MARK)
    check_structure(text)
    try:
        request, members = _REQUEST.decode(text), _MEMBERS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"the body is not a generate request: {error}") from None
    others = {name: value for name, value in members.items() if name not in GenerateRequest.__struct_fields__}
    texts = [request.text_input] if isinstance(request.text_input, str) else request.text_input
    return request.id, TextQuestion(texts, request.documents, others | (request.parameters or {}))
