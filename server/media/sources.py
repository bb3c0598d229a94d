"""Which files a request may have read by their URL, as the settings allow: of hosts, and of one folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pipelines.base.errors import RequestError

PORTS = {"http": 80, "https": 443}
NO_HOSTS = (
    "this server fetches nothing from the network (BRAID_ALLOWED_MEDIA_DOMAINS names no host); send the "
    "file itself as a `data:` URL in base64"
)
NO_FOLDER = "Cannot load local files without BRAID_ALLOWED_LOCAL_MEDIA_PATH."
OUTSIDE = "The file path must be a subpath of BRAID_ALLOWED_LOCAL_MEDIA_PATH."
NO_FILE = "there is no such file"


class Place(NamedTuple):
    """Where a file is on the network; `is_private`: the host may have an address within a network."""

    host: str
    port: int
    target: str
    is_tls: bool
    is_private: bool

    @property
    def name(self) -> str:
        """The host as headers name it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.is_tls else "http"] else f"{host}:{self.port}"


@dataclass(frozen=True)
class MediaSources:
    """`hosts` have public addresses alone, those in `private_hosts` any.  A host stands for its usual ports,
    and `host:port` for another one.  `folder` holds the files of `file:` URLs.
    """

    hosts: Sequence[str] = ()
    private_hosts: Sequence[str] = ()
    folder: Path | None = None

    def place(self, url: str, where: str) -> Place:
        """Where the file of an http(s) URL is.  Raises RequestError for a host that is not allowed."""
        if not (self.hosts or self.private_hosts):
            raise RequestError(f"`{where}`: {NO_HOSTS}", where)
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        except (ValueError, KeyError):
            raise RequestError(f"`{where}`: the URL is not valid", where) from None
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not host or parts.username is not None or not _is_plain(host + target) or "\\" in url:
            raise RequestError(f"`{where}`: the URL is not valid", where)
        place = Place(host, port, target, parts.scheme == "https", is_private=False)
        if place.name in self.private_hosts:
            return place._replace(is_private=True)
        if place.name not in self.hosts:
            allowed = ", ".join([*self.hosts, *self.private_hosts])
            raise RequestError(
                f"`{where}`: The URL must be from one of the allowed domains: [{allowed}]. Input URL domain: "
                f"{place.name}",
                where,
            )
        return place

    def read_file(self, url: str, max_bytes: int, where: str) -> bytes:
        """The bytes of a `file:` URL; links are followed first, and must lead below the folder.

        Raises RequestError, which says nothing about files elsewhere.
        """
        if self.folder is None:
            raise RequestError(f"`{where}`: {NO_FOLDER}", where)
        try:
            parts = urlsplit(url)
            path = Path(unquote(parts.path)).resolve()
        except (ValueError, OSError, RuntimeError):
            raise RequestError(f"`{where}`: the URL is not valid", where) from None
        if parts.netloc not in ("", "localhost") or not path.is_relative_to(self.folder.resolve()):
            raise RequestError(f"`{where}`: {OUTSIDE}", where)
        try:
            return _read(path, max_bytes, where)
        except OSError:
            raise RequestError(f"`{where}`: {NO_FILE}", where) from None


def _is_plain(text: str) -> bool:
    """Whether a text may stand in the head of a request."""
    return text.isascii() and text.isprintable() and " " not in text


def _read(path: Path, max_bytes: int, where: str) -> bytes:
    """Reads a regular file: a pipe would never end.  Raises OSError, and RequestError beyond the bound."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(NO_FILE)
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise RequestError(f"`{where}`: the file has more than {max_bytes / 1e6:g} MB", where)
    return data
