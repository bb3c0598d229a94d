"""What the graph of near vectors of a large index costs and finds (`python -m tools.lab.retrieval.near`).

Random vectors of length 1 around random centres are written as an update writes them, and their graph as
well.  Then the same queries, which are such vectors too, are searched exactly and by the graph.  With --place
the files stay there, and a run that was stopped goes on where the graph was last saved.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import click
import numpy as np

from pipelines.retrieval.dense_vectors import DenseVectors, Floats, Rows, VectorWriter, unit
from pipelines.retrieval.near_graph import FILE, extend, new_index, opened
from tools.lab.retrieval.took import took

GROUP = 10_000
SAVED_EVERY = 1 << 17
"""Rows after which the graph is saved."""
WRITTEN = "written.json"
"""What the vectors in the folder are, and the seconds that their graph took so far."""
TOP = 10
SPREAD = 1.0
"""How far a vector is from its centre, where the centre has length 1."""


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, help="Vectors.")
@click.option("--size", default=384, show_default=True, help="Numbers of a vector.")
@click.option("--centres", default=20_000, show_default=True, help="What vectors are drawn around.")
@click.option("--queries", default=100, show_default=True, help="Queries, each searched in both ways.")
@click.option("--place", type=click.Path(path_type=Path), default=None, help="Folder where files stay.")
def main(rows: int, size: int, centres: int, queries: int, place: Path | None) -> None:
    """Print the figures."""
    with nullcontext(place) if place else tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        building = Building(folder, {"rows": rows, "size": size, "centres": centres})
        if building.is_new:
            with VectorWriter(folder, "float16") as writer:
                for vectors in drawn(rows, size, centres):
                    writer.append(vectors)
            building.note()
        stored = DenseVectors(folder, [rows], size)
        building.build(stored)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        written = (folder / FILE).stat().st_size / 1e6
        print(
            f"{rows} vectors: built in {building.passed_s:.0f} s, {building.used_s:.0f} s of processor time; "
            f"peak memory {peak:.0f} MiB, pages of the vectors' files among it; file {written:.0f} MB",
            flush=True,
        )
        (asked,) = drawn(queries, size, centres, seed=1)
        compare(stored, asked)


class Building:
    """Builds the graph of vectors in a folder, and saves it from time to time."""

    def __init__(self, folder: Path, vectors: dict[str, int]) -> None:
        self._folder, self._vectors = folder, vectors
        note = folder / WRITTEN
        written = json.loads(note.read_text()) if note.exists() else {}
        self.is_new = written.get("vectors") != vectors
        self.passed_s, self.used_s = (0.0, 0.0) if self.is_new else written["seconds"]
        self._saved = 0
        if self.is_new:
            (folder / FILE).unlink(missing_ok=True)

    def note(self) -> None:
        """Write what is there."""
        written = {"vectors": self._vectors, "seconds": (self.passed_s, self.used_s)}
        (self._folder / WRITTEN).write_text(json.dumps(written))

    def build(self, stored: DenseVectors) -> None:
        path = self._folder / FILE
        graph = opened(path, stored.size, view=False) if path.exists() else new_index(stored.size)
        self._saved = len(graph)
        began_s, began_used_s = time.perf_counter() - self.passed_s, time.process_time() - self.used_s

        def save(num_rows: int) -> None:
            self.passed_s, self.used_s = time.perf_counter() - began_s, time.process_time() - began_used_s
            click.echo(f"{num_rows} of {stored.count} rows: {self.used_s:.0f} s of processor time", err=True)
            if num_rows - self._saved >= SAVED_EVERY or num_rows == stored.count:
                self._saved = num_rows
                partial = path.with_suffix(".partial")
                graph.save(str(partial))
                partial.replace(path)
                self.note()

        extend(graph, stored, save)


def drawn(rows: int, size: int, centres: int, seed: int = 0) -> Iterator[Floats]:
    """Vectors in groups, float32[n, size]; the centres are the same for every seed."""
    middles = unit(np.random.default_rng(7).standard_normal((centres, size), np.float32))
    draw = np.random.default_rng(seed)
    for first in range(0, rows, GROUP):
        count = min(GROUP, rows - first)
        noise = unit(draw.standard_normal((count, size), np.float32))
        yield unit(middles[draw.integers(centres, size=count)] + SPREAD * noise)


def compare(stored: DenseVectors, queries: Floats) -> None:
    """Search in both ways, one query at a time, and print times of a query and what the graph finds."""
    exact, exact_s = searched(stored, queries)
    stored.use_graph()
    searched(stored, queries[:10])
    near, near_s = searched(stored, queries)
    share = np.mean([len(np.intersect1d(own, best)) / TOP for own, best in zip(near, exact, strict=True)])
    print(
        f"a query: exact {1000 * exact_s:.1f} ms, by the graph {1000 * near_s:.2f} ms of processor time; "
        f"of the {TOP} best {share:.4f} are found",
        flush=True,
    )


def searched(stored: DenseVectors, queries: Floats) -> tuple[list[Rows], float]:
    """(rows of each query, processor seconds of one)."""
    rows: list[Rows] = []

    def search() -> None:
        rows.extend(stored.nearest(query[None], TOP)[0][0] for query in queries)

    return rows, took(search)[1] / len(queries)


if __name__ == "__main__":
    main()
