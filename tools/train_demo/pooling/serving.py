"""Runs models of a repository in this process through the same calls as a server."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from pipelines.host.in_process import InProcessClient
from pipelines.repository.model_folders import ModelFolder, scan
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput
from pipelines.worker.catalogue import Catalogue

PATIENCE_S = 120.0
TEXTS = 64  # of one request


class Served:
    """A context in which the named models are loaded; every method waits for the whole result."""

    def __init__(self, repository: Path, names: Collection[str]) -> None:
        self._repository, self._names = repository, names
        self._runner = asyncio.Runner()

    def __enter__(self) -> Served:
        self._runner.run(self._start())
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._runner.run(self._close())
        self._runner.close()

    def vectors(self, model: str, texts: list[str], dimensions: int | None = None, **more: Any) -> np.ndarray:
        """float32[len(texts), size], each of length 1; `more` are fields of `PoolingInput`."""
        parts = [
            self.ask(model, PoolingInput(prompts=group, dimensions=dimensions, **more)).values
            for group in _groups(texts)
        ]
        return np.concatenate(parts)

    def classes(self, model: str, texts: list[str]) -> tuple[np.ndarray, list[str]]:
        """Probabilities, float32[len(texts), classes], and the names of the classes."""
        answers = [self.ask(model, PoolingInput(prompts=group)) for group in _groups(texts)]
        return np.concatenate([answer.values for answer in answers]), answers[0].labels

    def scores(self, model: str, query: str, documents: list[str]) -> np.ndarray:
        """float32[len(documents)]: the score of each document for the query, from 0 to 1."""
        return np.asarray(
            self.ask(model, PoolingInput(pairs=[(_prompt(query), _prompt(one)) for one in documents])).values
        )

    def ask(self, model: str, asked: PoolingInput) -> Any:
        """The result of the model's task."""
        return self._runner.run(self._answer(model, asked))

    async def _start(self) -> None:
        self._client = InProcessClient(self._repository, scan=self._scan)
        self._catalogue = Catalogue(self._client)
        await self._catalogue.start()
        await self._client.start()
        async with asyncio.timeout(PATIENCE_S):
            while not self._ready():
                await asyncio.sleep(0.02)

    def _scan(self, folder: Path) -> list[ModelFolder]:
        return [model for model in scan(folder) if model.name in self._names]

    def _ready(self) -> bool:
        """Raises RuntimeError for a model that cannot be loaded."""
        cards = self._catalogue.cards()
        for card in cards:
            if card.problems:
                raise RuntimeError(f"{card.name}: {card.problems[0]}")
        return len(cards) == len(self._names) and all(card.state == "ready" for card in cards)

    async def _close(self) -> None:
        await self._catalogue.close()
        await self._client.close()

    async def _answer(self, model: str, asked: PoolingInput) -> Any:
        return await self._catalogue.get(model).open(asked, self._client).answer()


def _groups(texts: list[str]) -> list[list[Prompt]]:
    return [[_prompt(text) for text in texts[start : start + TEXTS]] for start in range(0, len(texts), TEXTS)]


def _prompt(text: str) -> Prompt:
    return Prompt(text, add_special_tokens=True)
