"""What objects of Gemini's API have alike: names in camel or in snake case."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from pipelines.base.deferred_model import DeferredModel


class GeminiObject(DeferredModel):
    """An object of a request; its fields may be written in either case, as in every API of Google's."""

    model_config = ConfigDict(
        extra="allow", alias_generator=to_camel, populate_by_name=True, protected_namespaces=()
    )

    @property
    def others(self) -> dict[str, Any]:
        """The fields that are not declared, by their names in camel case."""
        return {to_camel(name): value for name, value in (self.model_extra or {}).items()}

    @classmethod
    def names(cls) -> list[str]:
        """The names of the declared fields in camel case."""
        return [to_camel(name) for name in cls.model_fields]
