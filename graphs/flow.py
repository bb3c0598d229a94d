"""Types of values: which type fits which port, which fields a type has, how it is written in messages."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

_UNIONS = (typing.Union, types.UnionType)


@dataclasses.dataclass(frozen=True)
class OneOf:
    """A port type that takes a value of any of `kinds`; messages call it `words`."""

    words: str
    kinds: tuple[Any, ...]


def accepts(want: Any, have: Any) -> bool:
    """True if every value of type `have` may flow into a port of type `want`.

    `Any` on either side fits.  Arguments of generics are compared one by one and may be narrower, since a
    node never changes its inputs in place.
    """
    if want is Any or have is Any or want == have:
        return True
    if isinstance(want, OneOf):
        want = typing.Union[want.kinds]  # noqa: UP007  # of a tuple
    if typing.get_origin(have) in _UNIONS:
        return all(accepts(want, kind) for kind in typing.get_args(have))
    if typing.get_origin(want) in _UNIONS:
        return any(accepts(kind, have) for kind in typing.get_args(want))
    if hasattr(have, "__supertype__"):  # NewType: a name for a plainer type
        return accepts(want, have.__supertype__)
    wanted, had = typing.get_origin(want) or want, typing.get_origin(have) or have
    if not (isinstance(wanted, type) and isinstance(had, type) and issubclass(had, wanted)):
        return False
    want_args, have_args = typing.get_args(want), _arguments(have, wanted)
    if not want_args or not have_args:  # a bare generic is one of Any
        return True
    return len(want_args) == len(have_args) and all(map(accepts, want_args, have_args))


def _arguments(have: Any, generic: type) -> tuple[Any, ...]:
    """The type arguments with which `have` is a `generic`; () where they are not declared."""
    base, arguments = typing.get_origin(have) or have, typing.get_args(have)
    if base is generic:
        return arguments
    known = dict(zip(getattr(base, "__parameters__", ()), arguments, strict=False))
    for parent in getattr(base, "__orig_bases__", ()):
        origin = typing.get_origin(parent)
        if isinstance(origin, type) and issubclass(origin, generic):
            if free := parent.__parameters__:
                parent = parent[tuple(known.get(parameter, Any) for parameter in free)]
            return _arguments(parent, generic)
    return arguments


def holds(kind: Any, generics: tuple[type, ...]) -> bool:
    """Whether a type is one of `generics`, or has one among its arguments."""
    if kind in generics or typing.get_origin(kind) in generics:
        return True
    return any(holds(argument, generics) for argument in typing.get_args(kind))


def fields(kind: Any) -> Mapping[str, Any]:
    """The fields that `name.field` may read from a value of type `kind`: none unless it is a record."""
    if not isinstance(kind, type):
        return {}
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    else:
        marks = ("model_fields", "__struct_fields__", "_fields")  # pydantic, msgspec, named tuple
        names = list(next((getattr(kind, mark) for mark in marks if hasattr(kind, mark)), ()))
    hints = typing.get_type_hints(kind) if names else {}
    return {name: hints.get(name, Any) for name in names}


def show(kind: Any) -> str:
    """A type as it is written in code, without its modules: `Stream[list[Tokens]] | None`."""
    if kind is None or kind is type(None):
        return "None"
    if isinstance(kind, OneOf):
        return kind.words
    args = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if origin in _UNIONS:
        return " | ".join(map(show, args))
    if origin is typing.Literal:
        return " | ".join(map(repr, args))
    if origin is not None and args:
        return f"{show(origin)}[{', '.join(map(show, args))}]"
    if kind is Ellipsis:
        return "..."
    return str(getattr(kind, "__name__", kind))
