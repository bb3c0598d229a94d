"""A library without HTTP, in a process of its own: reads loads from stdin, writes their timings to stdout.

`python -m tools.lab.bench.pooling.child MODULE MODEL`. Every line is JSON, as in `tools/lab/bench/child.py`.
Runs in the library's own environment.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.lab.bench.child import own_stdout
from tools.lab.bench.pooling.load import Load, run_load


def main() -> None:
    module, model = sys.argv[1:]
    out = own_stdout()
    embed = importlib.import_module(module).opened(Path(model))
    print(json.dumps({"ready": True}), file=out)
    for line in sys.stdin:
        load = Load(**json.loads(line))
        try:
            answer: dict[str, Any] = {"timings": run_load(replace(load, streams=1), embed)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out)


if __name__ == "__main__":
    main()
