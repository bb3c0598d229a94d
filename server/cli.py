"""The command `braid`: reads the command line and calls what does the work, imported by each command alone.

Knows options and texts for people; knows nothing of graphs, engines or HTTP.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pipelines.inspection import Finding

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from server.version import VERSION

        click.echo(f"braid {VERSION}")
        ctx.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    callback=_version,
    expose_value=False,
    is_eager=True,
    help="Show the version and exit.",
)
def main() -> None:
    """Serve language models as declarative graphs."""


@main.command()
@click.option("--host", show_default="127.0.0.1", help="Address to listen at.")
@click.option("--port", show_default="8000", type=click.IntRange(0, 65535), help="Port to listen at.")
@click.option("--models", show_default="model_repo", type=FOLDER, help="Folder of models.")
@click.option("--device", metavar="cpu|cuda:0", help="Run every model here, whatever its graph says.")
@click.option("--workers", show_default="2", type=click.IntRange(1, 256), help="Processes that speak HTTP.")
@click.option("--api-key", "api_keys", multiple=True, help="Key that clients must send; may be repeated.")
@click.option("--in-process", is_flag=True, help="The engine is a thread of the only worker.")
@click.argument("gunicorn", nargs=-1, type=click.UNPROCESSED, metavar="[-- GUNICORN_OPTIONS]")
def serve(
    host: str | None,
    port: int | None,
    models: Path | None,
    device: str | None,
    workers: int | None,
    api_keys: tuple[str, ...],
    in_process: bool,
    gunicorn: tuple[str, ...],
) -> None:
    """Serve every model of a folder.

    Options that are not given are read from the environment, BRAID_HOST, BRAID_PORT and so on; further
    variables are in docs/settings.md.  Arguments after -- are passed to gunicorn.
    """
    if any(re.search(r"[,\s]", key) or not key for key in api_keys):
        raise click.UsageError("--api-key: a key is not empty and holds neither commas nor spaces")
    given = {
        "BRAID_HOST": host,
        "BRAID_PORT": port,
        "BRAID_MODELS": models,
        "BRAID_DEVICE": device,
        "BRAID_WORKERS": workers,
        "BRAID_API_KEYS": "\n".join(api_keys) or None,
        "BRAID_IN_PROCESS": "1" if in_process else None,
    }
    _become_gunicorn({name: str(value) for name, value in given.items() if value is not None}, gunicorn)


def _become_gunicorn(environment: Mapping[str, str], options: tuple[str, ...]) -> None:
    """Replace this process, so that signals reach gunicorn itself."""
    config = Path(__file__).with_name("gunicorn_conf.py")
    command = [sys.executable, "-m", "gunicorn", "-c", str(config), *options]
    sys.stdout.flush()
    os.execve(sys.executable, command, {**os.environ, **environment})


def _default_models() -> Path:
    """The folder that `serve` would serve."""
    from server.settings import SettingsError, read_settings

    try:
        return read_settings().models
    except SettingsError as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.argument("folder", metavar="[DIR]", required=False, type=FOLDER)
def check(folder: Path | None) -> None:
    """Check and draw the graphs of a folder, or one model.

    Exits with 1 when any has problems, and prints every one of them.
    """
    from pipelines.inspection import inspect

    folder = folder or _default_models()
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder}")
    findings = inspect(folder)
    if not findings:
        raise click.ClickException(f"{folder} holds no folder with a graph.yaml or an exported model")
    for finding in findings:
        click.echo(_told(finding))
    bad = sum(finding.graph is None for finding in findings)
    click.echo(f"{len(findings)} checked, {bad} with problems")
    sys.exit(1 if bad else 0)


def _told(finding: Finding) -> str:
    """The drawing of a good model, the problems of a bad one, below a line with its name."""
    made = "" if finding.written else "  (no graph.yaml: this is what `braid new-graph` writes for it)"
    rule = f"── {finding.name}{made} ".ljust(100, "─")
    if finding.graph is not None:
        return f"{rule}\n{finding.text()}"
    return "\n".join([rule, *finding.problems, ""])


@main.command()
@click.argument("model", metavar="NAME_OR_DIR")
@click.option("--models", show_default="model_repo", type=FOLDER, help="Folder of models.")
def draw(model: str, models: Path | None) -> None:
    """Draw one model's graph as a mermaid flowchart."""
    from pipelines.inspection import find

    try:
        finding = find(model, models or _default_models())
    except LookupError as error:
        raise click.ClickException(str(error)) from error
    if finding.graph is None:
        raise click.ClickException("\n".join(["the graph has problems:", *finding.problems]))
    click.echo(finding.mermaid(), nl=False)


@main.command("new-graph")
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--force", is_flag=True, help="Replace a graph.yaml that is there.")
def new_graph(folder: Path, force: bool) -> None:
    """Write the graph.yaml of a folder with an exported model."""
    from pipelines.repository.new_graph import new_graph as graph_for

    file = folder / "graph.yaml"
    if file.exists() and not force:
        raise click.ClickException(f"{file} is there already; --force replaces it")
    try:
        text = graph_for(folder)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    file.write_text(text, encoding="utf-8")
    click.echo(f"wrote {file}")


@main.command()
def schema() -> None:
    """Print the JSON Schema of graph.yaml, for editors."""
    from pipelines.inspection import schema_text

    click.echo(schema_text(), nl=False)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]…")
def export(arguments: tuple[str, ...]) -> None:
    """Export a model for serving; --help shows its options.

    Needs the extra `export`.
    """
    # a process of its own: torch is imported there and never here
    sys.exit(subprocess.call([sys.executable, "-m", "tools.export", *arguments]))


if __name__ == "__main__":
    main()
