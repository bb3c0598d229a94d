"""The part of a catalogue that one client may use: for it the other models do not exist."""

from __future__ import annotations

from collections.abc import Callable

from graphs.errors import hint, shown
from pipelines.base.errors import BraidError, ModelNotFound
from pipelines.repository.files.model_versions import model_of
from pipelines.wire.messages import ModelStatus
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.model_table import BuiltPipeline, ModelCard
from pipelines.worker.pipeline import Pipeline


class AllowedModels(Catalogue):
    """What lists show and names find.  An adapter is allowed with its model; so is what a graph names."""

    def __init__(self, whole: Catalogue, allows: Callable[[str], bool]) -> None:
        """`allows` says whether a model may be used, by its name without a version."""
        self._whole = whole
        self._allows = allows

    def get(self, name: str | None) -> Pipeline:
        return self._whole.get(self._allowed(name))

    def status(self, name: str) -> ModelStatus:
        return self._whole.status(self._allowed(name))

    def built(self, name: str | None) -> BuiltPipeline:
        return self._whole.built(self._allowed(name))

    def cards(self) -> list[ModelCard]:
        return [card for card in self._whole.cards() if self._allows(card.name)]

    def versions(self, name: str) -> dict[int, ModelCard]:
        return self._whole.versions(name) if self._allows(model_of(name)) else {}

    def ended(self) -> list[tuple[str, int]]:
        return [(name, version) for name, version in self._whole.ended() if self._allows(model_of(name))]

    def hold(self, pipeline: Pipeline) -> Callable[[], None]:
        return self._whole.hold(pipeline)

    def may_wait(self, name: str | None) -> bool:
        return self._whole.may_wait(self._allowed(name))

    def model_of(self, name: str | None) -> str:
        return self._whole.model_of(self._allowed(name))

    async def load(self, name: str | None, at_end: Callable[[Callable[[], None]], object]) -> Pipeline:
        return await self._whole.load(self._allowed(name), at_end)

    def unknown(self, name: str) -> BraidError:
        error, names = self._whole.unknown(name), [card.name for card in self.cards()]
        if not isinstance(error, ModelNotFound):
            return error
        near = hint(name, names, "models") if names else ""
        return ModelNotFound(f"The model `{shown(name)}` does not exist{near}", field="model")

    def _allowed(self, name: str | None) -> str:
        """The name, without one that of the only model.  Raises ModelNotFound for a model of others."""
        names = [card.name for card in self.cards()]
        name = (names[0] if len(names) == 1 else "") if name is None else name
        if not self._allows(model_of(self._whole.model_of(name))):
            raise self.unknown(name)
        return name
