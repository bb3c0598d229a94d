"""How generation grows: tokens/s against streams, first token and time between tokens against the prompt.

Braid over HTTP and openvino-genai in process alternate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from tools.lab.bench.base.load import Settings
from tools.lab.bench.entries import BRAID, Entries, start
from tools.lab.bench.measuring import Measuring
from tools.lab.bench.model import Model
from tools.lab.bench.report import Row
from tools.lab.bench.workloads import Workload

SYSTEMS = (BRAID, "openvino-genai")


@dataclass(frozen=True)
class Sweep:
    """Workloads by their size, and a cache that holds each of them."""

    workloads: dict[int, Workload]
    num_blocks: int
    max_sequences: int
    max_context: int

    def only(self, sizes: Collection[int]) -> Sweep:
        """A sweep with the workloads of `sizes`; with all where there are none.  Raises KeyError."""
        return replace(self, workloads={size: self.workloads[size] for size in sizes or self.workloads})


STREAMS = Sweep(
    {count: Workload(count, count, output_tokens=32) for count in (1, 2, 4, 8, 16, 32, 64, 128, 256)},
    num_blocks=1536,
    max_sequences=256,
    max_context=512,
)
PROMPTS = Sweep(
    {
        length: Workload(1, 1, prompt_tokens=length, output_tokens=16)
        for length in (128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)
    },
    num_blocks=1056,
    max_sequences=4,
    max_context=32_768 + 256,
)


def measure(
    name: str, sweep: Sweep, model: Model, venvs: Path, rounds: int, note: Callable[[str], None]
) -> list[Row]:
    """A row `name SIZE` for each system and size that the model's positions allow."""
    workloads = {
        f"{name} {size}": workload
        for size, workload in sweep.workloads.items()
        if workload.context <= model.config["max_position_embeddings"]
    }
    settings = Settings(
        num_blocks=sweep.num_blocks,
        max_sequences=sweep.max_sequences,
        max_context=sweep.max_context,
        threads=psutil.cpu_count() or 1,
    )
    entries = Entries()
    try:
        start(entries, SYSTEMS, model, venvs, settings, workers=1)
        return Measuring(entries, model.config["vocab_size"], note).run(workloads, rounds)
    finally:
        entries.stop()
