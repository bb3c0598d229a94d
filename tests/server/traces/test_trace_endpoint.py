"""When traces are on, what stops the start, and that nothing of OpenTelemetry is imported without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from server.base.environment import SettingsError
from server.traces import endpoint
from server.traces.endpoint import are_wanted, check_traces
from server.traces.sender import trace_sender

ROOT = Path(__file__).resolve().parents[3]
ON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4318"}


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        (ON, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({**ON, "OTEL_SDK_DISABLED": "True"}, False),
        ({**ON, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ON, "OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_the_standard_variables_turn_traces_on_and_off(variables, wanted):
    assert are_wanted(variables) is wanted


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER=zipkin: it is otlp or none"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "it is http/protobuf or grpc"),
    ],
)
def test_what_cannot_be_sent_is_refused(variables, message):
    with pytest.raises(SettingsError, match=message):
        check_traces(ON | variables)
    check_traces(variables)  # no endpoint: nothing to send


@pytest.mark.parametrize(
    ("protocol", "install"),
    [("http/protobuf", r"braid-server\[otel\]"), ("grpc", "opentelemetry-exporter-otlp-proto-grpc")],
)
def test_a_missing_package_is_named(monkeypatch, protocol, install):
    monkeypatch.setattr(endpoint, "_is_there", lambda module: "otlp" not in module)
    with pytest.raises(SettingsError, match=f"OTEL_EXPORTER_OTLP_ENDPOINT is set.*{install}"):
        check_traces(ON | {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": protocol})


def test_the_server_does_not_start_without_the_package(tmp_path):
    """A real start, in an interpreter that does not find the exporter."""
    hidden = "import sys; sys.modules['opentelemetry.exporter'] = None\n"
    code = f"{hidden}sys.argv = ['gunicorn', '-c', 'server/gunicorn_conf.py']\nfrom gunicorn.app.wsgiapp import run\nrun()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **ON},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        "Braid cannot start:\nOTEL_EXPORTER_OTLP_ENDPOINT is set, and traces over http/protobuf need: pip"
        in done.stderr
    )


def test_without_an_endpoint_there_is_no_sender():
    assert trace_sender({}) is None


def test_without_an_endpoint_nothing_is_imported():
    """A fresh interpreter with the whole worker's side, which has asked for a sender."""
    code = (
        "import sys, server.app, server.traces.sender as sender\n"
        "assert sender.trace_sender({}) is None\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
