"""`braid check`: which layers of the decoders in a folder Braid's own CPU kernels would compute.

Graphs are read, and no weight is packed or computed with.  It is a process of its own, because a model may
end it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from pipelines.inference.backends.openvino.decoder.read_decoder import ReadDecoder, read_decoder
from pipelines.inference.backends.openvino.open_decoder import settings_of
from pipelines.inference.backends.registry import CPU, DECODERS
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.repository.model_folders import ModelFolder, scan
from tools.run_check import decoders

OPENVINO = "openvino"


@click.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
def main(folder: Path) -> None:
    """Print a line for each decoder on the CPU of a folder of models, or of one model."""
    for model in scan(folder):
        with suppress(click.ClickException):  # which `braid check` has printed
            show(model)


def show(model: ModelFolder) -> None:
    for line in decoders(model):
        path = model.opened().path / line.config.path
        if line.config.device == "cpu" and (line.config.engine or default_engine(path)) == OPENVINO:
            click.echo(f"{model.name}: {layers(path, line.config.settings())}")


def default_engine(path: Path) -> str | None:
    """The engine of a decoder's file on the CPU where its line names none."""
    return next((opener.engine for opener in DECODERS if opener.runs_on(CPU) and opener.opens(path)), None)


def layers(path: Path, settings: DecoderSettings) -> str:
    """How many linear layers and experts the kernels compute, or why nothing is known."""
    own = settings_of(settings)
    if own.kernels is None:
        return "linear layers by openvino, as its graph asks"
    try:
        return _counted(read_decoder(path, own))
    except (ModelError, RuntimeError, OSError) as error:
        return f"not read: {error}"


def _counted(read: ReadDecoder) -> str:
    linears = f"linear layers {read.block_linears.title}"
    if not read.experts.count:
        return linears
    return f"{linears}; layers of experts {read.experts.by_kernels} of {read.experts.count}"


if __name__ == "__main__":
    main()
