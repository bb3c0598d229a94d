"""The command line `braid`.  Each command imports the code that it needs when it runs."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from server.client_commands import PROGRAMS, RUN_MODULE, client_command
from server.doctor_command import doctor
from server.gunicorn_start import become_gunicorn
from server.index_command import index
from server.keys_command import keys
from server.ovms_command import ovms
from server.pull_command import PullTerms, hub_options, pull
from server.run_batch_command import run_batch

if TYPE_CHECKING:
    from pipelines.loading.inspection import Finding
    from server.base.settings import Settings

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
MODELS = click.Path(exists=True, path_type=Path)
FILES = (".gguf", ".json")
"""What a repository may be besides a folder: a GGUF file, or a config.json of OpenVINO Model Server."""


def _version(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    if is_set and not ctx.resilient_parsing:
        from server.base.version import VERSION

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
    """Serve generative, embedding and pooling models as declarative graphs."""


@main.command()
@click.option("--host", show_default="127.0.0.1", help="Address to listen at.")
@click.option("--port", show_default="8000", type=click.IntRange(0, 65535), help="Port to listen at.")
@click.option("--grpc-port", type=click.IntRange(1, 65535), help="Port of KServe's protocol over gRPC.")
@click.option(
    "--models",
    show_default="model_repo",
    type=MODELS,
    help="Folder of models, one GGUF file, or config.json.",
)
@click.option(
    "--device", metavar="cpu|cuda:0", help="Device for every model, instead of those in the graphs."
)
@click.option(
    "--workers", show_default="2", type=click.IntRange(1, 256), help="Worker processes, which handle HTTP."
)
@click.option("--api-key", "api_keys", multiple=True, help="Key that clients must send; may be repeated.")
@click.option("--admin-key", "admin_keys", multiple=True, help="Key to load and unload models with.")
@click.option("--max-loaded-gb", type=float, help="Most GiB that loaded models take; others wait.")
@click.option("--load-timeout", type=float, show_default="60", help="Seconds that a request waits for that.")
@click.option("--load-on-request", is_flag=True, help="Load models at their first request, not at start.")
@click.option("--idle-unload", type=float, metavar="S", help="Unload models without calls for S seconds.")
@click.option("--poll-models", type=float, metavar="S", help="Look for changed models every S seconds.")
@click.option(
    "--lora-modules", metavar="NAME=PATH", multiple=True, help="LoRA adapter, also as JSON; may be repeated."
)
@click.option(
    "--otlp-traces-endpoint", metavar="URL", help="Send a trace of each request there, as .../v1/traces."
)
@click.option("--in-process", is_flag=True, help="Run the engine as a thread of a single worker.")
@hub_options
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[NAME…] [-- GUNICORN_OPTIONS]")
def serve(
    host: str | None,
    port: int | None,
    grpc_port: int | None,
    models: Path | None,
    device: str | None,
    workers: int | None,
    api_keys: tuple[str, ...],
    admin_keys: tuple[str, ...],
    max_loaded_gb: float | None,
    load_timeout: float | None,
    load_on_request: bool,
    idle_unload: float | None,
    poll_models: float | None,
    lora_modules: tuple[str, ...],
    otlp_traces_endpoint: str | None,
    in_process: bool,
    revision: str | None,
    hub: str | None,
    sha256: str | None,
    export: str | None,
    arguments: tuple[str, ...],
) -> None:
    """Serve models.

    NAME is a model on a hub, as Qwen/Qwen3-4B-GGUF:Q4_K_M, which is fetched first, or a folder or file here.
    Without a name every model of a folder is served, one GGUF file, or what a config.json of OpenVINO Model
    Server lists.

    Options that are not given are read from the environment, BRAID_HOST, BRAID_PORT and so on; further
    variables are in docs/settings.md.  Arguments after -- are passed to gunicorn.
    """
    names = tuple(takewhile(lambda text: not text.startswith("-"), arguments))
    gunicorn = arguments[len(names) :]
    _check_keys(api_keys + admin_keys)
    _check_models(models)
    _check_modules(lora_modules)
    if names:
        models = _named_models(names, models, PullTerms(hub, revision, sha256, export), device)
    options = {
        "BRAID_HOST": host,
        "BRAID_PORT": port,
        "BRAID_GRPC_PORT": grpc_port,
        "BRAID_MODELS": models,
        "BRAID_DEVICE": device,
        "BRAID_WORKERS": workers,
        "BRAID_API_KEYS": "\n".join(api_keys) or None,
        "BRAID_ADMIN_KEYS": "\n".join(admin_keys) or None,
        "BRAID_MAX_LOADED_GB": max_loaded_gb,
        "BRAID_LOAD_TIMEOUT": load_timeout,
        "BRAID_LOAD_ON_REQUEST": "1" if load_on_request else None,
        "BRAID_IDLE_UNLOAD_S": idle_unload,
        "BRAID_POLL_MODELS": poll_models,
        "BRAID_LORA_MODULES": "\n".join(lora_modules) or None,
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": otlp_traces_endpoint,
        "BRAID_IN_PROCESS": "1" if in_process else None,
    }
    become_gunicorn({name: str(value) for name, value in options.items() if value is not None}, gunicorn)


def _named_models(names: tuple[str, ...], models: Path | None, terms: PullTerms, device: str | None) -> Path:
    """The folder or file that is served for these names."""
    from server.fetched_models import served_folder

    settings = _settings()
    return served_folder(names, models, terms.options(device or settings.device, settings))


def _check_keys(keys: tuple[str, ...]) -> None:
    if any(re.search(r"[,\s]", key) or not key for key in keys):
        raise click.UsageError("--api-key: a key is not empty and holds neither commas nor spaces")


def _check_models(models: Path | None) -> None:
    if models and models.is_file() and models.suffix.lower() not in FILES:
        raise click.UsageError(f"--models: {models} is no folder of models, GGUF file or config.json")
    if models and models.suffix == ".json":
        _check_config(models)


def _check_modules(modules: tuple[str, ...]) -> None:
    from pipelines.wire.lora_modules import parse_module

    for module in modules:
        try:
            parse_module(module)
        except ValueError as error:
            raise click.UsageError(f"--lora-modules: {error}") from None


def _check_config(file: Path) -> None:
    from pipelines.repository.ovms.config_file import read_config

    try:
        read_config(file)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _default_models() -> Path:
    """The folder of models that `serve` uses by default."""
    return _settings().models


def _settings() -> Settings:
    from server.base.environment import SettingsError, read_settings

    try:
        return read_settings()
    except SettingsError as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.argument("folder", metavar="[DIR]", required=False, type=MODELS)
@click.option("--run", is_flag=True, help="Run the decoders too: whole prompts, chunks and single tokens.")
@click.option("--source", metavar="HF_FOLDER", help="With --run: compare with this model in transformers.")
def check(folder: Path | None, run: bool, source: str | None) -> None:
    """Check and draw the graphs of a folder of models, or of one model.

    Prints every problem; exits with 1 when there is any.
    """
    if source and not run:
        raise click.UsageError("--source goes with --run")
    from pipelines.inference.backends.cpu_kernels import describe, kernel_library
    from pipelines.loading.inspection import inspect

    folder = folder or _default_models()
    if not folder.exists():
        raise click.ClickException(f"the folder {folder} does not exist")
    try:
        findings = inspect(folder, _settings().device)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if not findings:
        raise click.ClickException(
            f"{folder} holds no folder with a graph.yaml or an exported model; "
            "`braid export HF_FOLDER --name NAME` exports a model of Hugging Face's form"
        )
    for finding in findings:
        click.echo(_report(finding))
    sys.stdout.flush()
    if kernel_library("openvino") is not None:
        subprocess.call([*RUN_MODULE, "tools.kernel_layers", str(folder)])
    click.echo(describe(), err=True)
    bad = sum(finding.graph is None for finding in findings)
    click.echo(f"{len(findings)} checked, {bad} with problems")
    sys.stdout.flush()
    is_wrong = run and subprocess.call(_run_check(folder, source)) != 0
    sys.exit(1 if bad or is_wrong else 0)


def _run_check(folder: Path, source: str | None) -> list[str]:
    """A process of its own, because a model may end it."""
    command = [*RUN_MODULE, "tools.run_check", str(folder)]
    return [*command, "--source", source] if source else command


SOURCES = {"graph.yaml": "", "graph.pbtxt": "  (graph.pbtxt)", "config.json": "  (config.json)"}
"""Where a graph comes from → what follows the model's name."""


