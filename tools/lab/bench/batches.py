"""`python -m tools.lab.bench.batches --url URL --model NAME`: a batch beside a tuned client, in turns.

Three ratios: the batch's requests per second to those of the best number of streams of a client that sends
the same chats; the time to the first token of other requests while a batch runs to that of an idle server;
the batch's tokens per second beside two chats a second to those without any.  Several servers, as of two
versions, take turns.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import click

from tools.client.async_client import AsyncClient
from tools.client.form_data import HEADERS, form_data
from tools.client.http_client import RequestFailed

CHAT = "/v1/chat/completions"
STREAMS = (16, 32, 64, 128)
POLL_S = 0.05
WAIT_S = 11.0
"""The engine expects further requests for ten seconds: a batch that is to run alone waits for longer."""
WORDS = ["river", "stone", "light", "paper", "window", "garden", "music", "number", "letter", "winter"]

PARTS = ("throughput", "latency", "beside")


@dataclass(frozen=True)
class Load:
    """What is sent, and how often."""

    model: str
    requests: int
    tokens: int
    samples: int
    seconds: float
    streams: Sequence[int]
    rounds: int
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(50_000))

    def some(self, tokens: int, times: int = 1) -> list[dict[str, Any]]:
        """Chats that no server has seen."""
        numbers = itertools.islice(self.numbers, times * self.requests)
        return [chat(self.model, number, tokens, 40) for number in numbers]


def chat(model: str, number: int, tokens: int, words: int) -> dict[str, Any]:
    """A conversation whose prompt no other one begins with."""
    text = " ".join(WORDS[(number * 7 + i * (number + 1)) % len(WORDS)] for i in range(words))
    message = {"role": "user", "content": f"{number}: {text}"}
    return {"model": model, "messages": [message], "max_tokens": tokens, "ignore_eos": True}


async def by_client(api: AsyncClient, chats: list[dict[str, Any]], streams: int) -> float:
    """Seconds for all chats, `streams` of them in flight."""
    places, start_s = asyncio.Semaphore(streams), time.perf_counter()

    async def one(body: dict[str, Any]) -> None:
        async with places:
            await api.post(CHAT, body)

    await asyncio.gather(*map(one, chats))
    return time.perf_counter() - start_s


async def begin(api: AsyncClient, chats: list[dict[str, Any]]) -> str:
    """The id of a batch of these chats."""
    lines = [
        json.dumps({"custom_id": str(i), "method": "POST", "url": CHAT, "body": body})
        for i, body in enumerate(chats)
    ]
    form = form_data({"purpose": "batch"}, "in.jsonl", "\n".join(lines).encode())
    file = json.loads(await api.send("POST", "/v1/files", form, HEADERS))
    body = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
    return str((await api.post("/v1/batches", body))["id"])


async def by_batch(api: AsyncClient, chats: list[dict[str, Any]]) -> float:
    """Seconds for all chats, from the creation of the batch to its end."""
    start_s, batch_id = time.perf_counter(), await begin(api, chats)
    while True:
        batch = await api.get(f"/v1/batches/{batch_id}")
        if batch["status"] in ("completed", "failed"):
            assert batch["request_counts"]["completed"] == len(chats), batch
            return time.perf_counter() - start_s
        await asyncio.sleep(POLL_S)


async def completed(api: AsyncClient, batch_id: str) -> int:
    return int((await api.get(f"/v1/batches/{batch_id}"))["request_counts"]["completed"])


async def cancel(api: AsyncClient, batch_id: str) -> None:
    with suppress(RequestFailed):  # it may have ended
        await api.post(f"/v1/batches/{batch_id}/cancel")
    while (await api.get(f"/v1/batches/{batch_id}"))["status"] == "cancelling":
        await asyncio.sleep(POLL_S)


async def first_token(api: AsyncClient, body: dict[str, Any]) -> float:
    """Seconds to the first event with text of a stream."""
    start_s = time.perf_counter()
    async with api.events(CHAT, {**body, "stream": True}) as events:
        async for event in events:
            if "role" not in event["choices"][0]["delta"]:
                return time.perf_counter() - start_s
    raise click.ClickException("a stream without text")


async def first_tokens(api: AsyncClient, load: Load, words: int, start: int) -> float:
    """The median of some requests, at times that steps do not set."""
    times, pauses = [], random.Random(start)
    for number in range(start, start + load.samples):
        times.append(await first_token(api, chat(load.model, 10_000 + number, 2, words)))
        await asyncio.sleep(pauses.uniform(0.03, 0.2))
    return statistics.median(times)


async def throughput(apis: list[AsyncClient], load: Load) -> None:
    sweep = {}
    for streams in load.streams:
        sweep[streams] = await by_client(apis[0], load.some(32), streams)
    best = min(sweep, key=lambda streams: sweep[streams])
    click.echo(f"seconds by streams: { {streams: round(s, 2) for streams, s in sweep.items()} }, best {best}")
    ratios = defaultdict(list)
    for _ in range(load.rounds):
        for api in apis:
            client_s = await by_client(api, load.some(32), best)
            await asyncio.sleep(WAIT_S)
            batch_s = await by_batch(api, load.some(32))
            ratios[api].append(client_s / batch_s)
            figures = f"client {load.requests / client_s:.1f}/s, batch {load.requests / batch_s:.1f}/s"
            click.echo(f"{api.url} {figures}: {ratios[api][-1]:.3f}")
    show("throughput, batch to client", ratios)


async def latency(apis: list[AsyncClient], load: Load, words: int) -> None:
    ratios, kind = defaultdict(list), f"first token of {words} words"
    for number in range(load.rounds):
        for api in apis:
            idle = await first_tokens(api, load, words, 100 * number)
            batch_id = await begin(api, load.some(load.tokens))
            while not await completed(api, batch_id):
                await asyncio.sleep(POLL_S)
            busy = await first_tokens(api, load, words, 100 * number + 50)
            await cancel(api, batch_id)
            ratios[api].append(busy / idle)
            figures = f"idle {1e3 * idle:.1f} ms, batch {1e3 * busy:.1f} ms"
            click.echo(f"{api.url} {kind}: {figures}: {ratios[api][-1]:.2f}")
    show(f"{kind}, batch to idle", ratios)


async def beside_chats(apis: list[AsyncClient], load: Load) -> None:
    """The tokens per second of a batch without other requests, and beside two chats a second."""
    ratios = defaultdict(list)
    for number in range(load.rounds):
        for api in apis:
            await asyncio.sleep(WAIT_S)
            batch_id = await begin(api, load.some(32, times=20))
            while not await completed(api, batch_id):
                await asyncio.sleep(POLL_S)
            alone = await speed(api, batch_id, load.seconds)
            chats = asyncio.create_task(chat_steadily(api, load.model, 300_000 + 1000 * number))
            await asyncio.sleep(1)
            beside = await speed(api, batch_id, load.seconds)
            chats.cancel()
            await cancel(api, batch_id)
            ratios[api].append(beside / alone)
            figures = f"batch alone {alone:.0f}, beside chats {beside:.0f} tokens/s"
            click.echo(f"{api.url} {figures}: {ratios[api][-1]:.2f}")
    show("batch beside chats, to alone", ratios)


async def speed(api: AsyncClient, batch_id: str, seconds: float) -> float:
    """Tokens per second of a batch of replies of 32 tokens that runs."""
    start_s, before = time.perf_counter(), await completed(api, batch_id)
    await asyncio.sleep(seconds)
    return 32 * (await completed(api, batch_id) - before) / (time.perf_counter() - start_s)


async def chat_steadily(api: AsyncClient, model: str, start: int) -> None:
    """Two chats a second, however long each takes."""
    async with asyncio.TaskGroup() as tasks:
        for number in itertools.count(start):
            tasks.create_task(by_client(api, [chat(model, number, 24, 20)], 1))
            await asyncio.sleep(0.5)


def show(name: str, ratios: Mapping[AsyncClient, list[float]]) -> None:
    for api, each in ratios.items():
        spread = f"{statistics.median(each):.3f} ({min(each):.3f} – {max(each):.3f})"
        click.echo(f"{api.url} {name}: {spread}")


async def measure(urls: Sequence[str], load: Load, parts: Sequence[str]) -> None:
    async with AsyncExitStack() as stack:
        apis = [await stack.enter_async_context(AsyncClient(url)) for url in urls]
        for api in apis:
            await by_client(api, [chat(load.model, 900_000 + i, 8, 40) for i in range(16)], 16)
        if "throughput" in parts:
            await throughput(apis, load)
        if "latency" in parts:
            for words in (20, 400):
                await latency(apis, load, words)
        if "beside" in parts:
            await beside_chats(apis, load)


@click.command()
@click.option(
    "--url", "urls", "-u", multiple=True, default=["http://127.0.0.1:8000"], help="Running servers."
)
@click.option("--model", required=True)
@click.option("--requests", default=200, show_default=True, help="Chats of a batch.")
@click.option("--tokens", default=128, show_default=True, help="Of each, while first tokens are measured.")
@click.option("--samples", default=8, show_default=True, help="First tokens of a round.")
@click.option("--seconds", default=6.0, show_default=True, help="How long a batch's speed is measured.")
@click.option("--streams", multiple=True, default=STREAMS, help="Of the client that is tuned.")
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(PARTS), default=PARTS, help="What to measure."
)
@click.option("--rounds", default=3, show_default=True)
def main(urls: Sequence[str], parts: Sequence[str], **load: Any) -> None:
    """Measure batches of running servers."""
    asyncio.run(measure(urls, Load(**load), parts))


if __name__ == "__main__":
    main()
