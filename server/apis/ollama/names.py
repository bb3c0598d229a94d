"""The names of models in Ollama's API: with a tag, `:latest` where none is written, in any case."""

from __future__ import annotations

from pipelines.base.errors import BraidError, ModelNotFound, Unavailable
from pipelines.worker.catalogue import Catalogue
from server.services.model_lookup import LATEST

LIBRARIES = ("registry.ollama.ai/library/", "library/", "hf.co/", "huggingface.co/")
"""What may stand before the name of a model: of Ollama's own library, or of a hub."""


def tagged(name: str) -> str:
    """A name as lists show it."""
    return name if ":" in name else name + LATEST


def served_name(catalogue: Catalogue, wanted: str) -> str:
    """The model, or the adapter, that a client means.

    Raises ModelNotFound, and Unavailable without an engine.
    """
    known = [name for card in catalogue.cards() for name in (card.name, *(a.name for a in card.adapters))]
    bare = next((wanted.removeprefix(start) for start in LIBRARIES if wanted.startswith(start)), wanted)
    for name in (wanted, bare, bare.removesuffix(LATEST)):
        if name in known:
            return name
    lowered = {name.lower(): name for name in known}
    name_in_any_case = lowered.get(bare.lower()) or lowered.get(bare.lower().removesuffix(LATEST))
    if name_in_any_case is None:
        raise not_found(catalogue, wanted)
    return name_in_any_case


def not_found(catalogue: Catalogue, given: str) -> BraidError:
    """The error for a name that nothing has."""
    error = catalogue.unknown(given)
    return error if isinstance(error, Unavailable) else ModelNotFound(f"model '{given}' not found", "model")
