"""Braid's own operators for OpenVINO, from the library that was compiled for this release of it."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import openvino as ov
from openvino.utils.node_factory import NodeFactory

from pipelines.base.digests import digest
from pipelines.inference.backends import cpu_kernels
from pipelines.inference.backends.cpu_kernels import kernel_library

log = logging.getLogger(__name__)
_libraries: dict[Path, OperatorLibrary] = {}  # that this process has loaded


@dataclass(frozen=True)
class OperatorLibrary:
    """A library that OpenVINO has loaded.

    `digest`: of its bytes.  `instructions`: the set that its kernels use on this processor, as avx512vnni;
    "none" where the processor has none of theirs.
    """

    path: Path
    digest: str
    instructions: str

    @property
    def title(self) -> str:
        return f"braid kernels {self.instructions} {self.digest}"

    @property
    def experts_s(self) -> float:
        """Seconds that layers of routed experts took in this process so far."""
        return float(_experts_ns(self.path)()) / 1e9

    def node(self, kind: str, inputs: Sequence[ov.Output], attributes: Mapping[str, Any]) -> ov.Node:
        """A node of an operator of the library.  Raises RuntimeError where it refuses the inputs."""
        return _factory(self.path).create(kind, list(inputs), dict(attributes))

    def add_to(self, core: ov.Core) -> None:
        """Let `core` read models that have such nodes; to compile them, it needs nothing."""
        core.add_extension(str(self.path))


@dataclass(frozen=True)
class LinearKernels:
    """What computes linear layers, and how many int8 numbers stand for an activation: 1 or 2 `levels`."""

    library: OperatorLibrary
    levels: int

    @property
    def title(self) -> str:
        return f"{self.library.title}, {'one level' if self.levels == 1 else 'two levels'}"


def find_kernels(levels: int) -> LinearKernels | None:
    """The kernels of this process; None without a library that loads and a processor that it is for."""
    path = kernel_library("openvino")
    if path is None:
        return None
    if path not in _libraries:
        loaded = _load(path)
        if loaded is None:
            return None
        _libraries[path] = loaded
    library = _libraries[path]
    return None if library.instructions == "none" else LinearKernels(library, levels)


@cache
def _report(path: Path, problem: str) -> None:
    """Log it once."""
    log.warning("%s cannot be loaded, linear layers are OpenVINO's: %s", path, problem)


def _load(path: Path) -> OperatorLibrary | None:
    """None for one that cannot be loaded now."""
    try:
        ov.Core().add_extension(str(path))
        library = ctypes.CDLL(str(path))
        read, pack_few = library.bl_isa, library.braid_pack_few
        library_digest = digest(path.read_bytes(), num_bytes=4)
    except (RuntimeError, OSError, AttributeError) as error:
        _report(path, str(error))
        return None
    if cpu_kernels.tries_models:
        pack_few(1)
    read.restype = ctypes.c_char_p
    return OperatorLibrary(path, library_digest, read().decode())


@cache
def _experts_ns(path: Path) -> Callable[[], int]:
    read: Callable[[], int] = ctypes.CDLL(str(path)).braid_experts_ns
    read.restype = ctypes.c_uint64  # type: ignore[attr-defined]
    return read


@cache
def _factory(path: Path) -> NodeFactory:
    factory = NodeFactory()
    factory.add_extension(str(path))
    return factory
