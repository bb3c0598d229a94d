"""`python -m tools.lab.bench.beside MODEL`: processor time of Braid, llama.cpp and openvino_genai, in turns.

MODEL is a GGUF file, or a folder with an openvino_model.xml, which llama.cpp does not read; --export names
such a folder of the same weights beside a GGUF file, for all others. --llama FOLDER holds
llama.cpp's libraries (`peers/llama_library.py`), --genai PYTHON is an interpreter that has openvino_genai.
Each runs in a process of its own with the same prompts of random tokens, greedy. Prints processor
milliseconds of a token, medians of rounds: of sequences that decode behind 64 tokens, and of prompts; then
the medians of the ratios of neighbours.  The first line says which CPU kernels Braid has: those of changed
sources are compiled by `braid serve`, and without them OpenVINO's linear layers are measured.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pipelines.inference.backends.cpu_kernels import describe
from tools.lab.bench.base.load import Load, Request, Settings
from tools.lab.bench.base.systems import Child, System, SystemFailed

PAST, OUTPUT_TOKENS = 64, 17
ROUND_CONTEXT = 256
"""llama.cpp's context of a sequence is a multiple of this."""
IDS = range(100, 5000)
OWN = BRAID, ROUNDING = "braid", "braid, group 32"
"""Braid as it is without settings, and as it rounds activations like the others."""


def of_streams(streams: int, rng: random.Random) -> Load:
    """Sequences that begin together and decode beside one another."""
    return Load(streams, [Request(rng.choices(IDS, k=PAST), OUTPUT_TOKENS) for _ in range(streams)])


def of_prompt(tokens: int, rng: random.Random) -> Load:
    return Load(1, [Request(rng.choices(IDS, k=tokens), 1)])


def token_ms(child: System, load: Load) -> float:
    """Processor milliseconds of a token: of those that are decoded, or where none is, of the prompt's."""
    timings = child.run(load)
    decoded = sum(request.output_tokens - 1 for request in load.requests)
    if decoded:
        return 1e3 * timings.decoding_s / decoded
    return 1e3 * timings.processor_s / sum(len(request.prompt) for request in load.requests)


def started(asked: argparse.Namespace, logs: Path) -> dict[str, Child]:
    """The systems that the command line has."""
    model: Path = asked.model
    context = max([PAST + OUTPUT_TOKENS, *asked.prompts])
    settings = Settings(
        num_blocks=512,
        max_sequences=max(asked.streams, default=1),
        threads=asked.threads,
        max_context=context - context % -ROUND_CONTEXT,
    )
    python = Path(sys.executable)
    own = "tools.lab.bench.engine"
    children = {BRAID: Child(python, own, asked.export or model, settings, logs / BRAID)}
    rounding = "tools.lab.bench.rounding_engine"
    children[ROUNDING] = Child(python, rounding, asked.export or model, settings, logs / "rounding")
    if asked.llama is not None and model.is_file():
        os.environ["LLAMA_LIBRARY"] = str(asked.llama.resolve())
        llama = "tools.lab.bench.peers.llama_library"
        children["llama.cpp"] = Child(python, llama, model, settings, logs / "llama")
    if asked.genai is not None:
        genai = "tools.lab.bench.peers.openvino_genai"
        children["openvino_genai"] = Child(
            asked.genai, genai, asked.export or model, settings, logs / "genai"
        )
    for child in children.values():
        child.wait_until_ready()
    return children


def compared(children: Mapping[str, System], loads: list[Load]) -> dict[str, list[float]]:
    """Milliseconds of each system in each round but the first, in which kernels are chosen."""
    times: dict[str, list[float]] = {name: [] for name in children}
    for load in loads:
        for name, child in children.items():
            times[name].append(token_ms(child, load))
    return {name: each[1:] for name, each in times.items()}


def ratio(peer: list[float], own: list[float]) -> float:
    """The median of the ratios of neighbours."""
    return statistics.median(theirs / ours for theirs, ours in zip(peer, own, strict=True))


def row(title: str, times: Mapping[str, list[float]]) -> str:
    medians = [f"{statistics.median(each):.2f}" for each in times.values()]
    ratios = [f"{ratio(times[peer], times[own]):.2f}" for own in OWN for peer in times if peer not in OWN]
    return f"| {title} | {' | '.join([*medians, *ratios])} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.lab.bench.beside", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--export", type=Path, help="the same weights as OpenVINO IR")
    parser.add_argument("--llama", type=Path, help="a folder of llama.cpp's libraries")
    parser.add_argument("--genai", type=Path, help="an interpreter that has openvino_genai")
    parser.add_argument("--streams", type=int, nargs="*", default=[1, 4, 8])
    parser.add_argument("--prompts", type=int, nargs="*", default=[64, 512, 2048])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as logs:
        children: dict[str, Child] = {}
        try:
            print(describe(), flush=True)
            children = started(asked, Path(logs))
            peers = [f"{name} / {own}" for own in OWN for name in children if name not in OWN]
            print(f"| processor ms of a token | {' | '.join([*children, *peers])} |")
            print("|---" * (1 + len(children) + len(peers)) + "|")
            rng = random.Random(0)
            for streams in asked.streams:
                loads = [of_streams(streams, rng) for _ in range(asked.rounds + 1)]
                print(row(f"{streams} sequences", compared(children, loads)), flush=True)
            for tokens in asked.prompts:
                loads = [of_prompt(tokens, rng) for _ in range(min(3, asked.rounds) + 1)]
                print(row(f"prompt of {tokens}", compared(children, loads)), flush=True)
        except SystemFailed as error:
            raise SystemExit(str(error)) from error
        finally:
            for child in children.values():
                child.stop()


if __name__ == "__main__":
    main()
