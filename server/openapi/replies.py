"""Replies so small that their endpoints write them as they are, as models for the document."""

from __future__ import annotations

from server.generation.replies.schema import Reply


class Version(Reply):
    version: str


class Liveness(Reply):
    live: bool


class Readiness(Reply):
    ready: bool


class Load(Reply):
    server_load: int
