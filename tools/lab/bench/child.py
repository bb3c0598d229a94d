"""Runs an engine without HTTP in its own process: reads loads from stdin, writes timings to stdout.

`python -m tools.lab.bench.child MODULE MODEL SETTINGS`. Every line is JSON: the first output reports that the
model is loaded (`{"ready": …}`); then each `Load` gets the reply `{"timings": …}` or `{"error": …}`. What the
engine prints itself goes to stderr. Runs in the engine's own environment, so it imports the standard library
and `tools.lab.bench.base.load` alone.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TextIO

from tools.lab.bench.base.load import Load, Queue, Request, Settings, Timings


class Engine(Protocol):
    """The interface of the class `Engine` in MODULE, which takes a model's path and `Settings`."""

    def submit(self, number: int, request: Request, load: Load) -> None: ...

    def turn(self) -> list[tuple[int, int]]:
        """Run one step: pairs of (request number, number of new tokens)."""
        ...


def run(load: Load, engine: Engine) -> Timings:
    """Run every request of `load`, each submitted at its time."""
    queue = Queue(load)
    left: dict[int, int] = {}
    sent_s = [0.0] * len(load.requests)
    token_s: list[list[float]] = [[] for _ in load.requests]
    begin, began_s = time.perf_counter(), time.process_time()
    all_began_s: float | None = None
    while not queue.empty:
        for number in queue.take(time.perf_counter() - begin):
            left[number], sent_s[number] = load.requests[number].output_tokens, time.perf_counter() - begin
            engine.submit(number, load.requests[number], load)
        if not left:
            time.sleep(max(0.0, (queue.next_s() or 0.0) - (time.perf_counter() - begin)))
            continue
        for number, count in engine.turn():
            token_s[number].append(time.perf_counter() - begin - sent_s[number])
            left[number] -= count
            if left[number] <= 0:
                del left[number]
                queue.done(number)
        if all_began_s is None and all(token_s):
            all_began_s = time.process_time()
    ended_s = time.process_time()
    decoding_s = ended_s - (ended_s if all_began_s is None else all_began_s)
    return Timings(time.perf_counter() - begin, sent_s, token_s, ended_s - began_s, decoding_s)


def own_stdout() -> TextIO:
    """The real stdout for the protocol; all other output goes to stderr from here on."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return out


def main() -> None:
    module, model, settings = sys.argv[1:]
    out = own_stdout()
    make = partial(importlib.import_module(module).Engine, Path(model), Settings(**json.loads(settings)))
    engine = make()
    print(json.dumps({"ready": True}), file=out)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"timings": run(Load.read(line), engine)}
        except Exception as error:  # after a failed load a new engine may do the next
            answer = {"error": f"{type(error).__name__}: {error}"}
            del engine
            engine = make()
        print(json.dumps(answer), file=out)


if __name__ == "__main__":
    main()
