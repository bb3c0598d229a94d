"""An engine without HTTP, in a process of its own: reads loads from stdin, writes their timings to stdout.

`python -m tools.bench.child MODULE MODEL SETTINGS`.  Every line is JSON: the first out says that the model is
loaded (`{"ready": …}`); then a `Load` in is answered by `{"timings": …}` or `{"error": …}`.  What the engine
prints itself goes to stderr.  Runs in the engine's own environment, so it imports the standard library and
`tools.bench.load` alone.  Knows nothing of HTTP, and no engine by name.
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

from tools.bench.load import Load, Queue, Request, Settings, Timings


class Engine(Protocol):
    """What MODULE has as its class `Engine`, made of a model's path and `Settings`."""

    def submit(self, number: int, request: Request, load: Load) -> None: ...

    def turn(self) -> list[tuple[int, int]]:
        """One step: (number of the request, how many tokens came for it) pairs."""
        ...


def run(load: Load, engine: Engine) -> Timings:
    """Answer every request of `load`, each sent when the load says so."""
    queue = Queue(load)
    left: dict[int, int] = {}
    sent_s = [0.0] * len(load.requests)
    token_s: list[list[float]] = [[] for _ in load.requests]
    begin = time.perf_counter()
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
    return Timings(time.perf_counter() - begin, sent_s, token_s)


def own_stdout() -> TextIO:
    """The real stdout for the protocol; whatever else is printed goes to stderr from here on."""
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
        except Exception as error:  # an engine that cannot do one load may do the next, made anew
            answer = {"error": f"{type(error).__name__}: {error}"}
            del engine
            engine = make()
        print(json.dumps(answer), file=out)


if __name__ == "__main__":
    main()
