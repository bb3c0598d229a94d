"""What indexing and searching cost beside their models alone (`python -m tools.lab.retrieval.cost`).

The documents of a folder are indexed as `braid index` does, and the same passages embedded by the bare model,
in turns, in one process: passages per second of time and of processor time.  Then one query at a time over
an index of made passages with random vectors, 20 hits of which are ranked again, takes turns with the calls
of the two models that it needs: embed the query, score the same 20 pairs.  It needs a repository with an
encoder whose vectors are means of its hidden states, and with a reranker.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import click
import numpy as np

from pipelines import Local
from pipelines.retrieval.cutting import Cutting, cut
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_graph import FIRST, INDEX, index_graph
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, update
from pipelines.retrieval.source_files import documents_of
from tools.lab.bench.pooling.texts import make_texts
from tools.lab.retrieval.bare_models import BareModel, Floats
from tools.lab.retrieval.took import took

REPOSITORY = Path(__file__).parents[3]
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
QUERIES = (
    "How is a prefix found again?",
    "What happens when the disk is full?",
    "Which models read images?",
    "How are texts of different lengths batched?",
    "What does a client get when a model is not loaded?",
)
TEXTS_OF_A_PASSAGE = 5
"""Made texts, of which one has 35 words in the mean, of a made passage."""


@click.command()
@click.option("--models", type=FOLDER, default=REPOSITORY / "model_repo", help="Folder of models.")
@click.option("--embed", "embedder", default="braid-embed", show_default=True, help="Model of vectors.")
@click.option("--rerank", "reranker", default="braid-rerank", show_default=True, help="Model that ranks.")
@click.option("--documents", type=FOLDER, default=REPOSITORY / "docs", help="What is indexed.")
@click.option("--first", default=0, help="Index this many documents alone; 0: all.")
@click.option("--rounds", default=5, show_default=True, help="Pairs of indexing.")
@click.option("--passages", default=20_000, show_default=True, help="Of the index that is searched.")
@click.option("--queries", default=40, show_default=True, help="Pairs of searches.")
def main(
    models: Path,
    embedder: str,
    reranker: str,
    documents: Path,
    first: int,
    rounds: int,
    passages: int,
    queries: int,
) -> None:
    """Print the figures."""
    encoder = BareModel(models / embedder)
    ranker = BareModel(models / reranker)
    with tempfile.TemporaryDirectory() as scratch, repository(models, Path(scratch)) as folder:
        write_made_index(folder / "made", embedder, reranker, encoder, passages)
        with Local(folder) as braid:
            if rounds:
                compare_indexing(
                    braid, encoder, embedder, list(documents_of(documents))[: first or None], rounds
                )
            if queries:
                compare_searches(braid, encoder, ranker, passages, queries)


@contextmanager
def repository(models: Path, scratch: Path) -> Iterator[Path]:
    """A folder with the models of another one, to which an index can be added."""
    folder = scratch / "models"
    folder.mkdir()
    for path in models.resolve().iterdir():
        (folder / path.name).symlink_to(path)
    yield folder


def write_made_index(place: Path, embedder: str, reranker: str, encoder: BareModel, count: int) -> None:
    """An index of `count` made passages whose vectors are random, of length 1."""
    size = encoder.embed(["a"], "document").shape[1]
    draw = np.random.default_rng(0)
    texts = make_texts(count * TEXTS_OF_A_PASSAGE, seed=0)
    documents = (
        SourceDocument.of_text(str(number), " ".join(texts[number::count])) for number in range(count)
    )
    settings = IndexSettings(
        embedder,
        lambda group: {"dense": draw.standard_normal((len(group), size), np.float32)},
        Cutting(100_000),
    )
    place.mkdir()
    update(IndexFolder(place / INDEX), documents, settings)
    (place / "graph.yaml").write_text(index_graph(embedder, reranker, {"dense": 1.0}, "made passages"))


def compare_indexing(
    braid: Local, encoder: BareModel, embedder: str, documents: list[SourceDocument], rounds: int
) -> None:
    """Index and embed in turns, and print passages per second."""
    texts = [passage.text for document in documents for passage in cut(document.read(), Cutting())]
    computed: list[Floats] = []

    def embed(group: list[str]) -> dict[str, Floats]:
        vectors = braid.embed_kinds(
            group, ["dense"], model=embedder, input_type="document", truncate_prompt_tokens=-1
        )["dense"]
        assert isinstance(vectors, np.ndarray)
        computed.append(vectors)
        return {"dense": vectors}

    def index() -> None:
        computed.clear()
        with tempfile.TemporaryDirectory() as place:
            update(IndexFolder(Path(place) / INDEX), documents, IndexSettings(embedder, embed))

    index()
    bare = encoder.embed(texts, "document")
    cosines = (np.concatenate(computed) * bare).sum(1)
    print(f"{len(texts)} passages; least cosine of Braid's vectors and the bare model's {cosines.min():.4f}")
    turns = [(took(index), took(lambda: encoder.embed(texts, "document"))) for _ in range(rounds)]
    for name, kind in (("processor", 1), ("passed", 0)):
        ratios = sorted(alone[kind] / whole[kind] for whole, alone in turns)
        indexed, embedded = (len(texts) / median(turn[side][kind] for turn in turns) for side in (0, 1))
        print(
            f"passages per second of {name} time: indexed {indexed:.0f}, embedded by the bare model "
            f"{embedded:.0f}; ratio {median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        )


def compare_searches(
    braid: Local, encoder: BareModel, ranker: BareModel, passages: int, queries: int
) -> None:
    """Search and call the models in turns, and print the medians."""
    turns = []
    for number in range(-2, queries):
        query = f"{QUERIES[number % len(QUERIES)]} ({number})"
        hits = braid.search(query, model="made", top=FIRST)
        texts = [hit.text for hit in hits]

        def search(query: str = query) -> None:
            braid.search(query, model="made", top=10)

        def call_models(query: str = query, texts: list[str] = texts) -> None:
            encoder.embed([query], "query")
            ranker.score(query, texts)

        turn = (took(search), took(call_models))
        if number >= 0:
            turns.append(turn)
    for name, kind in (("p50", 0), ("processor time", 1)):
        searched, called = (1000 * median(turn[side][kind] for turn in turns) for side in (0, 1))
        ratio = median(turn[0][kind] / turn[1][kind] for turn in turns)
        print(
            f"{name} of a query over {passages} passages, {FIRST} ranked again: {searched:.1f} ms; "
            f"the models' own calls {called:.1f} ms; median of the ratios {ratio:.3f}"
        )


if __name__ == "__main__":
    main()
