"""Fetches a model by its name: what of it, into the cache, and as a folder that a server reads."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.hub.base.cache import RepoCache
from pipelines.hub.base.environment import HubEnvironment
from pipelines.hub.base.errors import HubError, NameFault, NoRoom, NotCached, Unreachable
from pipelines.hub.base.events import CONVERTING, RESOLVING, SUCCESS, Meter, PullEvent, Report, Stop
from pipelines.hub.base.local_names import check_local_name
from pipelines.hub.base.names import MODELSCOPE, URL, HubName
from pipelines.hub.base.remote_files import Listing, RemoteFile
from pipelines.hub.base.sizes import shown_gb
from pipelines.hub.cache_room import room_in_caches
from pipelines.hub.clients.hub import Hub
from pipelines.hub.clients.hugging_face import HuggingFace
from pipelines.hub.clients.modelscope import ModelScope
from pipelines.hub.clients.plain_address import PlainAddress
from pipelines.hub.clients.transport import Transport
from pipelines.hub.model_folder import (
    check_above,
    check_place,
    copied_bytes,
    fill,
    folder_bytes,
    is_current,
    new_folder,
    put_in_place,
    write_folder,
)
from pipelines.hub.offers.offer import CTRANSLATE2, GGUF, SAFETENSORS, SERVED
from pipelines.hub.offers.repository import Choice, choose
from pipelines.hub.room import FetchRoom
from pipelines.hub.transfer.fetch_file import CONNECTIONS, FileFetcher, in_parallel
from pipelines.hub.transfer.part_file import completed_bytes

RESERVE_BYTES = 256 << 20
"""Left free on a disk, so that what else runs there goes on."""
Convert = Callable[[Path, Path, str | None, Stop, Callable[[str], None]], None]
"""Makes a folder that is served of a fetched one: (fetched, new folder, weights, stop, note of a line)."""


@dataclass(frozen=True)
class WantedModel:
    """What is wanted of a name: `sha256` of the file at an address, and `export` to which weights."""

    name: HubName
    local: str | None = None
    device: str = "cpu"
    export: str | None = None
    sha256: str | None = None
    max_bytes: int | None = None
    """Bytes that the fetched models of a repository may take together; None: the disk alone bounds them."""

    @property
    def served_as(self) -> str:
        return self.local or self.name.local


@dataclass(frozen=True)
class ChosenFiles:
    """A repository at one commit, and what is chosen of it.  `is_cached`: the hub was not asked."""

    listing: Listing
    choice: Choice
    is_cached: bool = False
    note: str = ""

    @property
    def files(self) -> list[RemoteFile]:
        wanted = set(self.choice.offer.paths)
        return [file for file in self.listing.files if file.path in wanted]


class Puller:
    """Fetches models with the settings of one environment; `report` gets what happens."""

    def __init__(
        self, environment: HubEnvironment, report: Report, stop: Stop, convert: Convert | None = None
    ) -> None:
        self._environment, self._report, self._stop = environment, report, stop
        self._transport = Transport(environment.timeout_s, environment.authorities)
        self._convert = convert

    def listing(self, wish: WantedModel) -> tuple[Listing, str]:
        """The files of a repository, and why they are not those of the hub but of the cache; "" for those of
        the hub.  Raises HubError.
        """
        hub, cache = self._hub(wish), self._cache(wish.name)
        if self._environment.is_offline:
            reason = "HF_HUB_OFFLINE is set"
            return _cached_listing(hub, cache, reason), reason
        try:
            return hub.listing(), ""
        except Unreachable as error:
            reason = f"{hub.page} cannot be reached: {error}"
            return _cached_listing(hub, cache, reason), reason

    def find(self, wish: WantedModel) -> ChosenFiles:
        """What the hub, or where it cannot be asked the cache, has of a model.  Raises HubError."""
        self._report(PullEvent(RESOLVING, model=wish.served_as, message=str(wish.name)))
        listing, note = self.listing(wish)
        try:
            choice = choose(listing.paths, wish.name.tag, wish.device, wish.export is not None)
        except NameFault as error:
            raise NameFault(f"{wish.name}: {error}") from None
        chosen = ChosenFiles(listing, choice, bool(note), note)
        return self._cached(wish, self._cache(wish.name), chosen) if note else chosen

    def pull(self, wish: WantedModel, repository: Path) -> Path:
        """Have a model in a repository, fetched and ready to be served; returns its folder.

        Raises HubError and OSError.
        """
        check_local_name(wish.served_as)
        folder = repository.absolute() / wish.served_as
        check_place(folder)
        check_above(folder, repository.absolute())
        chosen = self.find(wish)
        self._check_form(wish, chosen)
        note = _note(wish, chosen)
        size = chosen.listing.size_of(chosen.choice.offer.paths)
        if not is_current(folder, note):
            room = FetchRoom(repository.absolute(), folder, wish.max_bytes)
            with room.reserved(size):
                snapshot = self._fetch(wish, chosen, repository)
                self._install(wish, chosen, snapshot, room, note)
        from_cache = f"; from the cache, since {chosen.note}" if chosen.note else ""
        message = f"{chosen.choice.offer.tag}: {chosen.choice.reason}{from_cache}"
        self._report(PullEvent(SUCCESS, model=wish.served_as, completed=size, total=size, message=message))
        return folder

    def _hub(self, wish: WantedModel) -> Hub:
        name, environment = wish.name, self._environment
        if name.hub == URL:
            return PlainAddress(self._transport, name, wish.sha256, self._stop)
        if wish.sha256:
            raise HubError(
                "--sha256 is for an address of a file; files of hubs are verified by their listings"
            )
        if name.hub == MODELSCOPE:
            place, token = environment.modelscope, environment.modelscope_token
            return ModelScope(self._transport, place, name, token, self._stop)
        return HuggingFace(self._transport, environment.endpoint, name, environment.token, self._stop)

    def _cache(self, name: HubName) -> RepoCache:
        return RepoCache.of(name, self._environment)

    def _cached(self, wish: WantedModel, cache: RepoCache, chosen: ChosenFiles) -> ChosenFiles:
        """What is chosen of the cache; another GGUF file of it where no tag was named."""
        missing = _missing(cache, chosen)
        if not missing:
            return chosen
        present = cache.cached_listing(chosen.listing.commit)
        if present is not None and wish.name.tag is None and chosen.choice.offer.kind == GGUF:
            return ChosenFiles(
                present, choose(present.paths, tag=None, device=wish.device), is_cached=True, note=chosen.note
            )
        raise NotCached(
            f"{wish.name}: {len(missing)} of {len(chosen.files)} files are not in the cache, "
            f"{missing[0].path} among them, and {chosen.note}"
        )

    def _check_form(self, wish: WantedModel, chosen: ChosenFiles) -> None:
        """Raises NameFault for plain weights that no export was asked for."""
        kind = chosen.choice.offer.kind
        if kind == SAFETENSORS and wish.export is None:
            raise NameFault(
                f"{wish.name} has safetensors alone, which are exported before they are served: add "
                "--export int8 (or int4), which needs some minutes and torch; or take a repository with GGUF "
                "or OpenVINO files"
            )
        if kind not in SERVED and self._convert is None:
            raise NameFault(f"{wish.name} has files of {kind}, which are converted first: use `braid pull`")

    def _fetch(self, wish: WantedModel, chosen: ChosenFiles, repository: Path) -> Path:
        """The files of a choice in the cache; returns their snapshot."""
        cache, hub = self._cache(wish.name), self._hub(wish)
        missing = _missing(cache, chosen)
        self._check_room(wish, chosen, missing, repository)
        commit = chosen.listing.commit
        if not chosen.is_cached:
            cache.make()
            cache.write_listing(chosen.listing)
        sizes = {cache.blob(file.etag): file.num_bytes for file in missing}
        with room_in_caches(self._environment, str(wish.name), sizes):
            self._fetch_files(chosen, cache, hub)
        if not chosen.is_cached:
            cache.write_ref(hub.revision, commit)
        return cache.snapshot(commit)

    def _fetch_files(self, chosen: ChosenFiles, cache: RepoCache, hub: Hub) -> None:
        meter = Meter(self._report, chosen.listing.size_of(chosen.choice.offer.paths))
        fetcher = FileFetcher(hub, self._transport, cache, chosen.listing.commit, meter)
        small = [file for file in chosen.files if file.num_bytes <= fetcher.piece_bytes]
        in_parallel(lambda file, stop: fetcher.fetch(file, stop, 1), small, self._stop, CONNECTIONS)
        for file in chosen.files:
            if file.num_bytes > fetcher.piece_bytes:
                fetcher.fetch(file, self._stop, CONNECTIONS)

    def _check_room(
        self, wish: WantedModel, chosen: ChosenFiles, missing: Sequence[RemoteFile], repository: Path
    ) -> None:
        """Raises NoRoom."""
        cache = self._cache(wish.name)
        needed = sum(
            file.num_bytes - completed_bytes(cache.blob(file.etag), file.num_bytes) for file in missing
        )
        _check_disk(cache.folder, needed, str(wish.name))
        sizes = {file.path: file.num_bytes for file in chosen.files}
        copies = copied_bytes(chosen.choice.offer.all_links, sizes, cache.folder, repository)
        _check_disk(repository, copies, str(wish.name))

    def _install(
        self, wish: WantedModel, chosen: ChosenFiles, snapshot: Path, room: FetchRoom, note: Mapping[str, Any]
    ) -> None:
        offer, folder = chosen.choice.offer, room.folder
        if offer.kind in SERVED:
            write_folder(folder, snapshot, offer.all_links, note)
            return
        assert self._convert is not None, "it was checked"
        links = new_folder(folder.with_name(f"{folder.name}-source"))
        new = new_folder(folder)
        try:
            fill(links, snapshot, offer.all_links)
            self._convert(links, new, wish.export, self._stop, self._note_line(wish))
            room.check(folder_bytes(new))
            put_in_place(new, folder, note)
        finally:
            shutil.rmtree(links, ignore_errors=True)
            shutil.rmtree(new, ignore_errors=True)

    def _note_line(self, wish: WantedModel) -> Callable[[str], None]:
        return lambda line: self._report(PullEvent(CONVERTING, model=wish.served_as, message=line))


def _cached_listing(hub: Hub, cache: RepoCache, reason: str) -> Listing:
    """Raises NotCached."""
    commit = cache.read_ref(hub.revision)
    listing = cache.read_listing(commit) if commit else None
    if listing is None:
        raise NotCached(f"{hub.page} is not in the cache, and {reason}")
    return listing


def _note(wish: WantedModel, chosen: ChosenFiles) -> dict[str, Any]:
    offer = chosen.choice.offer
    files = [] if offer.kind in (CTRANSLATE2, SAFETENSORS) else sorted(offer.all_links)
    return {
        "name": str(wish.name),
        "hub": wish.name.hub,
        "commit": chosen.listing.commit,
        "kind": offer.kind,
        "tag": offer.tag,
        "export": wish.export,
        "files": files,
        "num_bytes": chosen.listing.size_of(offer.paths),
    }


def _missing(cache: RepoCache, chosen: ChosenFiles) -> list[RemoteFile]:
    """The files whose content is not in the cache."""
    return [file for file in chosen.files if not cache.holds(file)]


def _check_disk(folder: Path, num_bytes: int, name: str) -> None:
    """Raise NoRoom where the disk of a folder has no room for so much and a reserve."""
    if not num_bytes:
        return
    place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if free < num_bytes + min(RESERVE_BYTES, num_bytes // 4 + 1):
        raise NoRoom(f"{name} needs {shown_gb(num_bytes)} more in {place}, which has {shown_gb(free)} free")
