"""All that a repository offers, and the one offer that a name asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.hub.base.errors import NameFault
from pipelines.hub.offers import gguf, onnx
from pipelines.hub.offers.gguf import extra, gguf_offers
from pipelines.hub.offers.offer import (
    CTRANSLATE2,
    GENAI,
    GGUF,
    ONNX,
    OPENVINO,
    SAFETENSORS,
    VOICE,
    Offer,
)
from pipelines.hub.offers.onnx import genai_offers, onnx_offers, voice_offers
from pipelines.hub.offers.openvino import openvino_offers
from pipelines.hub.offers.plain_weights import ctranslate2_offers, safetensors_offers, why_nothing

KINDS: dict[str, Callable[[Sequence[str]], list[Offer]]] = {
    GGUF: gguf_offers,
    OPENVINO: openvino_offers,
    GENAI: genai_offers,
    ONNX: onnx_offers,
    CTRANSLATE2: ctranslate2_offers,
    VOICE: voice_offers,
    SAFETENSORS: safetensors_offers,
}
"""Kind → its offers in a list of paths.  Without a tag, the first kind that is offered is taken."""
ON_CUDA = (OPENVINO,)
"""Kinds that no GPU runs: others go before them there."""
DECODER = re.compile(r"(?:^|/)(?:generation_config\.json|chat_template\.\w+)$")
"""Files of a model that generates text."""
MAX_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Choice:
    """What is fetched, and why it was chosen."""

    offer: Offer
    reason: str


def all_offers(paths: Sequence[str]) -> list[Offer]:
    """What a repository offers, the kind that is preferred first."""
    found = [offer for make in KINDS.values() for offer in make(paths)]
    is_genai = any(offer.kind == GENAI for offer in found)
    return [offer for offer in found if not (is_genai and offer.kind == ONNX)]


def left_out(paths: Sequence[str]) -> dict[str, str]:
    """GGUF files that are no model, and what they are."""
    return {path: what for path in paths if (what := extra(path))}


def choose(paths: Sequence[str], tag: str | None, device: str = "cpu", export: bool = False) -> Choice:
    """The offer that a tag asks for, or the default one; with `export` the plain weights.

    Raises NameFault with what is offered.
    """
    offers = all_offers(paths)
    if export:
        return _to_export(offers, paths)
    if not offers:
        raise NameFault(why_nothing(paths))
    if tag is not None:
        return _asked_for(offers, paths, tag)
    return _default(offers, paths, device)


def _to_export(offers: Sequence[Offer], paths: Sequence[str]) -> Choice:
    plain = next((offer for offer in offers if offer.kind == SAFETENSORS), None)
    if plain is None:
        what = shown(offers) if offers else why_nothing(paths)
        raise NameFault(f"it has no safetensors to export; {what}")
    return Choice(plain, "--export was given")


def _asked_for(offers: Sequence[Offer], paths: Sequence[str], tag: str) -> Choice:
    exact = [offer for offer in offers if offer.tag.lower() == tag.lower()]
    if found := next((offer for offer in (*exact, *offers) if offer.answers(tag)), None):
        return Choice(found, f"{tag} was asked for")
    if what := next((path for path in left_out(paths) if tag in (path, path.rpartition("/")[2])), None):
        name = what.rpartition("/")[2]
        return Choice(Offer(GGUF, name, {name: what}, note=extra(what) or ""), f"{tag} was asked for")
    raise NameFault(f"it has no {tag}; {shown(offers)}")


def _default(offers: Sequence[Offer], paths: Sequence[str], device: str) -> Choice:
    late = ON_CUDA if device.startswith("cuda") else ()
    kinds = sorted({offer.kind for offer in offers}, key=lambda kind: (kind in late, [*KINDS].index(kind)))
    same = [offer for offer in offers if offer.kind == kinds[0]]
    if len(same) == 1:
        return Choice(same[0], "it is the only one" if len(offers) == 1 else f"{kinds[0]} goes first")
    if kinds[0] == GGUF:
        return Choice(*gguf.default_offer(same))
    if kinds[0] == ONNX:
        return Choice(*onnx.default_variant(same, device, any(map(DECODER.search, paths))))
    if kinds[0] == GENAI:
        return Choice(*onnx.default_genai(same, device))
    if kinds[0] == VOICE:
        raise NameFault(f"it has several voices, name one; {shown(same)}")
    return Choice(same[0], "it is the first")


def shown(offers: Sequence[Offer]) -> str:
    """The tags of offers, for a message."""
    tags = list(dict.fromkeys(offer.tag for offer in offers))
    more = f" and {len(tags) - MAX_SHOWN} more" if len(tags) > MAX_SHOWN else ""
    return f"it offers {', '.join(tags[:MAX_SHOWN])}{more}"
