"""The lines of files of results, in OpenAI's form."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec

from server.apis.batches.batch_table import Result
from server.http.line_ends import escape_line_ends

SUCCESS = range(200, 300)


def answered(line: int, custom_id: str, status: int, request_id: str, body: bytes) -> Result:
    """The reply of an endpoint to a line; `body` is JSON."""
    raw = msgspec.Raw(body if b"\n" not in body else msgspec.json.encode(msgspec.json.decode(body)))
    response = {"status_code": status, "request_id": request_id, "body": raw}
    return _result(line, status in SUCCESS, custom_id, response, error=None)


def not_run(line: int, custom_id: str, code: str, message: str) -> Result:
    """A line that no endpoint has replied to."""
    return _result(
        line, succeeded=False, custom_id=custom_id, response=None, error={"code": code, "message": message}
    )


def _result(line: int, succeeded: bool, custom_id: str, response: Any, error: Any) -> Result:
    fields = {"id": f"batch_req_{uuid4().hex}", "custom_id": custom_id, "response": response, "error": error}
    return Result(line, succeeded, escape_line_ends(msgspec.json.encode(fields)))
