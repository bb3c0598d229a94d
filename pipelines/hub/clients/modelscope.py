"""ModelScope's hub: its listings have SHA-256 sums and no commits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

from pipelines.hub.base.errors import Corrupt, NotThere
from pipelines.hub.base.events import Stop
from pipelines.hub.base.names import HubName
from pipelines.hub.base.remote_files import MAX_FILES, MAX_PATH_BYTES, Listing, RemoteFile, checked
from pipelines.hub.clients.requests import check_status, repeated
from pipelines.hub.clients.transport import HubReply, Transport, printable

MASTER = "master"
CUT = 3000
"""Entries at which a listing of the whole repository ends without saying so."""
MAX_FOLDERS = 500


class ModelScope:
    """A repository at an endpoint; a branch is what it is when it is asked for."""

    def __init__(
        self, transport: Transport, endpoint: str, name: HubName, token: str | None, stop: Stop
    ) -> None:
        self._transport, self._endpoint, self._repo, self._stop = transport, endpoint, name.repo, stop
        self.revision, self.token = name.revision or MASTER, token

    @property
    def page(self) -> str:
        return f"{self._endpoint}/models/{self._repo}"

    def listing(self) -> Listing:
        entries = self._entries("", recursive=True)
        if len(entries) >= CUT:
            entries = list(islice(self._by_folder(), MAX_FILES + 1))
        files = [_file(entry) for entry in entries if entry.get("Type") == "blob"]
        return checked(_commit(files), files)

    def _by_folder(self) -> Iterator[Mapping[str, Any]]:
        folders, seen = [""], 0
        while folders:
            seen += 1
            if seen > MAX_FOLDERS:
                raise Corrupt(f"{self.page}: more than {MAX_FOLDERS} folders")
            for entry in self._entries(folders.pop(), recursive=False):
                if entry.get("Type") == "tree":
                    folders.append(printable(str(entry.get("Path")), MAX_PATH_BYTES))
                yield entry

    def _entries(self, root: str, recursive: bool) -> list[Mapping[str, Any]]:
        query = {"Revision": self.revision, "Recursive": str(recursive), **({"Root": root} if root else {})}
        url = f"{self._endpoint}/api/v1/models/{self._repo}/repo/files?{urlencode(query)}"

        def ask() -> Any:
            with self._transport.get(url, self.token) as reply:
                check_status(reply, self._repo, self.page, self.token is not None)
                return reply.read_json()

        content = repeated(ask, self._stop)
        try:
            if content.get("Success") is False:
                raise NotThere(f"{self._repo}: {printable(str(content.get('Message')))}")
            listed = content["Data"]["Files"]
            return [entry for entry in listed if isinstance(entry, dict)]
        except (AttributeError, KeyError, TypeError) as error:
            raise Corrupt(f"{self.page}: the hub's list of files is no list") from error

    def address(self, commit: str, file: RemoteFile) -> str:
        query = urlencode({"Revision": self.revision, "FilePath": file.path}, quote_via=quote)
        return f"{self._endpoint}/api/v1/models/{self._repo}/repo?{query}"

    def names_content(self, reply: HubReply) -> str | None:
        return None  # it names content in several ways; the sum of what came decides


def _file(entry: Mapping[str, Any]) -> RemoteFile:
    try:
        digest = str(entry.get("Sha256") or "")
        return RemoteFile(
            str(entry["Path"]), int(entry["Size"]), digest or str(entry["Revision"]), is_hashed=bool(digest)
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Corrupt(f"the hub's list has an entry that is no file: {str(entry)[:120]}") from error


def _commit(files: list[RemoteFile]) -> str:
    """An id of these contents, in the form of a commit's."""
    content = "\n".join(sorted(f"{file.path}\0{file.etag}" for file in files))
    return hashlib.sha1(content.encode("utf-8", "replace")).hexdigest()
