"""Models that a command names: fetched from a hub, or here already, as a folder that a server reads."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click

from pipelines.base.cache_folder import default_cache
from pipelines.base.digests import digest
from pipelines.hub.base.environment import HubEnvironment
from pipelines.hub.base.errors import HubError
from pipelines.hub.base.events import SUCCESS, PullEvent, Stop
from pipelines.hub.base.local_names import check_local_name
from pipelines.hub.base.names import parse_name
from pipelines.hub.base.remote_files import Listing
from pipelines.hub.conversion import Converter
from pipelines.hub.model_folder import NOTE
from pipelines.hub.pull import Puller, WantedModel
from server.pull_progress import progress_of, shown_bytes

SERVED = "served"
"""The folder of the cache with a folder for each set of names that was served."""
INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended."""


@dataclass(frozen=True)
class PullOptions:
    """What holds for all models of a command."""

    hub: str | None = None
    revision: str | None = None
    sha256: str | None = None
    export: str | None = None
    device: str = "cpu"
    cache: Path | None = None
    max_cache_gb: float | None = None

    @property
    def environment(self) -> HubEnvironment:
        """Raises HubError."""
        return HubEnvironment.read(self.cache, max_cache_gb=self.max_cache_gb)

    def wanted(self, text: str, local: str | None = None) -> WantedModel:
        """Raises HubError."""
        name = parse_name(text, self.hub, self.revision)
        return WantedModel(name, local, self.device, self.export, self.sha256)


def listing_of(text: str, options: PullOptions) -> tuple[Listing, str]:
    """The files of a repository, and why they are those of the cache; "" where they are the hub's.

    Raises HubError.
    """
    puller = Puller(options.environment, report=lambda event: None, stop=Stop())
    return puller.listing(options.wanted(text))


def fetch(text: str, repository: Path, options: PullOptions, local: str | None = None) -> Path:
    """Have a model in a repository, and show how far it is; returns its folder.

    Raises click's error in words; Ctrl-C ends the process, and what was fetched is resumed later.
    """
    last: list[PullEvent] = []
    stop = Stop()
    try:
        wanted = options.wanted(text, local)
        with progress_of(wanted.served_as) as show:

            def report(event: PullEvent) -> None:
                last[:] = [event]
                show(event)

            puller = Puller(options.environment, report, stop, Converter(options.cache))
            folder = puller.pull(wanted, repository)
    except HubError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{wanted.name}: {where}{error.strerror or error}") from error
    except KeyboardInterrupt:
        stop.set()
        _end(f"{wanted.name}: stopped; the same command goes on from here")
    if last and last[0].status == SUCCESS:
        event = last[0]
        click.echo(f"{wanted.served_as}: {event.message}; {shown_bytes(event.total)} in {folder}", err=True)
    return folder


def _end(text: str) -> NoReturn:
    """End at once: threads that wait for a server would hold the process."""
    click.echo(f"\n{text}", err=True)
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def served_folder(names: Sequence[str], models: Path | None, options: PullOptions) -> Path:
    """What a server serves that was started with these names: the only folder or file here that has the name,
    or a folder with all of them, fetched where they are not here.

    With `models` they are added to that folder, and all of it is served.  Raises click's errors.
    """
    here = [Path(name) for name in names if Path(name).exists()]
    if len(here) == len(names) == 1 and models is None:
        return here[0]
    if models is not None and here:
        raise click.UsageError(f"{here[0]} is here already: put it into {models}, or leave out --models")
    served = (options.cache or default_cache()) / SERVED
    folder = models or served / digest("\n".join(sorted(names)), num_bytes=8)
    _check_distinct(here)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = set()
    for name in dict.fromkeys(names):
        path = Path(name)
        if path.exists():
            wanted.add(_link(path, folder))
        else:
            _check_name(name, options)
            wanted.add(fetch(name, folder, options))
    if models is None:
        _remove_others(folder, wanted)
    return folder


def served_folders(cache: Path) -> list[Path]:
    """The folders that servers were given which were started with names."""
    return sorted((cache / SERVED).glob("*/"))


def _check_distinct(paths: Sequence[Path]) -> None:
    """Raise click's error for two folders or files of the same name: models are served by it."""
    by_name: dict[str, Path] = {}
    for path in paths:
        other = by_name.setdefault(path.resolve().name, path)
        if other.resolve() != path.resolve():
            raise click.UsageError(
                f"{other} and {path} have the same name, by which a model is served: rename one, or make a "
                "link to it under another name, in a folder that --models serves"
            )


def _check_name(name: str, options: PullOptions) -> None:
    """Raise click's error for what is neither here nor a name on a hub."""
    try:
        options.wanted(name)
    except HubError as error:
        raise click.UsageError(f"no file or folder {name} is here, and {error}") from error


def _link(path: Path, folder: Path) -> Path:
    """A folder or file that is here, under its own name."""
    place = folder / path.resolve().name
    try:
        check_local_name(place.name)
    except HubError as error:
        raise click.UsageError(str(error)) from error
    place.unlink(missing_ok=True)
    place.symlink_to(path.resolve())
    return place


def _remove_others(folder: Path, wanted: set[Path]) -> None:
    """Remove models that an earlier server with the same names was given while it ran."""
    noted = [note.parent for note in folder.rglob(NOTE)]
    links = [path for path in folder.iterdir() if path.is_symlink()]
    resolved = {path.absolute() for path in wanted}
    for path in noted:
        if path.absolute() not in resolved:
            shutil.rmtree(path, ignore_errors=True)
    for path in links:
        if path.absolute() not in resolved:
            path.unlink()
