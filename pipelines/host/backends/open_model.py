"""Which engine opens a model's file: by its suffix, its device, and what the graph says.

Knows tables of engines; knows no engine, and no kind of model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from pipelines.host.backends.device_errors import ModelError, Unsupported

log = logging.getLogger(__name__)

CUDA = "cuda"
ENGINE_ADVICE = {
    CUDA: "NVIDIA GPUs run model.onnx; export it with braid export HF_FOLDER --format onnx --weights fp16.",
    "onnxruntime": "onnxruntime runs model.onnx; export it with braid export HF_FOLDER --format onnx.",
}
"""What an engine would have needed that a file is not."""


class EngineChoice(Protocol):
    """What a graph's line says of who is to run a file."""

    @property
    def device(self) -> str: ...

    @property
    def engine(self) -> str | None: ...


Settings = TypeVar("Settings", bound=EngineChoice)
Session = TypeVar("Session")
Opener = Callable[[Path, Settings], Session]
"""A file and what its line says of it → its session, or `ModelError`."""


def open_file(engines: Mapping[str, Opener[Settings, Session]], path: Path, settings: Settings) -> Session:
    """By the engine that the line asks for, else on cpu by the first that can.  Raises `ModelError`.

    `engines`: those that open files of this suffix, by name.
    """
    kind = CUDA if settings.device.startswith(CUDA) else settings.engine
    if kind == CUDA and settings.engine == "openvino":
        raise ModelError(f"device {settings.device} is run by onnxruntime; take `engine: openvino` out.")
    if kind is None:
        return _open_with_first(engines, path, settings)
    if kind not in engines:
        raise ModelError(f"{path.name}: {ENGINE_ADVICE[kind]}")
    return engines[kind](path, settings)


def log_opened_model(path: Path, facts: Mapping[str, object]) -> None:
    """Tell what was opened, and how it is run."""
    log.info("%s: %s", path, ", ".join(f"{name} {value}" for name, value in facts.items()))


def _open_with_first(
    engines: Mapping[str, Opener[Settings, Session]], path: Path, settings: Settings
) -> Session:
    """By the first of the engines on cpu that is installed and can run the file."""
    reasons: list[str] = []
    for name in (name for name in engines if name != CUDA):
        try:
            return engines[name](path, settings)
        except (Unsupported, ImportError) as error:
            log.warning("%s is not run by %s: %s", path, name, error)
            reasons.append(str(error))
        except ModelError as error:
            raise ModelError("; ".join([*reasons, str(error)])) from error
    raise ModelError("; ".join(reasons))
