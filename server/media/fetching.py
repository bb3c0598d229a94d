"""Fetches what a request names by URL, before it is prepared, within bounds of time and bytes.

Nothing here decodes a file.  A host is looked up once, and the address that was checked is the one that is
dialled, after a redirect too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from urllib.parse import urljoin

from pipelines.base.errors import FetchFailed, Overloaded, RequestError
from pipelines.values.tasks import MediaInput
from server.media.addresses import is_public, look_up
from server.media.http_file import BadReply, HttpFile, get
from server.media.links import scheme_of
from server.media.sources import MediaSources, Place

TIMEOUT_S = 5.0
"""The seconds for all files of a request together, as vLLM's for an image."""
MAX_REDIRECTS = 5
MAX_REQUESTS = 8
"""Requests of a worker that fetch at a time; others wait for at most the same time."""
REDIRECTS = (301, 302, 303, 307, 308)
FAILED = "Failed to fetch media from URL"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


async def connect(address: str, port: int, tls_name: str | None) -> Streams:
    """A connection to an address; with TLS for the host `tls_name`, whose certificate it must have."""
    if tls_name is None:
        return await asyncio.open_connection(address, port)
    return await asyncio.open_connection(address, port, ssl=_tls(), server_hostname=tls_name)


class MediaFetcher:
    """Fetches for the requests of one worker.  `max_bytes` bounds the files of a request together."""

    def __init__(
        self,
        sources: MediaSources,
        max_bytes: int,
        resolve: Callable[[str, int], Awaitable[list[str]]] = look_up,
        dial: Callable[[str, int, str | None], Awaitable[Streams]] = connect,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._sources = sources
        self._max_bytes = max_bytes
        self._resolve = resolve
        self._dial = dial
        self._timeout_s = timeout_s
        self._places = asyncio.Semaphore(MAX_REQUESTS)

    async def fetch(self, images: Sequence[MediaInput], max_bytes: int) -> dict[str, bytes]:
        """URL → bytes, at most `max_bytes` of each file.

        Raises RequestError for what is not allowed, FetchFailed for what did not come, and Overloaded where
        too many requests fetch.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._places.acquire()
        except TimeoutError:
            raise Overloaded("too many requests fetch images; try again soon") from None
        try:
            return await self._all(images, max_bytes)
        finally:
            self._places.release()

    async def _all(self, images: Sequence[MediaInput], max_bytes: int) -> dict[str, bytes]:
        """One after another, so that the bound for all holds as bytes arrive."""
        contents: dict[str, bytes] = {}
        left = self._max_bytes
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        for image in images:
            assert image.url is not None, "nothing else is fetched"
            try:
                async with asyncio.timeout_at(deadline):
                    contents[image.url] = await self._one(image.url, min(max_bytes, left), image.where)
            except TimeoutError:
                raise FetchFailed(f"{FAILED}: it took more than {self._timeout_s:g} s", image.where) from None
            except (OSError, BadReply, asyncio.IncompleteReadError) as error:
                reason = str(error) if isinstance(error, BadReply) else "the host cannot be reached"
                raise FetchFailed(f"{FAILED}: {reason}", image.where) from None
            left -= len(contents[image.url])
        return contents

    async def _one(self, url: str, max_bytes: int, where: str) -> bytes:
        """Raises RequestError, FetchFailed, BadReply, OSError."""
        if scheme_of(url) == "file":
            return await asyncio.to_thread(self._sources.read_file, url, max_bytes, where)
        for _ in range(1 + MAX_REDIRECTS):
            place = self._sources.place(url, where)
            file = await self._get(place, max_bytes, where)
            if file.status == 200:
                return bytes(file.data)
            if file.status not in REDIRECTS or "location" not in file.headers:
                raise FetchFailed(f"{FAILED}: HTTP {file.status} error", where)
            url = urljoin(url, file.headers["location"])
            if scheme_of(url) not in ("http", "https"):
                raise RequestError(f"`{where}`: the URL redirects to what is no HTTP URL", where)
        raise FetchFailed(f"{FAILED}: more than {MAX_REDIRECTS} redirects", where)

    async def _get(self, place: Place, max_bytes: int, where: str) -> HttpFile:
        addresses = await self._resolve(place.host, place.port)
        if not place.is_private and not all(map(is_public, addresses)):
            raise RequestError(
                f"`{where}`: the host {place.host} has an address that is not public; "
                "BRAID_PRIVATE_MEDIA_DOMAINS names hosts within a network",
                where,
            )
        reader, writer = await self._connected(addresses, place)
        try:
            return await get(reader, writer, place.name, place.target, max_bytes)
        finally:
            writer.transport.abort()

    async def _connected(self, addresses: Sequence[str], place: Place) -> Streams:
        """The first of the checked addresses that answers.  Raises OSError."""
        failure = OSError("no address")
        for address in addresses:
            try:
                return await self._dial(address, place.port, place.host if place.is_tls else None)
            except OSError as error:
                failure = error
        raise failure
