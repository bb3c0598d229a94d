"""Options that the commands for terminals share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tools.client.api_server import DEFAULT_URL, ApiServer


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--url and --api-key."""
    key = click.option(
        "--api-key", "key", envvar=["OPENAI_API_KEY", "BRAID_API_KEY"], help="Key; or OPENAI_API_KEY."
    )
    url = click.option(
        "--url", envvar="BRAID_URL", default=DEFAULT_URL, show_default=True, help="Server; or BRAID_URL."
    )
    return url(key(command))


def server_at(url: str, key: str | None) -> ApiServer:
    """Raises UsageError for what is no address."""
    try:
        return ApiServer(url, key)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
