"""Which values may flow where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar, Union

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import BaseModel

from graphs.flow import accepts, fields, show

T = TypeVar("T")
Word = NewType("Word", str)


class Stream(Generic[T]):
    pass


class WordStream(Stream[str]):
    pass


class Named(Stream[T], Generic[T]):
    pass


class Animal:
    pass


class Dog(Animal):
    pass


@pytest.mark.parametrize(
    ("want", "have"),
    [
        (int, int),
        (Any, int),
        (int, Any),
        (Animal, Dog),
        (object, Dog),
        (int | None, int),
        (Optional[int], None.__class__),  # noqa: UP045
        (Union[int, str], str),  # noqa: UP007
        (int | str, int | str),
        (int | str | None, int | None),
        (list[Animal], list[Dog]),
        (list, list[int]),
        (list[int], list),
        (list[Any], list[int]),
        (Sequence[int], list[int]),
        (Iterable[Animal], list[Dog]),
        (Mapping[str, int], dict[str, int]),
        (Stream[str], Stream[str]),
        (Stream[Animal], Stream[Dog]),
        (Stream[str], WordStream),
        (Stream, WordStream),
        (Stream[int], Named[int]),
        (str, Word),
        (Word, Word),
        (tuple[int, ...], tuple[int, ...]),
        (Literal["a"], Literal["a"]),
        (NDArray[np.float32], NDArray[np.float32]),
        (np.ndarray, NDArray[np.float32]),
    ],
)
def test_fits(want, have):
    assert accepts(want, have)


@pytest.mark.parametrize(
    ("want", "have"),
    [
        (int, str),
        (Dog, Animal),
        (int, int | None),
        (int | str, float),
        (list[int], list[str]),
        (list[Dog], list[Animal]),
        (list[int], int),
        (int, list[int]),
        (Sequence[int], list[str]),
        (Stream[int], Stream[str]),
        (Stream[int], WordStream),
        (Stream[int], Named[str]),
        (WordStream, Stream[str]),
        (Word, str),
        (tuple[int, int], tuple[int]),
        (Literal["a"], Literal["b"]),
        (Mapping[str, int], dict[str, str]),
        (NDArray[np.float32], NDArray[np.int64]),
        (list[list[int]], list[list[str]]),
        (None.__class__, int),
    ],
)
def test_does_not_fit(want, have):
    assert not accepts(want, have)


@dataclass
class Record:
    query: str
    documents: list[str]


class Modelled(BaseModel):
    query: str


class Struct(msgspec.Struct):
    query: str


class Pair(NamedTuple):
    query: str


class Plain:
    query: str


@pytest.mark.parametrize("kind", [Record, Modelled, Struct, Pair])
def test_records_have_fields(kind):
    assert fields(kind)["query"] is str


@pytest.mark.parametrize("kind", [Plain, int, list[int], Any, Record | None])
def test_other_types_have_none(kind):
    assert fields(kind) == {}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int, "int"),
        (None, "None"),
        (Any, "Any"),
        (list[Record], "list[Record]"),
        (Stream[list[int]], "Stream[list[int]]"),
        (int | None, "int | None"),
        (Literal["a", "b"], "'a' | 'b'"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Word, "Word"),
    ],
)
def test_show(kind, text):
    assert show(kind) == text
