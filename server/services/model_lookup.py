"""Finds the model of a request: the one it names, the only one able to do what the path does, or the default.

Does not depend on bodies or on what a model computes.
"""

from __future__ import annotations

from typing import NamedTuple

from graphs.errors import listed
from pipelines.base.errors import MissingField, NotFound
from pipelines.worker.model_table import ModelCard
from pipelines.worker.pipeline import Pipeline
from server.http.exchange import Exchange
from server.services.services import Services

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
SPEECH = Ability(("transcribe",), "transcribe speech")
TENSORS = Ability(("infer",), "take tensors")
READING = Ability((*TEXT.tasks, *POOLING.tasks), "read text")


async def find_pipeline(
    services: Services, exchange: Exchange, model: str | None, ability: Ability
) -> Pipeline:
    """The model that a request names; without a name, the only one that has the ability, or the default one.

    It stays loaded until the exchange ends; one that is not loaded is waited for.  "" and FastDeploy's
    "default" count as no name, unless a model has that name.  Raises NotFound for a model of another task,
    with the names of the models that have the ability, and RequestError where several have it and the default
    model has not.
    """
    named = _name_without_one(services, model, ability) if model in NO_NAMES else model
    catalogue = services.catalogue
    if catalogue.may_wait(named):
        _check_task(services, _known_task(services, named), ability)
        pipeline = await exchange.while_here(catalogue.load(named, exchange.at_end))
    else:
        pipeline = catalogue.get(named)
        exchange.at_end(catalogue.hold(pipeline))
    _check_task(services, (pipeline.name, pipeline.task), ability)
    return pipeline


def _known_task(services: Services, named: str | None) -> tuple[str, str | None]:
    """The name and the task of a model that is not loaded; None while its task is not known."""
    cards = {card.name: card.task for card in services.catalogue.cards()}
    name = services.catalogue.model_of(named)
    return name, cards.get(name)


def _check_task(services: Services, model: tuple[str, str | None], ability: Ability) -> None:
    """Raise NotFound for a model that cannot do what the path does."""
    name, task = model
    if task is None or task in ability.tasks:
        return
    able = _able(services.catalogue.cards(), ability)
    others = f"models that do: {listed(able)}" if able else "no model here does"
    raise NotFound(
        f"The model `{name}` does not {ability.words}: its task is {task}; {others}", field="model"
    )


def _name_without_one(services: Services, model: str | None, ability: Ability) -> str | None:
    """The model for a request without a name; None where there is only one model."""
    cards = services.catalogue.cards()
    names = [card.name for card in cards]
    if model in names or any(model == adapter.name for card in cards for adapter in card.adapters):
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
