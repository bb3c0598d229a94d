"""The GGUF files of a repository: quantisations, parts, projectors, and what is no model.

Sources of the names: bartowski, unsloth, ggml-org, lmstudio-community, Qwen and mradermacher, as published.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pipelines.hub.offers.offer import GGUF, Offer

PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})")
QUANT = re.compile(
    r"(?:^|[-._])(?P<tag>(?:UD-|i1-)?(?:I?Q[1-9](?:_\w+)?|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32))$",
    re.IGNORECASE | re.ASCII,
)
MAKERS = ("UD-", "i1-")
"""Prefixes of quantisations that are made in another way: they are taken where they are asked for."""
NO_MODEL = ("imatrix", "mmproj", "mtp-", "eagle3-", "dflash-", "dspark-")
"""Parts of names of GGUF files that are no language model."""
PROJECTOR = "mmproj"
ADAPTER = re.compile(r"(?:^|[-._])(?:lora|adapter)$", re.IGNORECASE)
DEFAULTS = ("Q4_K_M", "Q8_0")


def gguf_offers(paths: Sequence[str]) -> list[Offer]:
    """One offer for each model file, in the order of the listing; parts are one."""
    models = [path for path in paths if path.lower().endswith(".gguf") and not extra(path)]
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in models:
        found = PART.fullmatch(_stem(path))
        groups[_without_part(path), found["count"] if found else ""].append(path)
    whole = [(stem, parts) for (stem, _), parts in groups.items() if not missing_parts(parts)]
    projectors = [path for path in paths if extra(path) == "projector"]
    return [_offer(stem, sorted(parts), projectors) for stem, parts in whole]


def extra(path: str) -> str | None:
    """What a GGUF file is that is no language model: projector, imatrix, draft, adapter; None for one."""
    name = path.rpartition("/")[2].lower()
    if not name.endswith(".gguf"):
        return None
    if PROJECTOR in name:
        return "projector"
    if "imatrix" in name:
        return "imatrix"
    if any(word in name for word in NO_MODEL):
        return "draft"
    stem = name.removesuffix(".gguf")
    return "adapter" if ADAPTER.search(stem) or ADAPTER.search(QUANT.sub("", stem)) else None


def missing_parts(paths: Sequence[str]) -> int:
    """How many parts of a model the repository lacks."""
    found = PART.fullmatch(_stem(paths[0]))
    return int(found["count"]) - len(paths) if found else 0


def quant_of(path: str) -> str:
    """The quantisation in a file's name, or in its folder's; without one, the name itself."""
    stem = _without_part(path)
    *folders, name = stem.split("/")
    for text in (name, *reversed(folders)):
        if found := QUANT.search(text):
            return found["tag"]
    return name


def default_offer(offers: Sequence[Offer]) -> tuple[Offer, str]:
    """What is taken without a tag, and why."""
    for tag in DEFAULTS:
        exact = [offer for offer in offers if offer.tag.lower() == tag.lower()]
        if found := next((offer for offer in (*exact, *offers) if offer.answers(tag)), None):
            return found, f"{tag} is the default"
    return offers[0], f"there is neither {' nor '.join(DEFAULTS)}; it is the first"


def bits(tag: str) -> int:
    """The bits of a quantisation, by the first digits of its name; 0 where it has none."""
    found = re.search(r"\d+", tag)
    return int(found[0]) if found else 0


def _offer(stem: str, parts: list[str], projectors: Iterable[str]) -> Offer:
    tag = quant_of(parts[0])
    plain = next((tag[len(prefix) :] for prefix in MAKERS if tag.lower().startswith(prefix.lower())), None)
    folder, _, name = stem.rpartition("/")
    aliases = (parts[0], parts[0].rpartition("/")[2], name, *([plain] if plain else []))
    projector = _projector(folder, tag, projectors)
    return Offer(
        GGUF,
        tag,
        {path.rpartition("/")[2]: path for path in parts},
        aliases,
        f"{len(parts)} parts" if len(parts) > 1 else "",
        {projector.rpartition("/")[2]: projector} if projector else {},
    )


def _projector(folder: str, tag: str, projectors: Iterable[str]) -> str | None:
    """The projector of the deepest folder at or above the model's, with the nearest number of bits."""
    above = [path for path in projectors if f"{folder}/".startswith(_folder(path))]
    return min(
        above,
        key=lambda path: (-path.count("/"), abs(bits(quant_of(path)) - bits(tag))),
        default=None,
    )


def _folder(path: str) -> str:
    folder, slash, _ = path.rpartition("/")
    return folder + slash


def _stem(path: str) -> str:
    return path[: -len(".gguf")]


def _without_part(path: str) -> str:
    found = PART.fullmatch(_stem(path))
    return found["stem"] if found else _stem(path)
