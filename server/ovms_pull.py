"""`braid ovms --source_model`: fetches a model to the place where OpenVINO Model Server puts it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from server.fetched_models import PullOptions

TASKS = {
    "text_generation": ("HttpLLMCalculator", "LLMCalculatorOptions"),
    "embeddings": ("EmbeddingsCalculatorOV", "EmbeddingsCalculatorOVOptions"),
    "rerank": ("RerankCalculatorOV", "RerankCalculatorOVOptions"),
    "speech2text": None,
    "text2speech": None,
    "image_generation": None,
}
"""Task → calculator of its graph.pbtxt and the message with its options; None: such a graph is not read."""
NOT_SERVED = ("image_generation",)


class TaskFlag(NamedTuple):
    """A flag that is an option of a task's calculator."""

    task: str
    option: str
    kind: type


FLAGS = {
    "max_num_seqs": TaskFlag("text_generation", "max_num_seqs", int),
    "max_num_batched_tokens": TaskFlag("text_generation", "max_num_batched_tokens", int),
    "cache_size": TaskFlag("text_generation", "cache_size", int),
    "enable_prefix_caching": TaskFlag("text_generation", "enable_prefix_caching", bool),
    "dynamic_split_fuse": TaskFlag("text_generation", "dynamic_split_fuse", bool),
    "pipeline_type": TaskFlag("text_generation", "pipeline_type", str),
    "tool_parser": TaskFlag("text_generation", "tool_parser", str),
    "reasoning_parser": TaskFlag("text_generation", "reasoning_parser", str),
    "enable_tool_guided_generation": TaskFlag("text_generation", "enable_tool_guided_generation", bool),
    "normalize": TaskFlag("embeddings", "normalize_embeddings", bool),
    "truncate": TaskFlag("embeddings", "truncate", bool),
    "pooling": TaskFlag("embeddings", "pooling", str),
    "max_allowed_chunks": TaskFlag("rerank", "max_allowed_chunks", int),
}
WORDS = ("pipeline_type", "pooling")
"""Options whose values are words without quotes."""
WEIGHTS = ("int8", "int4", "fp16", "fp32")


def pull_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags of a pull."""
    for name, flag in FLAGS.items():
        command = click.option(f"--{name}", type=flag.kind, help=f"Of --task {flag.task}.")(command)
    for option in (
        click.option("--weight-format", type=click.Choice(WEIGHTS), default="int8", help="Of an export."),
        click.option("--gguf_filename", help="The GGUF file of --source_model."),
        click.option("--overwrite_models", is_flag=True, help="Fetch it again where it is there already."),
        click.option("--task", type=click.Choice(list(TASKS)), help="What --source_model is for."),
        click.option("--source_model", help="A model on Hugging Face's hub, as ORG/NAME."),
        click.option("--pull", is_flag=True, help="Fetch --source_model, and exit."),
    ):
        command = option(command)
    return command


def check(flags: Mapping[str, Any]) -> None:
    """Raise click's error for flags that do not go together."""
    named = [name for name in FLAGS if flags[name] is not None]
    if flags["source_model"] is None:
        if flags["pull"] or flags["task"] or named:
            what = "pull" if flags["pull"] else "task" if flags["task"] else named[0]
            raise click.UsageError(f"--{what} goes with --source_model")
        return
    if flags["model_repository_path"] is None:
        raise click.UsageError("--source_model needs --model_repository_path")
    if flags["task"] in NOT_SERVED:
        raise click.UsageError(f"--task {flags['task']} is not served")
    for name in named:
        if FLAGS[name].task != flags["task"]:
            raise click.UsageError(f"--{name} goes with --task {FLAGS[name].task}")


def pull_source(flags: Mapping[str, Any]) -> Path:
    """Have the model in `<repository>/<ORG>/<NAME>`, unless it is there; returns that folder.

    What has safetensors alone is exported.  Raises click's errors.
    """
    from server.fetched_models import fetch

    source: str = flags["source_model"]
    repository: Path = flags["model_repository_path"]
    folder = repository / source
    if folder.exists() and not flags["overwrite_models"]:
        click.echo(f"{folder} is there already; --overwrite_models fetches it again", err=True)
        return folder
    name = f"{source}:{flags['gguf_filename']}" if flags["gguf_filename"] else source
    options = _options()
    if _is_plain(name, options):
        options = replace(options, export=flags["weight_format"])
    with _replaced(folder):
        fetch(name, repository, options, local=source)
        _write_graph(folder, flags)
    return folder


def _options() -> PullOptions:
    """Raises ClickException."""
    from server.base.environment import SettingsError, read_settings
    from server.fetched_models import PullOptions

    try:
        settings = read_settings()
    except SettingsError as error:
        raise click.ClickException(str(error)) from error
    return PullOptions(cache=settings.cache, max_cache_gb=settings.pull_cache_gb)


@contextmanager
def _replaced(folder: Path) -> Iterator[None]:
    """What the block writes takes the place of a folder, which comes back where the block fails.

    Raises ClickException where the folder was not fetched.
    """
    from pipelines.hub.model_folder import read_note

    if not folder.exists():
        yield
        return
    if read_note(folder) is None:
        raise click.ClickException(f"{folder} was not fetched; remove it, or name another folder")
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    folder.rename(old)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        old.rename(folder)
        raise
    shutil.rmtree(old)


def _is_plain(name: str, options: Any) -> bool:
    """Whether a repository has weights that are exported, and no others."""
    from pipelines.hub.base.errors import HubError
    from pipelines.hub.offers.offer import SAFETENSORS
    from pipelines.hub.offers.repository import all_offers
    from server.fetched_models import listing_of

    try:
        listing, _ = listing_of(name, options)
    except HubError as error:
        raise click.ClickException(str(error)) from error
    return {offer.kind for offer in all_offers(listing.paths)} == {SAFETENSORS}


def _write_graph(folder: Path, flags: Mapping[str, Any]) -> None:
    """Write the options of the task as the graph.pbtxt that the model server writes; without any, none."""
    calculator = TASKS.get(flags["task"] or "")
    options = {FLAGS[name].option: flags[name] for name in FLAGS if flags[name] is not None}
    if flags["target_device"] is not None:
        options["device" if flags["task"] == "text_generation" else "target_device"] = flags["target_device"]
    if calculator is None or not options or (folder / "graph.pbtxt").exists():
        return
    (folder / "graph.pbtxt").write_text(graph_pbtxt(calculator, options), encoding="utf-8")


def graph_pbtxt(calculator: tuple[str, str], options: Mapping[str, Any]) -> str:
    """A graph of one calculator with these options, for the files beside it."""
    kind, message = calculator
    lines = [
        f"      {name}: {_value(name, value)}" for name, value in {"models_path": "./", **options}.items()
    ]
    return "\n".join(
        [
            'input_stream: "HTTP_REQUEST_PAYLOAD:input"',
            'output_stream: "HTTP_RESPONSE_PAYLOAD:output"',
            "node: {",
            f'  name: "{kind}"',
            f'  calculator: "{kind}"',
            '  input_stream: "HTTP_REQUEST_PAYLOAD:input"',
            '  output_stream: "HTTP_RESPONSE_PAYLOAD:output"',
            "  node_options: {",
            f"    [type.googleapis.com / mediapipe.{message}]: {{",
            *lines,
            "    }",
            "  }",
            "}",
            "",
        ]
    )


def _value(name: str, value: Any) -> str:
    return str(value) if name in WORDS else json.dumps(value)
