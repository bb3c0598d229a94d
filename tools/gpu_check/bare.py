"""A stand-in for onnx_ir on a machine without it, so that modules which lower graphs can be imported there.

Lowered graphs come from a pack, so nothing of onnx_ir is ever called; only names are looked up.
"""

from __future__ import annotations

import enum
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

STOOD_IN = ("onnx_ir", "onnx")


class DataType(enum.IntEnum):
    """onnx.TensorProto.DataType, as far as caches are concerned."""

    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    INT32 = 6
    INT64 = 7
    FLOAT16 = 10
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17

    @property
    def itemsize(self) -> int:
        return {1: 4, 6: 4, 7: 8, 10: 2, 16: 2}.get(int(self), 1)


class _Names(type):
    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Anything(metaclass=_Names):
    """Has every attribute, and may be a base class; making one is an error."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ImportError("onnx_ir is not installed here, and something besides a packed model needs it")


class _Module(ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return DataType if name == "DataType" else Anything


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        ours = name.split(".")[0] in STOOD_IN
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def stand_in_for_onnx_ir() -> None:
    """Does nothing where onnx_ir is installed."""
    if importlib.util.find_spec("onnx_ir") is None:
        sys.meta_path.append(_Finder())
