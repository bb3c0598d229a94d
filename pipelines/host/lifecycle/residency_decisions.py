"""What the residency policy decides: the steps that the host then takes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

from pipelines.base.errors import BraidError

Reason = Literal["client", "idle", "room", "changed"]
"""Why a model leaves: a client unloads it, it had no calls, another one is to have its memory, its folder."""


@dataclass(frozen=True)
class LoadModel:
    """Load the model; beside its present instance, if it has one.

    `on_request`: requests wait for it, because one asked for it or because it was served before.
    """

    name: str
    on_request: bool = True


@dataclass(frozen=True)
class RetireModel:
    """No new calls; close the instance when its last call has ended."""

    name: str
    reason: Reason


@dataclass(frozen=True)
class RestoreModel:
    """An instance that was to leave takes calls again."""

    name: str


@dataclass(frozen=True)
class FailModel:
    """The model cannot be loaded on this server."""

    name: str
    problem: str


@dataclass(frozen=True)
class AnswerClient:
    """What a client waited for has happened; or `error`.

    `by_hand`: the client loads or unloads the model, rather than that a request needs it.
    """

    key: Hashable
    error: BraidError | None = None
    by_hand: bool = False


Decision = LoadModel | RetireModel | RestoreModel | FailModel | AnswerClient
