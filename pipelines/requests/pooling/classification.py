"""The request body of classify."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pipelines.requests.pooling.input_request import InputRequest
from pipelines.requests.pooling.unsupported_fields import IGNORED, IGNORED_CLASSIFICATION


class ClassificationRequest(InputRequest):
    """An input without further fields."""

    ignored: ClassVar[Mapping[str, str]] = IGNORED | IGNORED_CLASSIFICATION
