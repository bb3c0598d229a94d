"""Finds the model of a request: the one it names, the only one able to do what the path does, or the default.

Does not depend on bodies or on what a model computes.
"""

from __future__ import annotations

from typing import NamedTuple

from graphs.errors import listed
from pipelines.errors import MissingField, NotFound
from pipelines.worker.catalogue import ModelCard
from pipelines.worker.pipeline import Pipeline
from server.http.exchange import Exchange
from server.services import Services

NO_NAMES = (None, "", "default")


class Ability(NamedTuple):
    """What a path needs of a model: one of `tasks`; `words` name it in error texts."""

    tasks: tuple[str, ...]
    words: str


TEXT = Ability(("chat", "completion"), "generate text")
EMBEDDING = Ability(("embed",), "give embeddings")
POOLING = Ability(("embed", "token_embed", "classify", "rerank"), "pool")
CLASSIFICATION = Ability(("classify", "rerank"), "classify")
SCORING = Ability(("rerank", "embed", "token_embed"), "score or rank")
TENSORS = Ability(("infer",), "take tensors")
READING = Ability((*TEXT.tasks, *POOLING.tasks), "read text")


async def find_pipeline(
    services: Services, exchange: Exchange, model: str | None, ability: Ability
) -> Pipeline:
    """The model that a request names; without a name, the only one that has the ability, or the default one.

    It stays loaded until the exchange ends.  "" and FastDeploy's "default" count as no name, unless a model
    has that name.  Raises NotFound for a model of another task, with the names of the models that have the
    ability, and RequestError where several have it and the default model has not.
    """
    named = _name_without_one(services, model, ability) if model in NO_NAMES else model
    pipeline = services.catalogue.get(named)
    if pipeline.task not in ability.tasks:
        able = _able(services.catalogue.cards(), ability)
        others = f"models that do: {listed(able)}" if able else "no model here does"
        raise NotFound(
            f"The model `{pipeline.name}` does not {ability.words}: its task is {pipeline.task}; {others}",
            field="model",
        )
    exchange.at_end(services.catalogue.hold(pipeline))
    return pipeline


def _name_without_one(services: Services, model: str | None, ability: Ability) -> str | None:
    """The model for a request without a name; None where there is only one model."""
    cards = services.catalogue.cards()
    names = [card.name for card in cards]
    if model in names:
        return model
    if len(cards) <= 1:
        return None
    able = _able(cards, ability)
    if not able and all(card.task for card in cards):  # a model that is loading has no task yet
        raise NotFound(f"There is no model that can {ability.words}; models: {listed(names)}", field="model")
    if len(able) == 1:
        return able[0]
    default = services.settings.default_model or next(iter(_able(cards, TEXT)), None)
    if default is not None and (default in able or default not in names):
        return default  # where there is no such model, the catalogue says so
    text = f"`model` is required; models: {listed(able or names)}"
    raise MissingField(text, field="model")


def _able(cards: list[ModelCard], ability: Ability) -> list[str]:
    """The names of the models that have the ability."""
    return [card.name for card in cards if card.task in ability.tasks]
