"""The body of classify.  Knows nothing of HTTP or of how a reply looks."""

from __future__ import annotations

from server.pooling.requests.inputs import InputRequest


class ClassificationRequest(InputRequest):
    """An input, and nothing of its own."""
