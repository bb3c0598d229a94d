"""How long a model stays loaded after a call of Ollama's API."""

from __future__ import annotations

from server.services.services import Services


def keep(services: Services, model: str | None, seconds: float | str | None) -> None:
    """The time is what the client says, where clients may load and unload models; None: not said."""
    if seconds is not None and not services.settings.needs_admin_key:
        services.client.keep(services.catalogue.model_of(model), float(seconds))
