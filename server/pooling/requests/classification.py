"""The request body of classify."""

from __future__ import annotations

from server.pooling.requests.input_request import InputRequest


class ClassificationRequest(InputRequest):
    """An input without further fields."""
