"""llama.cpp through llama-cpp-python, for `tools/lab/bench/child.py`: one sequence at a time, as it is.

Runs in its own environment; knows nothing of the other systems.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from llama_cpp import Llama, LlamaGrammar

from tools.lab.bench.base.load import Load, Request, Settings

NAMES = {
    "temperature": "temp",
    "top_p": "top_p",
    "top_k": "top_k",
    "repetition_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""A load's names → those of `Llama.generate`."""


class Engine:
    def __init__(self, folder: Path, settings: Settings) -> None:
        self._llama = Llama(
            str(folder / "model.gguf"),
            n_ctx=settings.max_context,
            n_batch=settings.max_step_tokens,
            n_threads=settings.threads,
            n_threads_batch=settings.threads,
            verbose=False,
        )
        self._waiting: list[tuple[int, Iterator[int]]] = []

    def submit(self, number: int, request: Request, load: Load) -> None:
        options = {NAMES[name]: value for name, value in load.sampling.items()}
        grammar = LlamaGrammar.from_json_schema(json.dumps(load.schema)) if load.schema is not None else None
        tokens = self._llama.generate(request.prompt, **{"temp": 0.0, **options}, grammar=grammar)
        self._waiting.append((number, itertools.islice(tokens, request.output_tokens)))

    def turn(self) -> list[tuple[int, int]]:
        number, tokens = self._waiting[0]
        if next(tokens, None) is None:
            del self._waiting[0]
            return []
        return [(number, 1)]
