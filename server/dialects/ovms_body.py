"""What every body of OpenVINO Model Server's paths must be."""

from __future__ import annotations

import msgspec

from pipelines.base.errors import RequestError
from server.dialects.dialect import Body


class NotJson(RequestError):
    """The body is not a JSON object with a model."""

    status, kind = 412, "PreconditionFailedError"


def read_ovms_body(raw: bytes) -> Body:
    """The body as a JSON object with a model name.  Raises NotJson."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NotJson("The file is not valid json - Cannot parse JSON body") from None
    if not isinstance(body, dict):
        raise NotJson("The file is not valid json - JSON body must be an object")
    for name, holds, fault in (
        ("model", "model" in body, "model field is missing in JSON body"),
        ("model", isinstance(body.get("model"), str), "model field is not a string"),
        ("stream", isinstance(body.get("stream", False), bool), "stream field is not a boolean"),
    ):
        if not holds:
            raise NotJson(f"The file is not valid json - {fault}", field=name)
    return body
