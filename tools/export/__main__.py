"""`python -m tools.export SOURCE --name NAME`: the export's command line, and what the terminal shows."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pipelines.repository.new_graph import new_graph
from tools.export.audio.export_voxtral import check_alone, export_voxtral, is_voxtral
from tools.export.base.folder import ExportError
from tools.export.base.options import AUTO, Options
from tools.export.choose_export import ALL_TASKS, FORMATS, WEIGHTS, Export, choose
from tools.export.encoder_decoder.two_files import check_options as check_pair_options
from tools.export.gguf_file import check_options, export_gguf, is_gguf
from tools.export.served_once import run_exported
from tools.export.speech.export_whisper import export_whisper
from tools.export.speech.whisper_folder import is_whisper
from tools.export.text_pair.export_text import export_text
from tools.export.text_pair.text_folder import is_text_pair

EXTRA = ("torch", "transformers", "nncf", "openvino", "onnx", "onnx_ir", "onnxscript", "onnxruntime")
"""Modules that the extra `export` installs; optimum-intel is needed for few models."""
MISSING_EXTRA, FAILED = 2, 1  # exit codes


@click.command()
@click.argument("source", metavar="HF_FOLDER|FILE.gguf")
@click.option("--name", required=True, help="What clients will call the model.")
@click.option(
    "--task",
    type=click.Choice(ALL_TASKS),
    default=AUTO,
    show_default=True,
    help="What the model is for; auto: what its config.json and modules.json say.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=AUTO,
    show_default=True,
    help="auto: a decoder as model.onnx, which every engine opens, or as OpenVINO IR by optimum-intel where "
    "that cannot express it; other models as OpenVINO IR. onnx, for NVIDIA GPUs, or openvino: only that.",
)
@click.option(
    "--weights",
    type=click.Choice(list(WEIGHTS["onnx"])),
    default="int8",
    show_default=True,
    help="How weights are stored; bf16 with onnx alone.",
)
@click.option(
    "--activations",
    type=click.Choice(["f32", "f16", "bf16", "int8"]),
    help="What int8 and int4 are computed in; onnx: f32 (default) for a CPU, f16 for CUDA; openvino: int8, "
    "for models that read whole texts.",
)
@click.option(
    "--classifier-tokens",
    "answers",
    metavar="NO,YES",
    help="With --task rerank: what a decoder answers, one token each; no,yes unless said.",
)
@click.option(
    "--score-template",
    "template",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --task rerank: a .jinja file that asks about a query and a document.",
)
@click.option(
    "--models",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("model_repo"),
    show_default=True,
    help="The model repository.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The model's folder, when it is not <models>/<name>.",
)
@click.option(
    "--first-run/--no-first-run",
    default=True,
    show_default=True,
    envvar="BRAID_FIRST_RUN",
    help="Run the model once as it will be served; the server on this machine then loads it at once.",
)
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="BRAID_CACHE",
    help="Where that run is noted: the server's BRAID_CACHE; ~/.cache/braid unless said.",
)
@click.option(
    "--mmproj",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With a GGUF file: the file of its vision model, where that does not lie beside it under its name.",
)
def main(
    source: str,
    name: str,
    task: str,
    form: str,
    weights: str,
    activations: str | None,
    answers: str | None,
    template: Path | None,
    models: Path,
    out: Path | None,
    first_run: bool,
    cache: Path | None,
    mmproj: Path | None,
) -> None:
    """Export a Hugging Face model (a folder, or a hub id where there is a hub) for Braid to serve.

    A GGUF file keeps its weights as they are.  It needs neither torch nor transformers, nor does a model with
    an encoder and a decoder: Whisper, of Hugging Face's form or of CTranslate2's, BART, Marian, T5.
    """
    console = Console(stderr=True)
    folder = out or models / name
    try:
        options = Options(task, form, weights, activations, _two(answers), template)
        export = _gguf(source, mmproj) if is_gguf(source) else _choose(source, options, console)
        if mmproj and not is_gguf(source):
            raise ExportError("--mmproj is for GGUF files: other folders have their vision model in them")
        graph = export_model(export, folder, console)
    except ExportError as error:
        console.print(f"Not exported: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(FAILED)
    what = Path(source).name if is_gguf(source) else weights
    summary = f"{folder}: {_size(folder)} of {what} weights, served by {graph}"
    console.print(summary, markup=False, highlight=False, soft_wrap=True)
    if first_run and (problem := run_exported(folder, cache)):
        console.print(f"It does not run here: {problem}", style="yellow", markup=False, soft_wrap=True)


def _gguf(source: str, mmproj: Path | None) -> Export:
    check_options(click.get_current_context())
    return lambda folder, stage: export_gguf(Path(source), folder, stage, mmproj)


def _choose(source: str, options: Options, console: Console) -> Export:
    if is_whisper(source):
        check_pair_options(click.get_current_context(), "a Whisper")
        return lambda folder, stage: export_whisper(Path(source), folder, options.weights, stage)
    if is_text_pair(source):
        check_pair_options(click.get_current_context(), "an encoder-decoder")
        return lambda folder, stage: export_text(Path(source), folder, options.weights, stage)
    _check_extra(console)
    if options.task == AUTO and is_voxtral(source):
        check_alone(options)
        return lambda folder, stage: export_voxtral(Path(source), folder, options.weights, stage)
    return choose(source, options)


def _two(answers: str | None) -> tuple[str, str] | None:
    """The two texts of `NO,YES`.  Raises click's error when there are not two."""
    if answers is None:
        return None
    no, comma, yes = answers.partition(",")
    if not (no and comma and yes):
        raise click.BadParameter("two texts with a comma between: NO,YES", param_hint="--classifier-tokens")
    return no, yes


