"""Asks an exported model its questions as a client would, in this process, by the whole graph of the model.

So calls are held to the declared tools, and replies to a schema where a question has one.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

from pipelines.host.in_process import InProcessClient
from pipelines.values.node_values import ToolCallPiece
from pipelines.values.tasks import Constraint, GenerationInput
from pipelines.worker.catalogue import Catalogue

from .conversation import Conversation

NAME = "braid-demo"
HOME = Path(__file__).resolve().parents[2] / "model_repo" / NAME
GRAPH, ADAPTERS = HOME / "graph.yaml", HOME / "adapters"
MAX_NEW_TOKENS = 160
TOGETHER = 64
PATIENCE_S = 120.0


class Exported:
    """A context in which the model of a folder answers, or one of its adapters; the graph is the one that is
    served.
    """

    def __init__(self, model: Path, repository: Path, adapters: Path = ADAPTERS) -> None:
        folder = repository / NAME
        folder.mkdir(parents=True)
        shutil.copyfile(GRAPH, folder / GRAPH.name)
        shutil.copytree(model, folder / "model")
        shutil.copytree(adapters, folder / ADAPTERS.name)
        self._repository = repository
        self._runner = asyncio.Runner()

    def __enter__(self) -> Exported:
        self._runner.run(self._start())
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._runner.run(self._close())
        self._runner.close()

    def ask(self, questions: list[Conversation], name: str = NAME) -> list[str]:
        """One reply per question, in the model's own format; `name` may be that of an adapter."""
        return self._runner.run(self._ask(questions, name))

    async def _start(self) -> None:
        self._client = InProcessClient(self._repository)
        self._catalogue = Catalogue(self._client)
        await self._catalogue.start()
        await self._client.start()
        async with asyncio.timeout(PATIENCE_S):
            while [card.state for card in self._catalogue.cards()] != ["ready"]:
                await asyncio.sleep(0.05)

    async def _close(self) -> None:
        await self._catalogue.close()
        await self._client.close()

    async def _ask(self, questions: list[Conversation], name: str) -> list[str]:
        places = asyncio.Semaphore(TOGETHER)

        async def one(question: Conversation) -> str:
            async with places:
                return await self._reply(question, name)

        return list(await asyncio.gather(*map(one, questions)))

    async def _reply(self, question: Conversation, name: str) -> str:
        call = self._catalogue.get(name).open(request_of(question), self._client)
        content, reasoning, pieces = "", "", []
        try:
            async for updates in call.updates():
                for _, update in updates:
                    content += update.content
                    reasoning += update.reasoning
                    pieces += update.tool_calls
        finally:
            call.close()
        return reply_text(content, reasoning, pieces)


def request_of(question: Conversation) -> GenerationInput:
    """What a client would send."""
    constraint = None
    if question.schema is not None:
        constraint = Constraint("json_schema", question.schema, "response_format")
    return GenerationInput(
        messages=question.prompt_messages,
        tools=question.tools,
        template_kwargs={"enable_thinking": question.thinking},
        sampling={"max_tokens": MAX_NEW_TOKENS, "temperature": 0.0},
        constraint=constraint,
    )


def reply_text(content: str, reasoning: str, pieces: list[ToolCallPiece]) -> str:
    """The reply as the model wrote it."""
    calls: dict[int, list[Any]] = {}
    for piece in pieces:
        call = calls.setdefault(piece.index, ["", ""])
        call[0] += piece.name or ""
        call[1] += piece.arguments or ""
    thought = f"<think>\n{reasoning}\n</think>\n\n" if reasoning else ""
    texts = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>'
        for name, text in calls.values()
    ]
    return thought + "\n".join([content, *texts] if content else texts)
