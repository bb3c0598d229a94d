"""A family of endpoints: what one folder of `server/apis` adds to the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from server.dialects import OPENAI, Dialect
from server.services.services import Services

Make = Callable[[Services], Any]
"""Makes an endpoint: a class with `on_get`, `on_post` …"""


@dataclass(frozen=True, slots=True)
class Api:
    """The paths of one API, each with what makes its endpoint, and the dialect that they speak.

    `name` is its name in `BRAID_APIS` (`server/base/api_names.py`); one that is not in that table is always
    on.  `root` are whole paths; `prefixed` exist below each prefix, and so do `sockets`: WebSockets.
    `speaks` is a regular expression, without groups, of the whole paths whose errors and bodies have the
    dialect, also of those that do not exist.
    """

    name: str
    root: Mapping[str, Make] = field(default_factory=dict)
    prefixed: Mapping[str, Make] = field(default_factory=dict)
    sockets: Mapping[str, Make] = field(default_factory=dict)
    dialect: Dialect = OPENAI
    speaks: str = ""
