"""What the loader reports to the host, which reads it from its inbox: models found, loaded, failed, gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.base.errors import BraidError
from pipelines.host.adapters.adapter_discovery import AdaptersFound
from pipelines.host.models.model import HostModel
from pipelines.host.models.residents import Terms
from pipelines.repository.model_folders import ModelFolder
from pipelines.repository.snapshot import Snapshot
from pipelines.wire.messages import GraphText


@dataclass(frozen=True)
class Loaded:
    """A folder was loaded.  The reader of this event owns `model` and `snapshot`.

    `graphs` holds the texts of its graph and of all that it names, as they were checked; `num_bytes` is what
    the model takes.
    """

    folder: ModelFolder
    model: HostModel
    snapshot: Snapshot
    graphs: Mapping[str, GraphText]
    seconds: float
    num_bytes: int = 0


@dataclass(frozen=True)
class LoadFailed:
    """A folder could not be loaded; `problems` are written for the author of the folder."""

    folder: ModelFolder
    problems: list[str]


@dataclass(frozen=True)
class Restored:
    """A folder that could not be loaded is again what was loaded before."""

    name: str


@dataclass(frozen=True)
class Removed:
    """A name is no longer in the repository."""

    name: str


@dataclass(frozen=True)
class Scanned:
    """The repository was looked at, for the `number`th time; `found` is new, changed or to be tried again.

    `error`: it could not be read, so that nothing has changed.
    """

    number: int
    found: list[tuple[ModelFolder, Terms]]
    error: BraidError | None = None


@dataclass(frozen=True)
class Progressed:
    """A report of the load of `name`: its current task, and the share of it that is done, from 0 to 1."""

    name: str
    what: str
    share: float


Event = Loaded | LoadFailed | Progressed | Restored | Removed | Scanned | AdaptersFound
