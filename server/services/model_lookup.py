"""Finds the model of an HTTP request, and waits until it is loaded."""

from __future__ import annotations

from pipelines.worker import model_choice
from pipelines.worker.model_choice import Ability
from pipelines.worker.pipeline import Pipeline
from server.http.exchange import Exchange
from server.services.services import Services


async def find_pipeline(
    services: Services, exchange: Exchange, model: str | None, ability: Ability
) -> Pipeline:
    """The model that a request names, by the rules of `model_choice.find_pipeline`.

    It stays loaded until the exchange ends, and is waited for while the client is there.
    """
    return await model_choice.find_pipeline(
        services.catalogue,
        model,
        ability,
        exchange.at_end,
        exchange.while_here,
        services.settings.default_model,
    )
