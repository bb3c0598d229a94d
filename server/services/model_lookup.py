"""Finds the model of an HTTP request, and waits until it is loaded."""

from __future__ import annotations

from pipelines.worker import model_choice
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.model_choice import Ability
from pipelines.worker.pipeline import Pipeline
from server.http.exchange import Exchange
from server.services.services import Services

LATEST = ":latest"
"""The tag that Ollama's clients write after names without one."""


def without_tag(catalogue: Catalogue, model: str | None) -> str | None:
    """A name as it is known: without the tag, where no model has the name with it."""
    if model is None or not model.endswith(LATEST):
        return model
    known = {name for card in catalogue.cards() for name in (card.name, *(a.name for a in card.adapters))}
    bare = model.removesuffix(LATEST)
    return bare if model not in known and bare in known else model


async def find_pipeline(
    services: Services, exchange: Exchange, model: str | None, ability: Ability
) -> Pipeline:
    """The model that a request names, by the rules of `model_choice.find_pipeline`.

    A key that may use some models finds no others.  A name may end with `:latest`, as in Ollama's lists.  The
    model stays loaded until the exchange ends, and is waited for while the client is there.
    """
    catalogue, default = services.of(exchange).catalogue, services.settings.default_model
    if exchange.key is not None and default is not None and not exchange.key.allows(default):
        default = None
    return await model_choice.find_pipeline(
        catalogue,
        without_tag(catalogue, model),
        ability,
        exchange.at_end,
        exchange.while_here,
        default,
    )
