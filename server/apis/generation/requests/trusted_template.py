"""Whether a request may bring a chat template of its own."""

from __future__ import annotations

from pipelines.base.errors import RequestError
from server.base.settings import Settings


def check_template(template: str | None, settings: Settings) -> None:
    """Raise RequestError when a request brings a chat template to a server that trusts none."""
    if template is not None and not settings.trust_request_chat_template:
        raise RequestError(
            "Chat template is passed with request, but BRAID_TRUST_REQUEST_CHAT_TEMPLATE is not set. "
            "Refused request with untrusted chat template.",
            field="chat_template",
        )
