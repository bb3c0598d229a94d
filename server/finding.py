"""Which model a request means: the one it names, or the only one that can do what the path is for.

Knows names and tasks; knows nothing of bodies or of what a model does.
"""

from __future__ import annotations

from typing import NamedTuple

from pipelines.errors import NotFound, RequestError
from pipelines.pipeline import Pipeline
from server.services import Services

NO_NAMES = (None, "", "default")
MAX_LISTED = 16


class Ability(NamedTuple):
    """What a path is for: the tasks of graphs that can do it, and how it is called."""

    tasks: tuple[str, ...]
    words: str


TEXT = Ability(("chat", "completion"), "generate text")
EMBEDDING = Ability(("embed",), "give embeddings")
POOLING = Ability(("embed", "token_embed", "classify", "rerank"), "pool")
CLASSIFICATION = Ability(("classify", "rerank"), "classify")
SCORING = Ability(("rerank", "embed", "token_embed"), "score or rank")
READING = Ability((*TEXT.tasks, *POOLING.tasks), "read text")


def find_pipeline(services: Services, model: str | None, ability: Ability) -> Pipeline:
    """The model that a request names; without a name, the only one that has the ability.

    "" and FastDeploy's "default" are no name, unless a model is called so.  Raises NotFound for a model of
    another task, with the names of those that would do.
    """
    cards = services.catalogue.cards()
    able = [card.name for card in cards if card.task in ability.tasks]
    named = None if model in NO_NAMES and model not in [card.name for card in cards] else model
    if named is None and len(cards) > 1:
        if len(able) != 1:
            models = able or [card.name for card in cards]
            raise RequestError(f"`model` is required; models: {_listed(models)}", field="model")
        named = able[0]
    pipeline = services.catalogue.get(named)
    if pipeline.task not in ability.tasks:
        others = f"models that do: {_listed(able)}" if able else "no model here does"
        raise NotFound(
            f"The model `{pipeline.name}` does not {ability.words}: its task is {pipeline.task}; {others}",
            field="model",
        )
    return pipeline


def _listed(names: list[str]) -> str:
    """The first of them, and how many others there are."""
    others = [f"{len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else []
    return ", ".join(names[:MAX_LISTED] + others)
