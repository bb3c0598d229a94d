"""`braid run-batch`: a file of requests without a server, with the options of `vllm run-batch`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("run-batch")
@click.option(
    "-i",
    "--input-file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of requests, one as JSON in each line, as the Batch API takes them.",
)
@click.option("-o", "--output-file", required=True, type=FILE, help="File of results, in the same order.")
@click.option(
    "--models",
    show_default="model_repo",
    type=click.Path(exists=True, path_type=Path),
    help="Folder of models, or one GGUF file.",
)
@click.option("--model", metavar="NAME", help="Model of all requests, instead of those that they name.")
@click.option("--device", metavar="cpu|cuda:0", help="Device for every model.")
def run_batch(
    input_file: Path, output_file: Path, models: Path | None, model: str | None, device: str | None
) -> None:
    """Run a file of requests without a server.

    What has been computed is in OUTPUT_FILE.progress until the end: the same command goes on where an earlier
    one was stopped or killed.  Exits with 0 when every request has a result, also where it is an error, and
    with 1 when the input is invalid.
    """
    from server.app import batch_worker
    from server.base.environment import SettingsError, read_settings
    from server.offline_batch import InvalidInput, Progress, run_alone

    environment = {"BRAID_MODELS": models, "BRAID_DEVICE": device}
    os.environ.update({name: str(value) for name, value in environment.items() if value is not None})
    os.environ.setdefault("BRAID_LOG_LEVEL", "warning")
    try:
        settings = read_settings()
        with click.progressbar(length=0, label="requests", show_pos=True, file=sys.stderr) as bar:

            def show(progress: Progress) -> None:
                bar.length = progress.total
                bar.update(progress.done - bar.pos)

            ended = asyncio.run(run_alone(settings, input_file, output_file, model, show, batch_worker))
    except (SettingsError, InvalidInput, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException("stopped; the same command goes on with the rest") from None
    click.echo(f"{ended.total} requests, {ended.failed} failed; wrote {output_file}")
