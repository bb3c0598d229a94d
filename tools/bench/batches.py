"""`python -m tools.bench.batches --url URL --model NAME`: a batch beside a tuned client, in turns.

Three ratios: the batch's requests per second to those of the best number of streams of a client that sends
the same chats; the time to the first token of other requests while a batch runs to that of an idle server;
the batch's tokens per second beside two chats a second to those without any.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from typing import Any

import click
import httpx

CHAT = "/v1/chat/completions"
STREAMS = (16, 32, 64, 128)
POLL_S = 0.05
WAIT_S, SPEED_S = 12.0, 6.0
"""The engine expects further requests for ten seconds; how long a batch's speed is measured."""
WORDS = ["river", "stone", "light", "paper", "window", "garden", "music", "number", "letter", "winter"]


def chat(model: str, number: int, tokens: int, words: int) -> dict[str, Any]:
    """A conversation whose prompt no other one begins with."""
    text = " ".join(WORDS[(number * 7 + i * (number + 1)) % len(WORDS)] for i in range(words))
    message = {"role": "user", "content": f"{number}: {text}"}
    return {"model": model, "messages": [message], "max_tokens": tokens, "ignore_eos": True}


async def by_client(api: httpx.AsyncClient, chats: list[dict[str, Any]], streams: int) -> float:
    """Seconds for all chats, `streams` of them in flight."""
    places, start_s = asyncio.Semaphore(streams), time.perf_counter()

    async def one(body: dict[str, Any]) -> None:
        async with places:
            (await api.post(CHAT, json=body)).raise_for_status()

    await asyncio.gather(*map(one, chats))
    return time.perf_counter() - start_s


async def begin(api: httpx.AsyncClient, chats: list[dict[str, Any]]) -> str:
    """The id of a batch of these chats."""
    lines = [
        json.dumps({"custom_id": str(i), "method": "POST", "url": CHAT, "body": body})
        for i, body in enumerate(chats)
    ]
    files = {"file": ("in.jsonl", "\n".join(lines).encode())}
    file = (await api.post("/v1/files", data={"purpose": "batch"}, files=files)).raise_for_status().json()
    body = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
    return str((await api.post("/v1/batches", json=body)).raise_for_status().json()["id"])


async def by_batch(api: httpx.AsyncClient, chats: list[dict[str, Any]]) -> float:
    """Seconds for all chats, from the creation of the batch to its end."""
    start_s, batch_id = time.perf_counter(), await begin(api, chats)
    while True:
        batch = (await api.get(f"/v1/batches/{batch_id}")).json()
        if batch["status"] in ("completed", "failed"):
            assert batch["request_counts"]["completed"] == len(chats), batch
            return time.perf_counter() - start_s
        await asyncio.sleep(POLL_S)


async def completed(api: httpx.AsyncClient, batch_id: str) -> int:
    return int((await api.get(f"/v1/batches/{batch_id}")).json()["request_counts"]["completed"])


async def cancel(api: httpx.AsyncClient, batch_id: str) -> None:
    await api.post(f"/v1/batches/{batch_id}/cancel")
    while (await api.get(f"/v1/batches/{batch_id}")).json()["status"] == "cancelling":
        await asyncio.sleep(POLL_S)


async def first_token(api: httpx.AsyncClient, body: dict[str, Any]) -> float:
    """Seconds to the first event with text of a stream."""
    start_s = time.perf_counter()
    async with api.stream("POST", CHAT, json={**body, "stream": True}) as reply:
        async for line in reply.aiter_lines():
            if line.startswith("data: {") and '"role"' not in line:
                return time.perf_counter() - start_s
    raise click.ClickException("a stream without text")


async def first_tokens(api: httpx.AsyncClient, model: str, words: int, start: int) -> list[float]:
    times = []
    for number in range(start, start + 8):
        times.append(await first_token(api, chat(model, 10_000 + number, 2, words)))
        await asyncio.sleep(0.05)
    return times


