"""What every export shares: a folder complete or untouched, its tokenizer and settings, quiet libraries.

Knows transformers' files; knows nothing of tracing, graphs, repositories or the terminal.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

Stage = Callable[[str], None]
"""Hears what is being done."""

TOKENIZER = "tokenizer.json"
SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)
"""Files a served model may have beside its weights; written by transformers when the model has them."""

NEWER_TOKENIZER = "TokenizersBackend"
"""What transformers 5 calls every tokenizer that is just a tokenizer.json."""

LOGGERS = ("transformers", "optimum", "nncf", "torch", "onnxscript", "onnx_ir")


class ExportError(Exception):
    """The model cannot be exported as asked; the message says what was tried."""


@contextlib.contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """An empty folder on `folder`'s disk, gone afterwards: what is made there is renamed, not copied."""
    beside = next(parent for parent in folder.resolve().parents if parent.is_dir())
    with tempfile.TemporaryDirectory(dir=beside, prefix=".export-") as scratch:
        yield Path(scratch)


def put(made: Path, folder: Path) -> None:
    """Let the finished folder `made` take the place of `folder`."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made.rename(folder)


def write_tokenizer(source: str, folder: Path) -> Any:
    """Write tokenizer.json and the chat template, converting a slow tokenizer where transformers can.

    Gives back the tokenizer.  Raises `ExportError`.
    """
    try:
        tokenizer = _read_tokenizer(source)
    except Exception as error:
        raise ExportError(_tried(source, error)) from error
    if not tokenizer.is_fast:
        raise ExportError(
            f"{source} has no {TOKENIZER}, which serving needs, and transformers cannot make one from its "
            f"{type(tokenizer).__name__}."
        )
    tokenizer.save_pretrained(folder)
    return tokenizer


def _read_tokenizer(source: str) -> Any:
    """The tokenizer by its class's name, or by its file where transformers 5 wrote a name of its own."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except ValueError as error:
        if NEWER_TOKENIZER not in str(error):
            raise
        return PreTrainedTokenizerFast.from_pretrained(source, extra_special_tokens={})


def check_positions(source: str) -> None:
    """Raise `ExportError` where the installed transformers would not read the model's rotary positions.

    Version 5 writes them as `rope_parameters`; version 4 passes over that, and takes its own defaults.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(source, trust_remote_code=False).get_text_config()
    newer = getattr(config, "rope_parameters", None) or {}
    theta, kind = newer.get("rope_theta"), newer.get("rope_type", "default")
    by_layer = any(isinstance(value, dict) for value in newer.values())
    is_read = theta in (None, getattr(config, "rope_theta", None))
    if by_layer or not is_read or (kind != "default" and not getattr(config, "rope_scaling", None)):
        raise ExportError(
            f"{source}: its config.json was written by transformers 5, and the version that exports does not "
            "read its rope_parameters; write them as rope_theta and rope_scaling"
        )


def read_config(source: str) -> dict[str, Any]:
    """config.json of a local folder or a hub id, as it is; raises what transformers raises."""
    from transformers import PretrainedConfig

    config, _ = PretrainedConfig.get_config_dict(source)
    config.pop("_commit_hash", None)
    return dict(config)


def _tried(source: str, error: Exception) -> str:
    """Why nothing could be read, and where it was looked for."""
    said = first_line(error)
    if Path(source).is_dir() and not (Path(source) / SETTINGS[0]).is_file():
        return f"{source} has no {SETTINGS[0]}: it is not the folder of a Hugging Face model"
    if Path(source).is_dir():
        return f"{source} has no tokenizer that transformers can read: {said}"
    return f"there is no folder {Path(source).resolve()}, and {source} could not be had as a hub id: {said}"


def first_line(error: Exception) -> str:
    """The first line of what a library says, or the error's name where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep tracing's warnings and logs off the terminal: they are about torch, not the model.

    Nor is anything told to the makers of the libraries.
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
    """Let OpenVINO's converter send no reports of its use: each would fork this process besides."""
    try:
        from openvino_telemetry.utils.sender import TelemetrySender
    except ImportError:
        yield
        return
    with mock.patch.object(TelemetrySender, "send"):
        yield
