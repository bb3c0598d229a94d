"""Chooses the engine that opens a model file, by the file's suffix, the device and the graph's settings.

Does not depend on an engine or on a kind of model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from pipelines.host.contracts.device_errors import ModelError, NothingToAdapt, Unsupported

log = logging.getLogger(__name__)

CUDA = "cuda"
ENGINE_ADVICE = {
    CUDA: "NVIDIA GPUs run model.onnx; export it with braid export HF_FOLDER --format onnx --weights fp16. "
    "Models that see images run on cpu alone, as OpenVINO IR.",
    "onnxruntime": "onnxruntime runs model.onnx; export it with braid export HF_FOLDER --format onnx.",
}
"""Engine → what to do when it cannot open a file of this suffix."""


class EngineChoice(Protocol):
    """The settings of a graph's line that choose the engine."""

    @property
    def device(self) -> str: ...

    @property
    def engine(self) -> str | None: ...


Settings = TypeVar("Settings", bound=EngineChoice)
Session = TypeVar("Session")
Opener = Callable[[Path, Settings], Session]
"""Opens a session from a file and its settings, or raises `ModelError`."""


def open_file(engines: Mapping[str, Opener[Settings, Session]], path: Path, settings: Settings) -> Session:
    """Open a file with the engine from the settings; without one, with the first engine on cpu that can.

    `engines`: the engines that open files of this suffix, by name.  Raises `ModelError`.
    """
    kind = CUDA if settings.device.startswith(CUDA) else settings.engine
    if kind == CUDA and settings.engine == "openvino":
        raise ModelError(f"device {settings.device} is run by onnxruntime; remove `engine: openvino`.")
    if kind is None:
        return _open_with_first(engines, path, settings)
    if kind not in engines:
        raise ModelError(f"{path.name}: {ENGINE_ADVICE[kind]}")
    return engines[kind](path, settings)


def open_for_adapters(
    targets: tuple[str, ...], found: tuple[str, ...], open_with: Callable[[tuple[str, ...]], Session]
) -> Session:
    """What `open_with` opens for the `targets` of a graph, or else for what its adapters change, `found`.

    Where a model has nothing of the latter, as ends on a GPU, it is opened for all products, and its adapters
    are refused one by one.
    """
    try:
        return open_with(targets or found)
    except NothingToAdapt:
        if targets or not found:
            raise
        return open_with(())


def log_opened_model(path: Path, facts: Mapping[str, object]) -> None:
    """Log which model was opened and how it is run."""
    log.info("%s: %s", path, ", ".join(f"{name} {value}" for name, value in facts.items()))


def _open_with_first(
    engines: Mapping[str, Opener[Settings, Session]], path: Path, settings: Settings
) -> Session:
    """Try the engines on cpu in order; use the first that is installed and can run the file."""
    reasons: list[str] = []
    for name in (name for name in engines if name != CUDA):
        try:
            return engines[name](path, settings)
        except (Unsupported, ImportError) as error:
            log.warning("%s cannot be run by %s: %s", path, name, error)
            reasons.append(str(error))
        except ModelError as error:
            raise type(error)("; ".join([*reasons, str(error)])) from error
    raise ModelError("; ".join(reasons))
