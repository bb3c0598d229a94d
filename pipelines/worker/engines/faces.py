"""What a worker works with: one engine host, or several that look like one."""

from __future__ import annotations

from pipelines.wire.client import EngineClient
from pipelines.worker.engines.engines import Engines
from pipelines.worker.engines.route import Route

HostClient = EngineClient | Engines
"""What is served, and what administers it."""
RequestClient = EngineClient | Route
"""Takes the requests of a call: that of the one host is `HostClient` and `RequestClient` alike."""
