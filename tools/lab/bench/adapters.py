"""`python -m tools.lab.bench.adapters`: what room for adapters costs a step, and what adapters in it cost.

The engine without a server, over a model of random weights in int8 on OpenVINO: once as it is, once with room
for adapters.  Rounds of decoding alternate.  Where others use the machine too, compare processor times, with
`--threads 1`: threads that wait for each other take some.  Writes `build/bench-adapters-MODEL.json`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

import click
import numpy as np
from rich.console import Console

from pipelines.adapters.weights import BASE, AdapterWeights, LoraFactors
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import SamplingParams
from tools.lab.bench.model import Model
from tools.lab.bench.report import Row, table
from tools.lab.bench.shapes import SHAPES

BUILD = Path("build")
ROOMS: dict[str, frozenset[str] | None] = {
    "all products": frozenset(),
    "q_proj, v_proj": frozenset({"q_proj", "v_proj"}),
}
COLUMNS = {
    "workload": ("room for\nadapters", "{}"),
    "adapters": ("adapters\nin the step", "{}"),
    "tokens_per_s": ("tokens/s", "{:.1f}"),
    "ratio": ("its time /\nwithout room", "{:.2f}"),
    "spread": ("of single\nrounds", "{}"),
    "processor_ratio": ("processor time /\nwithout room", "{:.2f}"),
    "processor_spread": ("of single\nrounds", "{}"),
}
PROMPT_TOKENS = 4
SPREAD = 0.02
"""Standard deviation of an adapter's numbers, which change texts and overflow nothing."""


class Cost(NamedTuple):
    """What a token costs."""

    time_s: float
    processor_s: float


class Decoding:
    """An engine whose sequences decode until they are cancelled."""

    def __init__(self, model: Path, settings: OpenVINOSettings, sequences: int, steps: int) -> None:
        session = OpenVINOSession(model, settings)
        length = PROMPT_TOKENS + steps + 1
        num_blocks = sequences * (length // session.shape.block_tokens + 2)
        session.allocate(num_blocks)
        self._session, self._sequences, self._steps = session, sequences, steps

        def body(context: StepContext) -> Sampled:
            return sample(Logits(session.run(context.step), context))

        self._engine = GenerationEngine(
            StepBody(body, adapters=session),
            EngineSettings(sequences, max(512, 2 * sequences), reuse_prefixes=False),
            session.shape,
            CacheSize(num_blocks),
            frozenset(),
        )

    def put(self, number: int, rank: int) -> None:
        """Hold an adapter of random numbers that changes all linear layers with room."""
        random = np.random.default_rng(number)

        def numbers(*shape: int) -> np.ndarray:
            return (SPREAD * random.standard_normal(shape)).astype(np.float32)

        products = {
            name: LoraFactors(numbers(rank, shape.size_in), numbers(shape.size_out, rank))
            for name, shape in self._engine.linears.items()
        }
        self._engine.put_adapter(number, AdapterWeights(rank, products))

    def cost(self, num_adapters: int) -> Cost:
        """In one round: every sequence decodes; they have the adapters in turn, or none."""
        params = SamplingParams(max_tokens=self._steps + 1, ignore_eos=True, temperature=0.0)
        for key in range(self._sequences):
            adapter = 1 + key % num_adapters if num_adapters else BASE
            prompt = [(key + place) % self._session.shape.vocab_size for place in range(PROMPT_TOKENS)]
            self._engine.submit(key, GenerationRequest([prompt], params, adapter=adapter))
        before = self._engine.counts().output_tokens
        while self._engine.counts().output_tokens - before < self._sequences:
            self._engine.step()
        num_before, began = self._engine.counts().output_tokens, Cost(perf_counter(), process_time())
        while self._engine.has_work:
            self._engine.step()
        ended, num_tokens = (
            Cost(perf_counter(), process_time()),
            self._engine.counts().output_tokens - num_before,
        )
        return Cost(*((end - begin) / num_tokens for end, begin in zip(ended, began, strict=True)))


@click.command()
@click.option("--model", "name", type=click.Choice(list(SHAPES)), default="qwen3-0.6b", show_default=True)
@click.option("--sequences", default=16, show_default=True)
@click.option("--adapters", multiple=True, type=int, default=(0, 1, 4, 8), show_default=True)
@click.option("--rank", default=16, show_default=True)
@click.option("--steps", default=24, show_default=True, help="Tokens of each sequence in a round.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--threads", type=int, help="Of OpenVINO; default: one for each core.")
def main(
    name: str,
    sequences: int,
    adapters: tuple[int, ...],
    rank: int,
    steps: int,
    rounds: int,
    threads: int | None,
) -> None:
    """Measure and print a table."""
    model = Model.within(BUILD / "bench", name, click.echo)
    rows = measure(model, adapters, sequences, rank, steps, rounds, threads)
    title = f"{name} int8, {sequences} sequences, rank {rank}, {threads or 'all'} threads"
    Console().print(table(rows, COLUMNS, title))
    (BUILD / f"bench-adapters-{name}.json").write_text(json.dumps(rows, indent=2) + "\n")


def measure(
    model: Model,
    numbers: Sequence[int],
    sequences: int = 16,
    rank: int = 16,
    steps: int = 24,
    rounds: int = 5,
    threads: int | None = None,
) -> list[Row]:
    """A row for each of ROOMS and number of adapters in a step."""
    path = model.repository("int8") / model.name / "model" / "openvino_model.xml"
    rows: list[Row] = []
    for room, targets in ROOMS.items():
        settings = (
            OpenVINOSettings(kv_cache="u8", threads=threads, targets=adapted) for adapted in (None, targets)
        )
        plain, with_room = (Decoding(path, setting, sequences, steps) for setting in settings)
        for number in range(1, max(numbers) + 1):
            with_room.put(number, rank)
        plain.cost(0)
        costs: dict[int, list[tuple[Cost, Cost]]] = {number: [] for number in numbers}
        for _ in range(rounds):
            for number in numbers:
                costs[number].append((plain.cost(0), with_room.cost(number)))
        rows += [
            {"workload": room, "adapters": number, **_measured(pairs)} for number, pairs in costs.items()
        ]
    return rows


def _measured(pairs: list[tuple[Cost, Cost]]) -> dict[str, float | str]:
    """What rounds without room and with it say."""
    times = sorted(those.time_s / without.time_s for without, those in pairs)
    processor = sorted(those.processor_s / without.processor_s for without, those in pairs)
    return {
        "tokens_per_s": 1 / median(those.time_s for _, those in pairs),
        "ratio": median(times),
        "spread": f"{times[0]:.2f} to {times[-1]:.2f}",
        "processor_ratio": median(processor),
        "processor_spread": f"{processor[0]:.2f} to {processor[-1]:.2f}",
    }


if __name__ == "__main__":
    main()
