"""Hugging Face's hub, and servers that speak as it does (HF_ENDPOINT)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urljoin

from pipelines.hub.base.errors import Corrupt
from pipelines.hub.base.events import Stop
from pipelines.hub.base.names import HubName
from pipelines.hub.base.remote_files import COMMIT, MAX_FILES, Listing, RemoteFile, checked
from pipelines.hub.clients.requests import check_status, repeated
from pipelines.hub.clients.transport import HubReply, Transport, origin

MAIN = "main"
MAX_PAGES = 200
NEXT = re.compile(r'<([^>]*)>;\s*rel="next"')


class HuggingFace:
    """A repository at an endpoint; its revision is a branch, tag or commit."""

    def __init__(
        self, transport: Transport, endpoint: str, name: HubName, token: str | None, stop: Stop
    ) -> None:
        self._transport, self._endpoint, self._repo, self._stop = transport, endpoint, name.repo, stop
        self.revision, self.token = name.revision or MAIN, token

    @property
    def page(self) -> str:
        return f"{self._endpoint}/{self._repo}"

    def listing(self) -> Listing:
        api = f"{self._endpoint}/api/models/{self._repo}"
        commit = self.revision
        if not COMMIT.fullmatch(commit):
            found = self._json(f"{api}/revision/{quote(commit, safe='')}")[0]
            commit = str(found.get("sha")) if isinstance(found, dict) else ""
        if not COMMIT.fullmatch(commit):
            raise Corrupt(f"{self.page}: the hub names no commit")
        return checked(commit, self._files(f"{api}/tree/{commit}?recursive=true&expand=false"))

    def _files(self, first: str) -> Iterator[RemoteFile]:
        """The files of all pages."""
        url: str | None = first
        for _ in range(MAX_PAGES):
            if url is None:
                return
            entries, headers = self._json(url)
            if not isinstance(entries, list) or len(entries) > MAX_FILES:
                raise Corrupt(f"{self.page}: the hub's list of files is no list")
            yield from (_file(entry) for entry in entries if _is_file(entry))
            url = self._next(url, headers)
        raise Corrupt(f"{self.page}: the hub's list of files does not end")

    def _next(self, url: str, headers: Mapping[str, str]) -> str | None:
        """Where the next page is, None after the last one.  Raises Corrupt for what is no page of the web."""
        link = NEXT.search(headers.get("link", ""))
        if link is None:
            return None
        try:
            place = str(urljoin(url, link[1]))
            is_same_scheme = origin(place)[0] == origin(url)[0]
        except ValueError:
            is_same_scheme = False
        if not is_same_scheme:
            raise Corrupt(f"{self.page}: the hub's list of files goes on at no address")
        return place

    def address(self, commit: str, file: RemoteFile) -> str:
        return f"{self._endpoint}/{self._repo}/resolve/{commit}/{quote(file.path)}"

    def names_content(self, reply: HubReply) -> str | None:
        return tag_of(reply.headers.get("x-linked-etag"))

    def _json(self, url: str) -> tuple[Any, Mapping[str, str]]:
        def ask() -> tuple[Any, Mapping[str, str]]:
            token = self.token if origin(url) == origin(self._endpoint) else None
            with self._transport.get(url, token) as reply:
                check_status(reply, self._named, self.page, self.token is not None)
                return reply.read_json(), reply.headers

        return repeated(ask, self._stop)

    @property
    def _named(self) -> str:
        return self._repo if self.revision == MAIN else f"{self._repo} at {self.revision}"


def tag_of(header: str | None) -> str | None:
    """The text of an ETag, without its quotes and its mark of weakness."""
    return header.strip().removeprefix("W/").strip('"') if header else None


def _is_file(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "file"


def _file(entry: Mapping[str, Any]) -> RemoteFile:
    """Raises Corrupt."""
    lfs = entry.get("lfs")
    try:
        if isinstance(lfs, dict):
            return RemoteFile(str(entry["path"]), int(lfs["size"]), str(lfs.get("oid") or lfs["sha256"]))
        return RemoteFile(str(entry["path"]), int(entry["size"]), str(entry["oid"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Corrupt(f"the hub's list has an entry that is no file: {str(entry)[:120]}") from error
