"""What a repository offers, as a table for people: each choice, its size, and the one that would be taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pipelines.hub.base.errors import NameFault
from pipelines.hub.base.remote_files import Listing
from pipelines.hub.offers.offer import SAFETENSORS, Offer
from pipelines.hub.offers.repository import Choice, all_offers, choose, left_out
from pipelines.hub.pull import WantedModel
from server.pull_progress import shown_bytes

HEAD = ("", "tag", "kind", "size", "files", "")


def offer_table(wanted: WantedModel, listing: Listing, note: str) -> str:
    """The text for a listing; `note` says why it is not that of the hub."""
    lines = [f"{wanted.name.repo} at {listing.commit[:12]}{f' (cached: {note})' if note else ''}"]
    choice, reason = _choice(wanted, listing)
    taken = choice.offer if choice else None
    offers = all_offers(listing.paths)
    if offers:
        lines += _columns([HEAD, *(_row(offer, offer == taken, listing) for offer in offers)])
    lines.append(f"{taken.tag} would be taken: {reason}" if taken else f"nothing would be taken: {reason}")
    lines += [
        f"with it: {path} ({_size(listing, [path])})" for path in (taken.beside.values() if taken else ())
    ]
    others = left_out(listing.paths)
    beside = set(taken.beside.values()) if taken else set()
    lines += [
        f"not taken: {path} ({what}, {_size(listing, [path])})"
        for path, what in others.items()
        if path not in beside
    ]
    return "\n".join(lines) + "\n"


def _choice(wanted: WantedModel, listing: Listing) -> tuple[Choice | None, str]:
    try:
        choice = choose(listing.paths, wanted.name.tag, wanted.device, wanted.export is not None)
    except NameFault as error:
        return None, str(error)
    if choice.offer.kind == SAFETENSORS and wanted.export is None:
        return None, "safetensors are exported first: --export int8 (or int4)"
    return choice, choice.reason


def _row(offer: Offer, is_taken: bool, listing: Listing) -> tuple[str, ...]:
    size = _size(listing, offer.links.values())
    return ("→" if is_taken else "", offer.tag, offer.kind, size, str(len(offer.links)), offer.note)


def _size(listing: Listing, paths: Iterable[str]) -> str:
    return shown_bytes(listing.size_of(paths))


def _columns(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
