"""What an error inside a composed graph says of its place: the line, and the model that was asked."""

from __future__ import annotations

from typing import Any

from pipelines.base.errors import BraidError


class NamedErrors:
    """Errors of a request inside begin with the `kind` of their place, "line" or "model", and its name.

    No generator: several are entered for each request.
    """

    def __init__(self, kind: str, name: str) -> None:
        self._kind = kind
        self._name = name

    def __enter__(self) -> None:
        """Nothing is needed before."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, BraidError):
            error.message = f"{self._kind} `{self._name}`: {error.message}"
            error.args = (error.message,)
