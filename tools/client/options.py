"""Options that the commands for terminals share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import click

from tools.client.api_server import DEFAULT_URL, ApiServer


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--url and --api-key."""
    url = click.option(
        "--url", envvar="BRAID_URL", default=DEFAULT_URL, show_default=True, help="Server; or BRAID_URL."
    )
    return url(key_option(command))


def key_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--api-key, as `key`."""
    return click.option(
        "--api-key", "key", envvar=["OPENAI_API_KEY", "BRAID_API_KEY"], help="Key; or OPENAI_API_KEY."
    )(command)


def server_at(url: str, key: str | None) -> ApiServer:
    """Raises UsageError for what is no address."""
    try:
        return ApiServer(url, key)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def fields_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--field, as `others`."""
    return click.option(
        "--field", "others", multiple=True, metavar="NAME=JSON", help="Any other field of the request."
    )(command)


def fields_of(given: Iterable[str]) -> dict[str, Any]:
    """The fields of --field.  Raises UsageError."""
    return dict(_field(each) for each in given)


def _field(given: str) -> tuple[str, Any]:
    name, equals, value = given.partition("=")
    try:
        return name, json.loads(value if equals else "")
    except ValueError:
        raise click.UsageError(f"--field: {given} is not NAME=JSON, as top_k=5") from None