async def throughput(api: httpx.AsyncClient, model: str, requests: int, rounds: int) -> None:
    numbers = iter(range(0, 10**6, requests))

    def some() -> list[dict[str, Any]]:
        start = next(numbers)
        return [chat(model, start + i, 32, 40) for i in range(requests)]

    sweep = {streams: await by_client(api, some(), streams) for streams in STREAMS}
    best = min(sweep, key=lambda streams: sweep[streams])
    click.echo(f"seconds by streams: { {streams: round(s, 2) for streams, s in sweep.items()} }, best {best}")
    ratios = []
    for _ in range(rounds):
        alone_s, batch_s = await by_client(api, some(), best), await by_batch(api, some())
        ratios.append(alone_s / batch_s)
        click.echo(f"client {requests / alone_s:.1f}/s, batch {requests / batch_s:.1f}/s: {ratios[-1]:.3f}")
    click.echo(
        f"throughput, batch to client: {statistics.median(ratios):.3f} ({min(ratios):.3f}–{max(ratios):.3f})"
    )


async def latency(api: httpx.AsyncClient, model: str, words: int, rounds: int) -> None:
    ratios = []
    for number in range(rounds):
        idle = statistics.median(await first_tokens(api, model, words, 100 * number))
        chats = [chat(model, 50_000 + 1000 * number + i, 128, 40) for i in range(400)]
        batch_id = await begin(api, chats)
        while await completed(api, batch_id) < 1:
            await asyncio.sleep(POLL_S)
        busy = statistics.median(await first_tokens(api, model, words, 100 * number + 50))
        await cancel(api, batch_id)
        ratios.append(busy / idle)
        times = f"idle {1e3 * idle:.0f} ms, batch {1e3 * busy:.0f} ms"
        click.echo(f"first token of {words} words: {times}: {ratios[-1]:.2f}")
    click.echo(
        f"first token of {words} words, batch to idle: {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f}–{max(ratios):.2f})"
    )


async def beside_chats(api: httpx.AsyncClient, model: str, rounds: int) -> None:
    """The tokens per second of a batch without other requests, and beside two chats a second."""
    for number in range(rounds):
        await asyncio.sleep(WAIT_S)
        batch_id = await begin(api, [chat(model, 200_000 + 5000 * number + i, 32, 40) for i in range(4000)])
        while not await completed(api, batch_id):
            await asyncio.sleep(POLL_S)
        alone = await speed(api, batch_id)
        chats = asyncio.create_task(chat_steadily(api, model, 300_000 + 1000 * number))
        await asyncio.sleep(1)
        beside = await speed(api, batch_id)
        chats.cancel()
        await cancel(api, batch_id)
        click.echo(f"batch alone {alone:.0f}, beside chats {beside:.0f} tokens/s: {beside / alone:.2f}")


async def speed(api: httpx.AsyncClient, batch_id: str) -> float:
    """Tokens per second of a batch of replies of 32 tokens that runs."""
    start_s, before = time.perf_counter(), await completed(api, batch_id)
    await asyncio.sleep(SPEED_S)
    return 32 * (await completed(api, batch_id) - before) / (time.perf_counter() - start_s)


async def chat_steadily(api: httpx.AsyncClient, model: str, start: int) -> None:
    """Two chats a second, however long each takes."""
    async with asyncio.TaskGroup() as tasks:
        for number in itertools.count(start):
            tasks.create_task(by_client(api, [chat(model, number, 24, 20)], 1))
            await asyncio.sleep(0.5)


async def measure(url: str, model: str, requests: int, rounds: int) -> None:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as api:
        await by_client(api, [chat(model, 900_000 + i, 8, 40) for i in range(16)], 16)
        await throughput(api, model, requests, rounds)
        for words in (20, 400):
            await latency(api, model, words, rounds)
        await beside_chats(api, model, rounds)


@click.command()
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="A running server.")
@click.option("--model", required=True)
@click.option("--requests", default=200, show_default=True, help="Chats of a batch.")
@click.option("--rounds", default=3, show_default=True)
def main(url: str, model: str, requests: int, rounds: int) -> None:
    """Measure batches of a running server."""
    asyncio.run(measure(url, model, requests, rounds))


if __name__ == "__main__":
    main()
