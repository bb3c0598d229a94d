"""Parts that all exports share: atomic folders, tokenizer and settings files, and quiet libraries."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from pipelines.repository.exports.export_files import architectures
from pipelines.repository.exports.vision_graph import sees

Stage = Callable[[str], None]
"""Called with each stage of the work."""

TOKENIZER = "tokenizer.json"
SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)
"""Optional files of a served model, written by transformers if the model has them."""

READY = (
    "where the repository has an onnx/model.onnx, `braid new-graph` serves its folder as it is, else take a "
    "model that transformers itself has"
)
SEEING = (
    "optimum-cli export openvino --task image-text-to-text --trust-remote-code does, and Braid serves the "
    "folder that it writes"
)
"""What to do with a model whose code is in its repository."""
LOGGERS = ("transformers", "optimum", "nncf", "torch", "onnxscript", "onnx_ir")


class ExportError(Exception):
    """The model cannot be exported as requested; the message has the reason."""


@contextlib.contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """A temporary folder on the disk of `folder`, so that results can be renamed instead of copied."""
    parent_folder = next(parent for parent in folder.resolve().parents if parent.is_dir())
    with tempfile.TemporaryDirectory(dir=parent_folder, prefix=".export-") as scratch:
        yield Path(scratch)


def put(made: Path, folder: Path) -> None:
    """Replace `folder` by the finished folder `made`."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made.rename(folder)


def check_code(source: str, config: dict[str, Any]) -> None:
    """Raise `ExportError` for a model that is computed by code of its repository, not by transformers."""
    import transformers

    own = config.get("auto_map") or {}
    place, _, name = str(own.get("AutoModel", "")).rpartition(".")
    names = [*architectures(config), *([name] if name else [])]
    foreign = [name for name in names if not hasattr(transformers, name)]
    if own and (foreign or config.get("is_causal") is False):
        advice = SEEING if sees(config) else READY
        raise ExportError(
            f"{source}: {(foreign or names)[0]} is code of its repository (auto_map in config.json"
            f"{f': {place}.py' if place else ''}), which Braid does not run; {advice}"
        )


def read_config(source: str) -> dict[str, Any]:
    """The config.json of a local folder or a hub id, unchanged.  Raises the exceptions of transformers."""
    from transformers import PretrainedConfig

    config, _ = PretrainedConfig.get_config_dict(source)
    config.pop("_commit_hash", None)
    return dict(config)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object.  Raises `ExportError`."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExportError(f"{path} is needed and cannot be read: {error}") from error
    if not isinstance(fields, dict):
        raise ExportError(f"{path} holds no JSON object")
    return fields


def has_transformers() -> bool:
    """Whether an export can be compared with its source by transformers."""
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def first_line(error: Exception) -> str:
    """The first line of an error's text, or the error's name when the text is empty."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide warnings and logs of tracing, which are about torch and not the model.

    Also disables the telemetry of the libraries.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), _unreported():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextlib.contextmanager
def _unreported() -> Iterator[None]:
    """Disable the telemetry of OpenVINO's converter, which also forks this process."""
    try:
        from openvino_telemetry.utils.sender import TelemetrySender
    except ImportError:
        yield
        return
    with mock.patch.object(TelemetrySender, "send"):
        yield