def _report(finding: Finding) -> str:
    """A line with the model's name, followed by the drawing of its graph or by its problems."""
    note = SOURCES.get(finding.source, "  (no graph.yaml: `braid new-graph` would write this graph)")
    notes = "".join(f"{each}\n" for each in finding.notes)
    rule = f"── {finding.name}{note} ".ljust(100, "─")
    if finding.graph is not None:
        return f"{rule}\n{finding.text()}{notes}"
    return "\n".join([rule, *finding.problems, ""])


@main.command()
@click.argument("model", metavar="NAME_OR_DIR")
@click.option("--models", show_default="model_repo", type=FOLDER, help="Folder of models.")
def draw(model: str, models: Path | None) -> None:
    """Draw one model's graph as a mermaid flowchart."""
    from pipelines.loading.inspection import find

    try:
        finding = find(model, models or _default_models())
    except LookupError as error:
        raise click.ClickException(str(error)) from error
    if finding.graph is None:
        raise click.ClickException("\n".join(["the graph has problems:", *finding.problems]))
    click.echo(finding.mermaid(), nl=False)


@main.command("new-graph")
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--force", is_flag=True, help="Replace an existing graph.yaml.")
def new_graph(folder: Path, force: bool) -> None:
    """Write the graph.yaml of a folder with an exported model."""
    from pipelines.repository.new_graph import new_graph as graph_text

    file = folder / "graph.yaml"
    if file.exists() and not force:
        raise click.ClickException(f"{file} already exists; --force replaces it")
    try:
        text = graph_text(folder)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    file.write_text(text, encoding="utf-8")
    click.echo(f"wrote {file}")


@main.command()
def schema() -> None:
    """Print the JSON Schema of graph.yaml, for editors."""
    from pipelines.loading.inspection import schema_text

    click.echo(schema_text(), nl=False)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]…")
def export(arguments: tuple[str, ...]) -> None:
    """Export a model for serving; --help shows its options.

    Needs the extra `export`.
    """
    # a separate process, so that torch is not imported here
    sys.exit(subprocess.call([*RUN_MODULE, "tools.export", *arguments]))


main.add_command(doctor)
main.add_command(index)
main.add_command(keys)
main.add_command(ovms)
main.add_command(pull)
main.add_command(run_batch)
for _name in PROGRAMS:
    main.add_command(client_command(_name))


if __name__ == "__main__":
    main()
