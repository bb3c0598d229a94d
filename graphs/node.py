"""What a node type is: a place, settings, and a `run` whose signature declares its ports."""

from __future__ import annotations

import inspect
import posixpath
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from graphs import paths

LARGEST = 1 << 53
"""The largest number in settings, in either direction."""
Place = Literal["request", "engine", "step"]

NOT_PORTS = frozenset({"self", "call"})
"""Parameters of `run` that are not ports: the node itself and the running call."""


class NodeConfig(BaseModel):
    """Settings of one line.  An unknown setting is an error, never ignored.

    `renamed`: former names of settings and what they are called now, for the error text.  `elsewhere`:
    settings that another node type has, and what to write instead.
    """

    renamed: ClassVar[Mapping[str, str]] = {}
    elsewhere: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*")
    @classmethod
    def _is_of_use(cls, value: Any) -> Any:
        """A number that arithmetic in 64 bits holds exactly."""
        if isinstance(value, int | float) and abs(value) > LARGEST:
            raise PydanticCustomError("too_large", "a number may be {largest} at most", {"largest": LARGEST})
        return value


class GraphPath(str):
    """A path in a graph file, relative to the graph's folder and inside it.

    Validation normalises it.  With a `folder` in pydantic's validation context it must also exist.
    """

    @staticmethod
    def find_fault(text: str, folder: Path | None) -> str | None:
        """What is wrong with it; without a folder only the text is checked."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_after_validator_function(cls._checked, core_schema.str_schema())

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "format": "path"}

    @classmethod
    def _checked(cls, text: str, info: ValidationInfo) -> Self:
        fault = cls.find_fault(text, (info.context or {}).get("folder"))
        if fault is not None:
            raise PydanticCustomError("file_path", "{fault}", {"fault": fault})
        return cls(posixpath.normpath(text))


class FilePath(GraphPath):
    """The path of a file."""

    @staticmethod
    def find_fault(text: str, folder: Path | None) -> str | None:
        return paths.fault(text, folder)


class FolderPath(GraphPath):
    """The path of a folder."""

    @staticmethod
    def find_fault(text: str, folder: Path | None) -> str | None:
        return paths.folder_fault(text, folder)


PathKind = TypeVar("PathKind", bound=GraphPath)


def named_paths(settings: Any, kind: type[PathKind]) -> Iterator[PathKind]:
    """The paths of one kind that the settings of a line name, nested ones too."""
    if isinstance(settings, kind):
        yield settings
    elif isinstance(settings, BaseModel):
        for _, value in settings:
            yield from named_paths(value, kind)


@dataclass(frozen=True)
class BodyContract:
    """What the body of an engine node may read and what its last line must give.

    `root` is the name by which the body's lines read the engine's value (`step`, `batch`).  `several`: each
    line that no other reads is a result of its own, by its name.
    """

    root: str
    gives: Any
    result: Any
    several: bool = False


class Node:
    """One node type.  A subclass declares `place`, `Config` and `run`; the checker reads nothing else.

    Life cycle: `__init__` stores the settings and opens no file, `load` opens what they name, `run` is called
    once per request (place `request`, `engine`) or once per step (place `step`), `close` releases everything.
    """

    place: ClassVar[Place] = "request"
    body: ClassVar[BodyContract | None] = None
    takes_long: ClassVar[bool] = False
    """Whether `run` may take so long that no event loop may wait for it."""
    run: Callable[..., Any]

    class Config(NodeConfig):
        """No settings."""

    def __init__(self, config: Any, folder: Path) -> None:
        self.config = config
        self.folder = folder

    def load(self, resources: Any) -> None:
        """Open files and compile models.  Raises what the file's reader raises."""

    def close(self) -> None:
        """Release what `load` opened; called once, after the last `run`."""


@dataclass(frozen=True)
class Port:
    """One input of a node: its type, and whether a line may omit it."""

    type: Any
    optional: bool


def inputs(node_type: type[Node], noted: bool = False) -> Mapping[str, Port]:
    """The inputs of a node type in the order of `run`'s parameters; `noted`: with what is beside a type in
    `Annotated`.
    """
    hints = _hints(node_type, noted)
    return {
        name: Port(hints[name], parameter.default is not inspect.Parameter.empty)
        for name, parameter in inspect.signature(_run_of(node_type)).parameters.items()
        if name not in NOT_PORTS
    }


def output(node_type: type[Node], noted: bool = False) -> Any:
    """The type of the value that a node gives: the return annotation of `run`."""
    return _hints(node_type, noted)["return"]


def _hints(node_type: type[Node], noted: bool) -> Mapping[str, Any]:
    """Resolved annotations of `run`'s ports and result; that of `call` is not resolved."""
    run = inspect.unwrap(_run_of(node_type))
    ports = {name: hint for name, hint in run.__annotations__.items() if name not in NOT_PORTS}
    holder = SimpleNamespace(__annotations__=ports)
    return typing.get_type_hints(holder, globalns=run.__globals__, include_extras=noted)


def _run_of(node_type: type[Node]) -> Callable[..., Any]:
    """The function of a node type whose signature declares its ports: `run`, else `compose`."""
    run: Callable[..., Any] = getattr(node_type, "run", None) or vars(node_type)["compose"]
    return run
