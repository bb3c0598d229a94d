"""A Whisper model → a folder that Braid serves: encoder.onnx, decoder.onnx, and what its graph reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import onnx_ir as ir

from pipelines.whisper.decoder import write_decoder
from pipelines.whisper.encoder import write_encoder
from tools.export.folder import ExportError, Stage, put, scratch_beside
from tools.export.quantizing import BITS, quantize
from tools.export.speech.frames_check import check_frames, is_possible
from tools.export.speech.whisper_folder import read_whisper

WRITERS = {"encoder": write_encoder, "decoder": write_decoder}
OPTIONS: dict[str, tuple[object, ...]] = {
    "task": ("auto",),
    "form": ("auto", "onnx"),
    "weights": ("int8", "fp32"),
    "activations": (None,),
    "answers": (None,),
    "template": (None,),
}
"""Option of the command line → what it may be for a Whisper model."""


def check_options(context: click.Context) -> None:
    """Raise click's error for an option that says something else about the export."""
    for option in context.command.params:
        allowed = OPTIONS.get(option.name or "")
        if allowed and context.params[option.name or ""] not in allowed:
            words = ", ".join(str(each) for each in allowed if each)
            may = f"may be {words}" if words else "says nothing"
            raise click.BadParameter(f"of a Whisper model it {may}", context, option)


def export_whisper(source: Path, folder: Path, weights: str, stage: Stage) -> None:
    """Write the model of the folder `source` to `folder`, which is complete or untouched.

    `weights`: int8 or fp32.  Where transformers is installed, the encoder's frames are compared with its own.
    Raises `ExportError`.
    """
    stage("reading the model")
    model = read_whisper(source)
    with scratch_beside(folder) as scratch:
        made = scratch / "model"
        made.mkdir()
        for name, write in WRITERS.items():
            stage(f"writing the {name}")
            try:
                _write(partial(write, model.weights, model.config), name, weights, made, scratch)
            except (KeyError, ValueError) as error:
                raise ExportError(f"{source} is not what its config.json describes: {error}") from error
        if is_possible():
            stage("comparing its frames with those of transformers")
            check_frames(made / "encoder.onnx", model.weights, model.config, weights)
        for name, fields in model.files.items():
            (made / name).write_text(json.dumps(fields, ensure_ascii=False), encoding="utf-8")
        put(made, folder)


def _write(write: Callable[[Path, str], None], name: str, weights: str, folder: Path, scratch: Path) -> None:
    """Write `name`.onnx and its data to `folder`, for int8 from its plain form in `scratch`."""
    if weights not in BITS:
        write(folder, name)
        return
    write(scratch, name)
    graph = quantize(ir.load(scratch / f"{name}.onnx"), weights)
    ir.save(graph, folder / f"{name}.onnx", external_data=f"{name}.onnx.data", alignment=4096)
    (scratch / f"{name}.onnx.data").unlink()
