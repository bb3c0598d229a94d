"""`python -m tools.lab.bench.restart`: the first token after a restart, with and without a file of prefixes.

The engine without a server, over a model of random weights in int8 on OpenVINO.  A first engine computes a
system prompt, reuses it and is closed.  Then, in each round, another one starts, as a server would, and gets
prompts: with a beginning of the same length that is not stored; with the stored one, while the system still
has the file in memory; with the stored one from the disk.  Each of them once more beside a sequence that
decodes, whose longest wait for a token is measured.  Writes `build/bench-restart-MODEL.json`.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

import click
import numpy as np
from rich.console import Console

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.engine.kv_cache.prefix_file.prefix_file import PrefixFile
from pipelines.inference.engine.kv_cache.prefix_file.slot_file import SlotFile
from pipelines.inference.engine.sequences.sequence import Sequence
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.wire.sampling_params import SamplingParams
from tools.lab.bench.model import Model
from tools.lab.bench.report import table
from tools.lab.bench.shapes import SHAPES

BUILD = Path("build")
COLUMNS = {
    "workload": ("prompt", "{}"),
    "first_token_s": ("first token\ns", "{:.3f}"),
    "ratio": ("its time /\ncomputed", "{:.3f}"),
    "spread": ("of single\nrounds", "{}"),
    "wait_ms": ("longest wait of\nanother one, ms", "{:.0f}"),
    "waits": ("of single\nrounds", "{}"),
}
COMPUTED, FROM_MEMORY, FROM_DISK = "computed", "file, in the system's memory", "file, from the disk"
QUESTION_TOKENS = 16
MAX_STEP_TOKENS, MAX_SEQUENCES = 512, 8
BLOCKS_BESIDE = 64


class Times(NamedTuple):
    """How long one prompt waits for its first token, and the longest step meanwhile."""

    first_token_s: float
    longest_step_s: float


class Server:
    """An engine with a file of prefixes, as after a start."""

    def __init__(self, model: Path, file: Path, max_bytes: int, prompt_tokens: int) -> None:
        session = OpenVINOSession(model, OpenVINOSettings(kv_cache="u8"))
        session.reserve(MAX_STEP_TOKENS, MAX_SEQUENCES)
        num_blocks = 3 * (prompt_tokens // session.shape.block_tokens) + BLOCKS_BESIDE
        session.allocate(num_blocks)
        self.block_bytes, self.block_tokens = session.shape.block_bytes, session.shape.block_tokens
        self._vocab_size, self._keys = session.shape.vocab_size, 0

        def body(context: StepContext) -> Sampled:
            return sample(Logits(session.run(context.step), context))

        self.engine = GenerationEngine(
            StepBody(body, close=session.close),
            EngineSettings(MAX_SEQUENCES, MAX_STEP_TOKENS),
            session.shape,
            CacheSize(num_blocks),
            frozenset(),
        )
        opened = partial(SlotFile, file, {"model": str(model)}, session.shape.block_bytes, max_bytes)
        self.engine.store_prefixes(PrefixFile(opened, model.name), session)
        self.ask(self.prompt(QUESTION_TOKENS, 0))  # the first step of all

    def prompt(self, num_tokens: int, seed: int) -> list[int]:
        found: list[int] = np.random.default_rng(seed).integers(self._vocab_size, size=num_tokens).tolist()
        return found

    def ask(self, prompt: list[int], max_tokens: int = 1) -> Times:
        """Run a prompt until its first token, and to its end where nothing else runs."""
        self._keys += 1
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True, temperature=0.0)
        start_s, longest_s = perf_counter(), 0.0
        self.engine.submit(self._keys, GenerationRequest([prompt], params))
        while True:
            step_s = perf_counter()
            outputs = self.engine.step()
            longest_s = max(longest_s, perf_counter() - step_s)
            if any(output.key == self._keys and output.piece.token_ids for output in outputs):
                return Times(perf_counter() - start_s, longest_s)

    def run(self) -> None:
        """Run until nothing is left to do."""
        while self.engine.has_work:
            self.engine.step()

    def remove_prefixes(self) -> None:
        """What is in memory is found no more; the file stays."""
        self.engine.cache.pool.remove_digests()


@click.command()
@click.option("--model", "name", type=click.Choice(list(SHAPES)), default="qwen3-0.6b", show_default=True)
@click.option("--tokens", default=4096, show_default=True, help="Of the system prompt.")
@click.option("--rounds", default=3, show_default=True)
def main(name: str, tokens: int, rounds: int) -> None:
    """Measure and print a table."""
    model = Model.within(BUILD / "bench", name, click.echo).repository("int8")
    path = model / name / "model" / "openvino_model.xml"
    measured: dict[str, list[tuple[Times, Times]]] = {COMPUTED: [], FROM_MEMORY: [], FROM_DISK: []}
    with TemporaryDirectory(dir=BUILD) as folder:
        start = partial(Server, path, Path(folder) / "prefixes", 4 << 30, tokens)
        first = start()
        system = first.prompt(tokens, 1)
        for seed in (2, 3):
            first.ask(system + first.prompt(QUESTION_TOKENS, seed))
            first.run()
        first.engine.close()
        for number in range(rounds):
            server = start()
            for what, times in measured.items():
                beginning = server.prompt(tokens, 100 + number) if what == COMPUTED else system
                times.append(tuple(_ask(server, what, beginning, Path(folder), beside) for beside in (0, 1)))
            server.engine.close()
    blocks = tokens // first.block_tokens
    rows = [{"workload": what, **_measured(times, measured[COMPUTED])} for what, times in measured.items()]
    title = f"{name} int8, {tokens} tokens in {blocks} blocks of {first.block_bytes / 1e6:.2f} MB"
    Console().print(table(rows, COLUMNS, title))
    (BUILD / f"bench-restart-{name}.json").write_text(json.dumps(rows, indent=2) + "\n")


def _ask(server: Server, what: str, beginning: list[int], folder: Path, beside: int) -> Times:
    """The times of one prompt: alone, or beside a sequence that decodes."""
    server.remove_prefixes()
    if what == FROM_DISK:
        _drop_from_memory(folder / "prefixes")
    if beside:
        server.ask(server.prompt(QUESTION_TOKENS, 7), max_tokens=1000)
    before = server.engine.counts().prefix_blocks_read
    times = server.ask(beginning + server.prompt(QUESTION_TOKENS, 9))
    num_read = server.engine.counts().prefix_blocks_read - before
    assert num_read == (0 if what == COMPUTED else len(beginning) // server.block_tokens), num_read
    for sequence in list(_running(server)):
        server.engine.cancel(sequence.key)
    server.run()
    return times


def _running(server: Server) -> list[Sequence]:
    return server.engine.scheduler.running


def _drop_from_memory(file: Path) -> None:
    """Have the system write the file to the disk and read it from there."""
    fd = os.open(file, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def _measured(
    times: list[tuple[Times, Times]], computed: list[tuple[Times, Times]]
) -> dict[str, float | str]:
    ratios = sorted(
        time.first_token_s / other.first_token_s
        for (time, _), (other, _) in zip(times, computed, strict=True)
    )
    waits = sorted(1000 * beside.longest_step_s for _, beside in times)
    return {
        "first_token_s": median(alone.first_token_s for alone, _ in times),
        "ratio": median(ratios),
        "spread": f"{ratios[0]:.3f} to {ratios[-1]:.3f}",
        "wait_ms": median(waits),
        "waits": f"{waits[0]:.0f} to {waits[-1]:.0f}",
    }


if __name__ == "__main__":
    main()
