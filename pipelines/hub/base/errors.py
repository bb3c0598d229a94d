"""What keeps a model from being fetched, in words for the person who asked for it."""

from __future__ import annotations


class HubError(Exception):
    """Root of the tree: the message says what is wrong and what to do."""


class NameFault(HubError):
    """A text names no model, or a repository offers nothing that the name asks for."""


class AccessDenied(HubError):
    """The hub wants a token, or another one."""


class NotThere(HubError):
    """The hub has no such repository, revision or file."""


class Unreachable(HubError):
    """The hub cannot be reached, or fails: what is cached may still serve."""


class NotCached(HubError):
    """Nothing may be fetched, and the cache does not hold it."""


class Corrupt(HubError):
    """What came is not what the hub listed."""


class NoRoom(HubError):
    """The disk, or the bound of a server, has no room."""


class PullCancelled(HubError):
    """The person who asked for a model wants it no more."""
