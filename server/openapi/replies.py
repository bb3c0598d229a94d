"""Models of small replies that their endpoints build directly, for the OpenAPI document."""

from __future__ import annotations

from server.schema.reply_models import Reply


class ServerVersion(Reply):
    version: str


class Liveness(Reply):
    live: bool


class Readiness(Reply):
    ready: bool


class ServerLoad(Reply):
    server_load: int


class Success(Reply):
    success: bool
