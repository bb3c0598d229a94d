"""`braid keys`: adds keys to the file of named keys."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click


@click.group()
def keys() -> None:
    """Named API keys, in the file of BRAID_KEYS_FILE."""


@keys.command()
@click.argument("name")
@click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="BRAID_KEYS_FILE",
    required=True,
    help="The keys file; default: BRAID_KEYS_FILE.",
)
@click.option(
    "--model", "models", multiple=True, help="Model, or pattern with *, that it may use; default: all."
)
@click.option("--requests-per-minute", type=click.IntRange(min=1), help="Requests in a minute.")
@click.option("--tokens-per-minute", type=click.IntRange(min=1), help="Tokens in a minute, prompts included.")
@click.option("--admin", is_flag=True, help="May load and unload models too.")
def add(
    name: str,
    path: Path,
    models: tuple[str, ...],
    requests_per_minute: int | None,
    tokens_per_minute: int | None,
    admin: bool,
) -> None:
    """Make a key, print it once, and write its digest to the file.

    A server that runs takes the file within a second.
    """
    from pydantic import ValidationError

    from server.keys.key_file import KeyFileError, NamedKey, add_key, digest_of

    secret = f"sk-braid-{secrets.token_urlsafe(32)}"
    try:
        key = NamedKey(
            name=name,
            digest=digest_of(secret),
            models=models or ("*",),
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            admin=admin,
        )
        add_key(path, key)
    except ValidationError as error:
        raise click.UsageError(
            "; ".join(f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors())
        ) from None
    except (KeyFileError, OSError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(secret)
    click.echo(f"added {name} to {os.fspath(path)}; the key is shown this once", err=True)
