"""Traces of requests by OpenTelemetry: on where an endpoint is set, else nothing of it is imported."""
