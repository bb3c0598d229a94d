"""Models with an encoder and a decoder → a folder with encoder.onnx and decoder.onnx, from plain weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import onnx_ir as ir

from tools.export.base.folder import ExportError, Stage, put, scratch_beside
from tools.export.graphs.quantizing import BITS, quantize

Writer = Callable[[Path, str], None]
"""Writes a file of this name, with its data beside it, to a folder."""
OPTIONS: dict[str, tuple[object, ...]] = {
    "task": ("auto",),
    "form": ("auto", "onnx"),
    "weights": ("int8", "fp32"),
    "activations": (None,),
    "answers": (None,),
    "template": (None,),
}
"""Option of the command line → what it may be for such a model."""


def check_options(context: click.Context, what: str) -> None:
    """Raise click's error for an option that says something else about the export of `what` model."""
    for option in context.command.params:
        allowed = OPTIONS.get(option.name or "")
        if allowed and context.params[option.name or ""] not in allowed:
            words = ", ".join(str(each) for each in allowed if each)
            may = f"may be {words}" if words else "says nothing"
            raise click.BadParameter(f"of {what} model it {may}", context, option)


def write_files(
    source: Path,
    folder: Path,
    writers: Mapping[str, Writer],
    weights: str,
    files: Mapping[str, Any],
    stage: Stage,
    check: Callable[[Path], None],
) -> None:
    """Write the model to `folder`, which is complete or untouched: files of JSON and one of each writer.

    `weights`: int8 or fp32.  `check` is called with the finished folder.  Raises `ExportError`.
    """
    with scratch_beside(folder) as scratch:
        model_folder = scratch / "model"
        model_folder.mkdir()
        for name, write in writers.items():
            stage(f"writing the {name}")
            try:
                _write(write, name, weights, model_folder, scratch)
            except (KeyError, ValueError) as error:
                raise ExportError(f"{source} is not what its config.json describes: {error}") from error
        for name, fields in files.items():
            (model_folder / name).write_text(json.dumps(fields, ensure_ascii=False), encoding="utf-8")
        check(model_folder)
        put(model_folder, folder)


def _write(write: Writer, name: str, weights: str, folder: Path, scratch: Path) -> None:
    """Write `name`.onnx and its data to `folder`, for int8 from its plain form in `scratch`."""
    if weights not in BITS:
        write(folder, name)
        return
    write(scratch, name)
    graph = quantize(ir.load(scratch / f"{name}.onnx"), weights)
    ir.save(graph, folder / f"{name}.onnx", external_data=f"{name}.onnx.data", alignment=4096)
    (scratch / f"{name}.onnx.data").unlink()
