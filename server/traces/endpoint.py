"""Whether traces are wanted, by the standard variables of OpenTelemetry, and whether they can be sent."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from server.base.environment import SettingsError

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP, GRPC = "http/protobuf", "grpc"
MODULES = {
    HTTP: ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "pip install 'braid-server[otel]'"),
    GRPC: (
        "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
        "pip install 'braid-server[otel]' opentelemetry-exporter-otlp-proto-grpc",
    ),
}
"""Protocol → the exporter's module, and what installs it."""


def are_wanted(environment: Mapping[str, str]) -> bool:
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not is_off and _exporter(environment) != "none" and _first(environment, ENDPOINTS) != ""


def check_traces(environment: Mapping[str, str]) -> None:
    """Raise SettingsError where traces are wanted and cannot be sent."""
    if not are_wanted(environment):
        return
    if _exporter(environment) != "otlp":
        raise SettingsError(f"OTEL_TRACES_EXPORTER={_exporter(environment)}: it is otlp or none")
    protocol = protocol_of(environment)
    if protocol not in MODULES:
        raise SettingsError(f"{PROTOCOLS[1]}={protocol}: it is {HTTP} or {GRPC}")
    module, install = MODULES[protocol]
    if not (_is_there(module) and _is_there("opentelemetry.sdk.trace")):
        endpoint = next(name for name in ENDPOINTS if environment.get(name, "").strip())
        raise SettingsError(f"{endpoint} is set, and traces over {protocol} need: {install}")


def protocol_of(environment: Mapping[str, str]) -> str:
    return _first(environment, PROTOCOLS) or HTTP


def _exporter(environment: Mapping[str, str]) -> str:
    return environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := environment.get(name, "").strip())), "")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
