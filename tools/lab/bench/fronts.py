"""`python -m tools.lab.bench.fronts NAME=URL …`: what a proxy, or Ray Serve, adds to requests.

Of several addresses of the same models, the first one is compared with: in each round every address gets a
list of models, a chat of one token, and a stream, in changing order, on a connection that stays open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from statistics import median
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tools.client.async_client import AsyncClient

PATH = "/v1/chat/completions"
TIMEOUT_S = 120.0
COLUMNS = {
    "models": "list of models",
    "short": "one token",
    "first": "first token of a stream",
    "token": "each later token",
}
Measured = dict[str, list[float]]
"""What was measured → its milliseconds, one of each round."""


class Front:
    """One address, and what was measured there."""

    def __init__(self, name: str, client: AsyncClient, model: str, tokens: int) -> None:
        self.name = name
        self.measured: Measured = {column: [] for column in COLUMNS}
        self._client, self._model, self._tokens = client, model, tokens

    @classmethod
    async def at(cls, address: str, model: str | None, tokens: int, stack: AsyncExitStack) -> Front:
        """NAME=URL, and its first model where none is named.  Raises RequestFailed."""
        name, url = address.split("=", 1)
        client = await stack.enter_async_context(AsyncClient(url, TIMEOUT_S))
        return cls(name, client, model or (await client.get("/v1/models"))["data"][0]["id"], tokens)

    async def round(self) -> None:
        """Measure everything once.  Raises RequestFailed."""
        await self._take("models", self._client.get("/v1/models"))
        await self._take("short", self._client.post(PATH, self._chat(1)))
        await self._stream()

    async def _stream(self) -> None:
        begin_s, arrivals = time.perf_counter(), []
        async with self._client.events(PATH, self._chat(self._tokens, stream=True)) as events:
            async for event in events:
                if any(choice["delta"].get("content") for choice in event["choices"]):
                    arrivals.append(time.perf_counter() - begin_s)
        first_s, last_s = arrivals[0], arrivals[-1]
        self.measured["first"].append(1e3 * first_s)
        self.measured["token"].append(1e3 * (last_s - first_s) / (self._tokens - 1))

    async def _take(self, column: str, reply: Awaitable[object]) -> None:
        begin_s = time.perf_counter()
        await reply
        self.measured[column].append(1e3 * (time.perf_counter() - begin_s))

    def _chat(self, tokens: int, **more: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": "Write about the sea."}]
        limits = {"max_tokens": tokens, "ignore_eos": True, "temperature": 0}
        return {"model": self._model, "messages": messages, **limits, **more}


def row(front: Front, first: Front) -> list[str]:
    """Medians, and the median of what a round took more than that of the first front."""
    cells = [front.name]
    for column, times in front.measured.items():
        more = median(one - other for one, other in zip(times, first.measured[column], strict=True))
        cells.append(f"{median(times):.1f} ms" + ("" if front is first else f" ({more:+.1f})"))
    return cells


@click.command()
@click.argument("addresses", nargs=-1, required=True, metavar="NAME=URL …")
@click.option("--rounds", default=30, show_default=True)
@click.option("--tokens", default=64, show_default=True, help="Of each stream.")
@click.option("--model", help="Else the first of each address.")
def main(addresses: tuple[str, ...], rounds: int, tokens: int, model: str | None) -> None:
    """Print medians for each address, and in brackets how much a round was slower than at the first one."""
    if not all("=http" in address for address in addresses):
        raise click.BadParameter("an address is NAME=http://HOST:PORT", param_hint="NAME=URL")
    fronts = asyncio.run(measure(addresses, rounds, tokens, model))
    table = Table("front", *COLUMNS.values())
    for front in fronts:
        table.add_row(*row(front, fronts[0]))
    Console().print(table)


async def measure(addresses: Sequence[str], rounds: int, tokens: int, model: str | None) -> list[Front]:
    """The fronts with what was measured there.  Raises RequestFailed."""
    async with AsyncExitStack() as stack:
        fronts = [await Front.at(address, model, tokens, stack) for address in addresses]
        for front in fronts:
            await front.round()  # what is made once
            front.measured = {column: [] for column in COLUMNS}
        for number in range(rounds):
            shift = number % len(fronts)
            for front in fronts[shift:] + fronts[:shift]:
                await front.round()
        return fronts


if __name__ == "__main__":
    main()
