"""Runs the cases of a program one after the other, each a function, and prints what became of each."""

import asyncio
import gc
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import partial

LOOP = asyncio.Runner()
"""One loop for all cases: clients keep their connections between them."""


def run(cases: Iterable[Callable[[], object]]) -> None:
    """Print `passed NAME` or `failed NAME`, with its traceback on stderr; exit with 1 where one failed."""
    gc.freeze()  # what was imported: collecting below looks at what the cases made
    gc.disable()  # a stream that litellm leaves open, collected under the lock of httpcore's pool, waits for that lock
    results = [_passes(case) for case in cases]
    sys.exit(0 if all(results) else 1)


def named(name: str, case: Callable[..., object], *values: object) -> Callable[[], object]:
    """A case that is `case` called with `values`."""
    made = partial(case, *values)
    made.__name__ = name  # type: ignore[attr-defined]
    return made


def _passes(case: Callable[[], object]) -> bool:
    try:
        result = case()
        if inspect.iscoroutine(result):
            LOOP.run(result)
    except Exception:
        traceback.print_exc()
        print("failed", case.__name__, flush=True)
        return False
    gc.collect()  # streams that were left open are closed here, under no lock
    print("passed", case.__name__, flush=True)
    return True
