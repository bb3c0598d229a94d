"""What a person may set from outside, read once from the environment: `BRAID_` + a field's name in capitals.

Knows names, types and ranges; knows nothing of gunicorn, Falcon or what a setting does.  The table for
people stands at the top of `gunicorn_conf.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

PREFIX = "BRAID_"
ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds the packages: the checkout, or site-packages."""


class SettingsError(Exception):
    """Variables are wrong; the message names each of them and what it may be."""


def _default_models() -> Path:
    here = Path("model_repo")
    return here if here.is_dir() else ROOT / "model_repo"


def _split(value: object) -> object:
    return re.findall(r"[^,\s]+", value) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Written with commas, spaces or line ends between."""
Folder = Annotated[Path, BeforeValidator(lambda value: Path(value).expanduser().resolve())]


class Settings(BaseModel):
    """All settings of a server.  Immutable; every process of a server reads the same."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8000, ge=0, le=65535)
    models: Folder = Field(default_factory=_default_models)
    device: str | None = Field(default=None, pattern=r"^(cpu|cuda(:\d+)?)$")
    workers: int = Field(default=2, ge=1, le=256)
    api_keys: Words = ()
    in_process: bool = False
    grace_s: int = Field(default=30, ge=3)
    engine_timeout_s: float = Field(default=60, ge=1)
    header_timeout_s: float = Field(default=20, gt=0)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: bool = False
    max_body_mb: int = Field(default=64, ge=1)
    max_concurrency: int = Field(default=256, ge=1)
    cors_origins: Words = ()
    trust_request_chat_template: bool = False
    responses_store: bool = True
    responses_file: Path | None = None
    responses_count: int = Field(default=10_000, ge=1)
    responses_mb: int = Field(default=512, ge=1)
    responses_hours: float = Field(default=24, gt=0)
    engine_socket: Path | None = None

    @property
    def url(self) -> str:
        """Where a client on this machine reaches the server."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{bracketed(host)}:{self.port}"


def bracketed(host: str) -> str:
    """An address as it stands before a port: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings that the environment asks for.  Raises SettingsError with every problem at once."""
    given = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
    values = {name.removeprefix(PREFIX).lower(): value for name, value in given.items() if value != ""}
    try:
        return Settings(**values)  # type: ignore[arg-type]
    except ValidationError as error:
        problems = [_problem(PREFIX + str(one["loc"][0]).upper(), one) for one in error.errors()]
        raise SettingsError("\n".join(problems)) from None


def _problem(name: str, error: Mapping[str, object]) -> str:
    if error["type"] == "extra_forbidden":
        allowed = [PREFIX + field.upper() for field in Settings.model_fields]
        nearest = get_close_matches(name, allowed, 1, 0.0)[0]
        return f"{name}: there is no such setting; did you mean {nearest}?"
    return f"{name}={error['input']}: {error['msg']}"
