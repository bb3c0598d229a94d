"""`python -m tools.lab.bench.linear_kernels FILE.gguf`: steps with Braid's own kernels and without, in turns.

Each way is a session of its own over the same converted file, all in one process; single steps take turns.
Prints for each size of a step the least time of each way and the median of its processor time, and the
medians of the ratios of neighbours in both; before that how long each took to open, in time and in processor
time, and the anonymous memory that it took.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.gguf.convert import convert
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.open_decoder import settings_of
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.packed_parts import PromptPart, packed_step

Times = tuple[float, float]
"""By the clock, and of the processor."""
WAYS = {
    "f32": DecoderSettings(precision="f32"),
    "two levels": DecoderSettings(),
    "group 32": DecoderSettings(activation_group=32),
    "one level": DecoderSettings(activation_group=32),
}
OPENVINOS_OWN = ("f32", "group 32")
PAIRS = (("f32", "two levels"), ("group 32", "one level"))
"""What is compared: OpenVINO's own linear layers, and the kernels that stand in for them."""
SIZES = (*((rows, 1) for rows in (1, 2, 4, 8, 32)), (1, 64), (1, 512))
"""(sequences, tokens of each)."""
PAST, CACHE_BLOCKS = 64, 256


def anonymous_mb() -> float:
    found = re.search(r"^Anonymous: +(\d+)", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def now_s() -> Times:
    return time.perf_counter(), time.process_time()


def since_ms(began: Times) -> Times:
    ended = now_s()
    return 1e3 * (ended[0] - began[0]), 1e3 * (ended[1] - began[1])


def opened(name: str, path: Path, threads: int | None) -> OpenVINOSession | None:
    before_mb, began_s = anonymous_mb(), now_s()
    settings = settings_of(replace(WAYS[name], threads=threads))
    if name in OPENVINOS_OWN:
        settings = replace(settings, kernels=None)
    try:
        session = OpenVINOSession(path, settings)
    except ModelError as error:  # OpenVINO does not round in groups of 32 where a scale is of 16 weights
        print(f"- {name}: {error}")
        return None
    (took_ms, used_ms), grown_mb = since_ms(began_s), anonymous_mb() - before_mb
    opening = f"opened in {took_ms / 1e3:.1f} s, {used_ms / 1e3:.1f} s of processor time, {grown_mb:.0f} MB"
    print(f"- {name}: {opening}; linear layers {session.describe()['linear_layers']}", flush=True)
    session.reserve(512, 32)
    session.allocate(CACHE_BLOCKS)
    return session


def step_of(session: OpenVINOSession, sequences: int, tokens: int) -> Step:
    """A step of decoding behind PAST tokens, or of a new prompt."""
    past, size, rng = PAST if tokens == 1 else 0, session.shape.block_tokens, np.random.default_rng(0)
    count = -(-(past + tokens) // size)
    parts = [
        PromptPart(
            rng.integers(0, 200, tokens),
            past,
            np.arange(number * count, (number + 1) * count, dtype=np.int32),
            np.array([tokens - 1]),
        )
        for number in range(sequences)
    ]
    return packed_step(parts, size)


def timed_ms(
    sessions: dict[str, OpenVINOSession], size: tuple[int, int], rounds: int
) -> dict[str, list[Times]]:
    """Milliseconds of each round of each way; the first steps, which prepare the shape, do not count."""
    steps = {name: step_of(session, *size) for name, session in sessions.items()}
    times: dict[str, list[Times]] = {name: [] for name in sessions}
    for turn in range(rounds + 2):
        for name, session in sessions.items():
            began_s = now_s()
            session.run(steps[name])
            if turn >= 2:
                times[name].append(since_ms(began_s))
    return times


def row(size: tuple[int, int], found: dict[str, list[Times]]) -> str:
    title = f"{size[0]} x 1" if size[1] == 1 else f"prompt {size[1]}"
    arrays = {name: np.array(each) for name, each in found.items()}
    times = [f"{each[:, 0].min():.1f}, {np.median(each[:, 1]):.1f}" for each in arrays.values()]
    ratios = [
        "{:.2f}, {:.2f}".format(*np.median(arrays[own] / arrays[kernels], axis=0))
        for own, kernels in PAIRS
        if own in found and kernels in found
    ]
    return f"| {title} | {' | '.join([*times, *ratios])} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.lab.bench.linear_kernels", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, help="default: every core")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS), help="default: all")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        convert(asked.file, Path(scratch) / "model")
        path = Path(scratch) / "model" / "model.onnx"
        sessions = {
            name: session for name in asked.ways if (session := opened(name, path, asked.threads)) is not None
        }
        pairs = [f"{own} / {kernels}" for own, kernels in PAIRS if {own, kernels} <= {*sessions}]
        print(f"\n| least ms, processor ms | {' | '.join([*sessions, *pairs])} |")
        print("|---" * (1 + len(sessions) + len(pairs)) + "|")
        for size in SIZES:
            rounds = asked.rounds if size[1] == 1 else max(3, asked.rounds // 4)
            print(row(size, timed_ms(sessions, size, rounds)), flush=True)


if __name__ == "__main__":
    main()
