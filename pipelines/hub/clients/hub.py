"""What a hub does for a download, whichever hub it is."""

from __future__ import annotations

from typing import Protocol

from pipelines.hub.base.remote_files import Listing, RemoteFile
from pipelines.hub.clients.transport import HubReply


class Hub(Protocol):
    """One repository on one hub."""

    @property
    def token(self) -> str | None: ...

    @property
    def page(self) -> str:
        """The page on which people see the repository."""

    @property
    def revision(self) -> str: ...

    def listing(self) -> Listing:
        """The files at the revision.  Raises HubError."""

    def address(self, commit: str, file: RemoteFile) -> str:
        """The address of the content of a file."""

    def names_content(self, reply: HubReply) -> str | None:
        """What a reply with a file says of its content, to compare with `etag`; None where it is silent."""