def _check_extra(console: Console) -> None:
    missing = [module for module in EXTRA if importlib.util.find_spec(module) is None]
    if missing:
        console.print(f"Exporting needs {', '.join(missing)}. Install: pip install -e '.\\[export]'")
        sys.exit(MISSING_EXTRA)


def export_model(export: Export, folder: Path, console: Console) -> Path:
    """Write `folder/model/` and `folder/graph.yaml`, and return the latter; an edited graph.yaml is
    preserved.

    Raises `ExportError`.
    """
    with _stages(console) as progress:
        export(folder / "model", progress.start)
    graph = folder / "graph.yaml"
    if not graph.exists():
        try:
            graph.write_text(new_graph(folder), encoding="utf-8")
        except ValueError as error:
            raise ExportError(f"{folder / 'model'} is written, but no graph: {error}") from error
    return graph


class Stages:
    """Lines of a rich Progress: the finished stages with their seconds, and the running one."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def start(self, stage: str) -> None:
        self.finish()
        self._progress.add_task(stage, total=1)

    def finish(self) -> None:
        for task in self._progress.task_ids:
            self._progress.update(task, completed=1)


class StageLines:
    """A line for each stage when it begins, where no terminal is; the last one has all seconds."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._begin_s = file, time.monotonic()

    def start(self, stage: str) -> None:
        print(f"… {stage}", file=self._file, flush=True)

    def finish(self) -> None:
        print(f"✓ {time.monotonic() - self._begin_s:.0f} s", file=self._file, flush=True)


@contextlib.contextmanager
def _stages(console: Console) -> Iterator[Stages | StageLines]:
    """A spinner on `console`, or lines; output of the libraries is hidden meanwhile."""
    if not console.is_terminal:
        lines, silence = StageLines(console.file), io.StringIO()
        with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            yield lines
        lines.finish()
        return
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
    silence = io.StringIO()
    target = Console(file=console.file, force_terminal=console.is_terminal)
    with (
        Progress(*columns, console=target, redirect_stdout=False, redirect_stderr=False) as progress,
        contextlib.redirect_stdout(silence),
        contextlib.redirect_stderr(silence),
    ):
        stages = Stages(progress)
        yield stages
        stages.finish()


def _size(folder: Path) -> str:
    stored = [*(folder / "model").rglob("*.bin"), *(folder / "model").rglob("*.data")]
    num_bytes = sum(path.stat().st_size for path in stored)
    return f"{num_bytes / 1e6:.0f} MB" if num_bytes >= 1e6 else f"{num_bytes / 1e3:.0f} kB"


if __name__ == "__main__":
    main(prog_name="braid export")
