"""The metrics of all processes of a server as Prometheus' text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pipelines.telemetry import processes, registry

if TYPE_CHECKING:
    from prometheus_client import Metric


class _Collected:
    """What was collected, in the form that the library renders."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def render() -> bytes:
    from prometheus_client import generate_latest

    families = list(registry.collect())
    return generate_latest(_Collected([*families, *processes.readings(families)]))
