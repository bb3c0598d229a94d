"""A library without HTTP, in a process of its own: reads loads from stdin, writes their timings to stdout.

`python -m tools.lab.bench.speech.child MODULE MODEL WEIGHTS`.  Every line is JSON, as in
`tools/lab/bench/child.py`.  Runs in the library's own environment.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tools.lab.bench.child import own_stdout
from tools.lab.bench.speech.load import Load, run_library


def main() -> None:
    module, model, weights = sys.argv[1:]
    out = own_stdout()
    transcribe = importlib.import_module(module).opened(Path(model), weights)
    print(json.dumps({"ready": True}), file=out)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"timings": run_library(Load(**json.loads(line)), transcribe)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out)


if __name__ == "__main__":
    main()
