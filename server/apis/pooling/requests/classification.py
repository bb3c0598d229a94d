"""The request body of classify."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from server.apis.pooling.requests.input_request import InputRequest
from server.apis.pooling.requests.unsupported_fields import IGNORED, IGNORED_CLASSIFICATION


class ClassificationRequest(InputRequest):
    """An input without further fields."""

    ignored: ClassVar[Mapping[str, str]] = IGNORED | IGNORED_CLASSIFICATION
