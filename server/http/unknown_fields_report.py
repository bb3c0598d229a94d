"""Unknown fields of a request: counted in the metrics, and reported in a header where they are misspelt."""

from __future__ import annotations

from typing import Any

import falcon.asgi

from pipelines.requests.fields.unknown_fields import collect_unknown, unknown_fields
from pipelines.telemetry.http_requests import count_ignored_fields

HEADER = "X-Braid-Ignored-Fields"


class UnknownFieldsReport:
    """Falcon middleware: counts the unknown fields of each request, and reports misspelt ones in a header."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        collect_unknown(self._strict)

    async def process_response(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, resource: Any, succeeded: bool
    ) -> None:
        current = unknown_fields()
        if current is None:
            return
        if current.count and req.uri_template is not None:
            count_ignored_fields(req.uri_template, current.count)
        if current.header:
            resp.set_header(HEADER, current.header)
