"""onnxruntime-genai, for `tools/lab/bench/child.py`: on a processor it batches statically.

Requests of one length that wait together make a batch, and nothing joins until it has ended.  Runs in its own
environment; knows nothing of the other systems.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime_genai

from tools.lab.bench.base.load import Load, Request, Settings

NAMES = ("temperature", "top_p", "top_k", "repetition_penalty")
"""What it knows of a load's sampling."""


class Engine:
    def __init__(self, folder: Path, settings: Settings) -> None:
        self._model = onnxruntime_genai.Model(str(folder))
        self._waiting: list[tuple[int, Request, Load]] = []
        self._batch: list[int] = []
        self._left = 0

    def submit(self, number: int, request: Request, load: Load) -> None:
        self._waiting.append((number, request, load))

    def turn(self) -> list[tuple[int, int]]:
        if not self._left:
            self._begin()
        self._generator.generate_next_token()
        self._left -= 1
        return [(number, 1) for number in self._batch]

    def _begin(self) -> None:
        """A batch of those that wait and are as long as the first of them."""
        _, first, load = self._waiting[0]
        size = (len(first.prompt), first.output_tokens)
        chosen = [
            request for request in self._waiting if (len(request[1].prompt), request[1].output_tokens) == size
        ]
        self._waiting = [request for request in self._waiting if request not in chosen]
        self._batch, self._left = [number for number, _, _ in chosen], first.output_tokens
        params = onnxruntime_genai.GeneratorParams(self._model)
        options = {name: load.sampling[name] for name in NAMES if name in load.sampling}
        params.set_search_options(
            batch_size=len(chosen),
            max_length=sum(size),
            min_length=sum(size),
            do_sample=bool(load.sampling),
            **options,
        )
        self._generator = onnxruntime_genai.Generator(self._model, params)
        self._generator.append_tokens(np.array([request.prompt for _, request, _ in chosen], np.int32))
