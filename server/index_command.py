"""`braid index`: cuts the documents of a folder into passages, and writes an index that is served."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

if TYPE_CHECKING:
    from pipelines.local.local import Local
    from pipelines.retrieval.index_update import UpdateReport

SOURCE = click.Path(exists=True, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
OF_MODELS = ("config.json", "model", "tokenizer.json", "1")
"""Names in folders of models that have no graph.yaml."""
SHOWN_EVERY_S, MAX_WEIGHT = 5.0, 1000
PDF_SECONDS, PDF_CHARS = 60.0, 16 << 20
"""What a PDF file may take: seconds of a processor, and characters."""


def _weight(context: click.Context, option: click.Parameter, weight: float) -> float:
    """Raises BadParameter, also for NaN."""
    if not 0 <= weight <= MAX_WEIGHT:
        raise click.BadParameter(f"{weight} is not in the range 0<=x<={MAX_WEIGHT}")
    return weight


@click.command()
@click.argument("source", metavar="FOLDER", type=SOURCE)
@click.option("--embed", "model", required=True, metavar="MODEL", help="Model of vectors, of the repository.")
@click.option("--to", "place", required=True, type=FOLDER, help="Folder of the new model: model_repo/NAME.")
@click.option("--sparse", is_flag=True, help="Store the model's sparse vectors too, and search with both.")
@click.option("--rerank", "reranker", metavar="MODEL", help="Model that ranks the best passages again.")
@click.option("--models", type=FOLDER, help="Folder of models; default: that of --to.")
@click.option("--size", default=1000, show_default=True, help="Most characters of a passage.")
@click.option("--overlap", default=0, show_default=True, help="Characters that a passage repeats.")
@click.option("--precision", type=click.Choice(["float16", "int8"]), default="float16", show_default=True)
@click.option(
    "--text-weight",
    type=float,
    callback=_weight,
    default=0.0,
    show_default=True,
    help="Of words, beside vectors' 1.",
)
@click.option("--device", metavar="cpu|cuda:0", help="Device of the model.")
def index(
    source: Path,
    model: str,
    place: Path,
    sparse: bool,
    reranker: str | None,
    models: Path | None,
    size: int,
    overlap: int,
    precision: str,
    text_weight: float,
    device: str | None,
) -> None:
    """Index the documents of FOLDER: texts, Markdown, HTML and PDF.

    The first time it writes a model of the task `search`, whose passages POST /v1/search finds.  Later it
    adds what is new, and removes what is gone; a server that has the model finds the new passages within a
    second, and until then the old ones.
    """
    from pipelines.base.errors import BraidError
    from pipelines.local.local import Local
    from pipelines.retrieval.cutting import Cutting
    from pipelines.retrieval.index_folder import IndexBusy, IndexFolder
    from pipelines.retrieval.index_graph import INDEX, index_graph
    from pipelines.retrieval.index_settings import IndexSettings
    from pipelines.retrieval.index_update import update
    from pipelines.retrieval.source_files import documents_of

    graph = place / "graph.yaml"
    _check_place(graph, model)
    names = {model, reranker} if reranker and not graph.exists() else {model}
    try:
        with Local(models or place.parent, names=names, device=device) as braid:
            if reranker in names:
                braid.rank("a", ["b"], model=reranker)
            kinds = _kinds(braid, model, sparse)
            settings = IndexSettings(
                model,
                lambda texts: braid.embed_kinds(
                    texts, kinds, model=model, input_type="document", truncate_prompt_tokens=-1
                ),
                Cutting(size, overlap),
                "int8" if precision == "int8" else "float16",
                kinds,
            )
            shown = _Shown()
            report = update(IndexFolder(place / INDEX), documents_of(source, _pdf_reader()), settings, shown)
    except (BraidError, IndexBusy, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    shown.end(report, place)
    if not graph.exists():
        weights = dict.fromkeys(kinds, 1.0) | ({"text": text_weight} if text_weight else {})
        graph.write_text(index_graph(model, reranker, weights, source.name or str(source)), encoding="utf-8")
        click.echo(f"wrote {graph}: a server that already runs finds it by POST /v1/config/reload")


def _kinds(braid: Local, model: str, sparse: bool) -> tuple[str, ...]:
    """The kinds of vectors that are stored.  Raises BraidError where the model gives no sparse ones."""
    from pipelines.base.errors import RequestError

    if not sparse:
        return ("dense",)
    braid.embed_kinds(["a"], ["sparse"], model=model)
    try:
        braid.embed_kinds(["a"], ["dense"], model=model)
    except RequestError:
        return ("sparse",)
    return ("dense", "sparse")


def _check_place(graph: Path, model: str) -> None:
    """Raise ClickException where a folder holds another model, or an index that is searched with another."""
    if not graph.exists():
        if any((graph.parent / name).exists() for name in OF_MODELS):
            raise click.ClickException(f"{graph.parent} holds another model: name a new folder with --to")
        return
    task, searched = _task_and_models(graph)
    if task != "search":
        raise click.ClickException(
            f"{graph.parent} holds a model of the task {task}: name a new folder with --to"
        )
    if searched and model not in searched:
        raise click.ClickException(
            f"{graph} searches with {', '.join(sorted(searched))}, not with {model}: "
            "change it, or name a new folder with --to"
        )


def _task_and_models(graph: Path) -> tuple[str, set[str]]:
    """The task of a graph, and the models that read its requests.  Raises ClickException."""
    try:
        text = yaml.safe_load(graph.read_text(encoding="utf-8"))
        nodes = [node for node in text["nodes"].values() if isinstance(node, dict)]
        return str(text["task"]), {node["graph"] for node in nodes if node.get("type") == "graph"}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise click.ClickException(f"{graph} cannot be read: {error}") from None


def _pdf_reader() -> Callable[[bytes], str] | None:
    """Reads PDF files in a process with bounds; None where the library for it is not installed."""
    from importlib.util import find_spec

    if find_spec("pypdfium2") is None:
        return None
    from pipelines.base.errors import BraidError
    from server.media.pdf_text import Left, read_pdf

    def read(data: bytes) -> str:
        try:
            return read_pdf(data, "document", Left(PDF_SECONDS, PDF_CHARS))
        except BraidError as error:
            raise ValueError(error.message) from None

    return read


def _printable(name: str) -> str:
    """A document's name on one line: control characters, which may be a terminal's orders, are escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)


class _Shown:
    """Shows how far an update is: a line that changes in a terminal, lines else."""

    def __init__(self) -> None:
        self._began_s = self._shown_s = time.monotonic()

    def __call__(self, report: UpdateReport, embedded: int) -> None:
        now_s = time.monotonic()
        if sys.stderr.isatty():
            click.echo(f"\r{self._text(report, embedded)}", nl=False, err=True)
        elif now_s - self._shown_s > SHOWN_EVERY_S:
            self._shown_s = now_s
            click.echo(self._text(report, embedded), err=True)

    def _text(self, report: UpdateReport, embedded: int) -> str:
        rate = embedded / max(time.monotonic() - self._began_s, 1e-3)
        return f"{len(report.added)} documents, {embedded} passages, {rate:.0f} a second"

    def end(self, report: UpdateReport, place: Path) -> None:
        if sys.stderr.isatty():
            click.echo(err=True)
        for name, reason in report.wrong.items():
            click.echo(f"left out: {_printable(name)}: {reason}", err=True)
        click.echo(
            f"{place}: {report.passages} passages; documents: {len(report.added)} added or changed, "
            f"{len(report.removed)} removed, {report.unchanged} as before"
        )
