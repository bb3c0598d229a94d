"""Reads the settings of a server from the environment: `BRAID_` and the name of a field in capitals."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches

from pydantic import ValidationError

from server.base.settings import Settings

PREFIX = "BRAID_"


class SettingsError(Exception):
    """Environment variables are invalid; the message names each of them and its allowed values."""


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in the environment.  Raises SettingsError with all problems."""
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
        return f"{name}: unknown setting; did you mean {nearest}?"
    text = str(error["msg"]).removeprefix("Value error, ")
    return f"{name}={error['input']}: {text}"
