"""Which model a request means: the one it names, the only one able to do what is asked, or the default."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from graphs.errors import listed
from pipelines.base.errors import MissingField, NotFound
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.model_table import ModelCard
from pipelines.worker.pipeline import Pipeline

NO_NAMES = (None, "", "default")
"""These count as no name, the last one as FastDeploy's, unless a model has it."""


class Ability(NamedTuple):
    """What a request needs of a model: one of `tasks`; `words` name it in error texts."""

    tasks: tuple[str, ...]
    words: str


TEXT = Ability(("chat", "completion"), "generate text")
EMBEDDING = Ability(("embed",), "give embeddings")
POOLING = Ability(("embed", "token_embed", "classify", "token_classify", "entities", "rerank"), "pool")
CLASSIFICATION = Ability(("classify", "rerank"), "classify")
TAGGING = Ability(("token_classify", "entities"), "label tokens")
FINDING = Ability(("entities",), "find entities of labels")
LABELLING = Ability((*CLASSIFICATION.tasks, *TAGGING.tasks), "classify texts or tokens")
SCORING = Ability(("rerank", "embed", "token_embed"), "score or rank")
SEARCH = Ability(("search",), "search passages")
SPEECH = Ability(("transcribe",), "transcribe speech")
TENSORS = Ability(("infer",), "take tensors")
READING = Ability((*TEXT.tasks, *POOLING.tasks), "read text")


async def find_pipeline(
    catalogue: Catalogue,
    model: str | None,
    ability: Ability,
    at_end: Callable[[Callable[[], None]], object],
    wait: Callable[[Coroutine[Any, Any, Pipeline]], Awaitable[Pipeline]],
    default_model: str | None = None,
) -> Pipeline:
    """The model that a request names; without a name, the only one that has the ability, or the default one.

    It stays loaded until the function is called that `at_end` is given.  `wait` awaits the load of one that
    is not loaded.  Raises NotFound for a model of another task, with the names of the models that have the
    ability, RequestError where several have it and the default model has not, and what `Catalogue.load` does.
    """
    named = name_without_one(catalogue.cards(), model, ability, default_model) if model in NO_NAMES else model
    if catalogue.may_wait(named):
        name = catalogue.model_of(named)
        tasks = {card.name: card.task for card in catalogue.cards()}
        check_task(catalogue, name, tasks.get(name), ability)
        pipeline = await wait(catalogue.load(named, at_end))
    else:
        pipeline = catalogue.get(named)
        at_end(catalogue.hold(pipeline))
    check_task(catalogue, pipeline.name, pipeline.task, ability)
    return pipeline


def check_task(catalogue: Catalogue, name: str, task: str | None, ability: Ability) -> None:
    """Raise NotFound for a model that lacks the ability, with the names of those that have it.

    A `task` of None is not known yet, and passes.
    """
    if task is None or task in ability.tasks:
        return
    able = able_names(catalogue.cards(), ability)
    others = f"models that do: {listed(able)}" if able else "no model here does"
    raise NotFound(
        f"The model `{name}` does not {ability.words}: its task is {task}; {others}", field="model"
    )


def name_without_one(
    cards: list[ModelCard], model: str | None, ability: Ability, default_model: str | None = None
) -> str | None:
    """The model for a request without a name; None where there is only one model.

    Of several that have the ability it is the default model, which without a `default_model` is the first
    that generates text; else the only one whose task comes first in the ability, as a reranker to rank with.
    Raises NotFound where no model has the ability, and MissingField where there are several such models.
    """
    names = [card.name for card in cards]
    if model in names or any(model == adapter.name for card in cards for adapter in card.adapters):
        return model
    if len(cards) <= 1:
        return None
    able = able_names(cards, ability)
    if not able and all(card.task for card in cards):  # a model that is loading has no task yet
        raise NotFound(f"There is no model that can {ability.words}; models: {listed(names)}", field="model")
    if len(able) == 1:
        return able[0]
    default = default_model or next(iter(able_names(cards, TEXT)), None)
    if default is not None and (default in able or default not in names):
        return default  # where there is no such model, the catalogue says so
    nearest = next(names for task in ability.tasks if (names := named_by_task(cards, task)))
    if len(nearest) == 1:
        return nearest[0]
    text = f"`model` is required; models: {listed(able or names)}"
    raise MissingField(text, field="model")


def able_names(cards: list[ModelCard], ability: Ability) -> list[str]:
    """The names of the models that have the ability."""
    return [card.name for card in cards if card.task in ability.tasks]


def named_by_task(cards: list[ModelCard], task: str) -> list[str]:
    """The names of the models of a task."""
    return [card.name for card in cards if card.task == task]
