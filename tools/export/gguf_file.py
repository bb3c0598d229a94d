"""A GGUF file → a model folder with a graph.yaml; its weights keep their bits."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from tools.export.base.folder import ExportError, Stage, put, scratch_beside

SUFFIX = ".gguf"
ONLY = ("source", "name", "models", "out", "first_run", "cache", "mmproj")
"""What the command line takes for a GGUF file."""


def is_gguf(source: str) -> bool:
    return source.endswith(SUFFIX)


def check_options(context: click.Context) -> None:
    """Raise click's error for options that say something about the export of a Hugging Face folder."""
    for option in context.command.params:
        name = option.name or ""
        if name not in ONLY and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.BadParameter(
                "a GGUF file is taken as it is; this option is for Hugging Face folders", context, option
            )


def export_gguf(source: Path, folder: Path, stage: Stage, mmproj: Path | None = None) -> None:
    """Write the model of the file `source` to `folder`; it reads images with `mmproj`, or with such a file
    beside it.  Raises `ExportError`.
    """
    from pipelines.gguf.convert import INT8_SUMS, convert
    from pipelines.gguf.projector_files import find_projector

    with scratch_beside(folder) as scratch:
        stage("converting the file")
        try:
            convert(source, scratch / "model", INT8_SUMS, mmproj or find_projector(source))
        except (OSError, ValueError) as error:
            raise ExportError(str(error)) from error
        put(scratch / "model", folder)
