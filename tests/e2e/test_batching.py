"""Texts of clients that stay and of clients that leave, over HTTP and a slow encoder."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from patience import PATIENCE_S

MANY = [f"{'a' * (20 + number % 60)}" for number in range(200)]
ENDLESS = MANY * 10
"""Texts that take so long that a client always leaves before their end."""


@pytest.fixture
def server(mixed):
    return mixed


def client_of(server):
    return httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S)


async def embed(client, texts):
    answer = await client.post("/v1/embeddings", json={"model": "vectors", "input": texts})
    assert answer.status_code == 200, answer.text
    return [entry["embedding"] for entry in answer.json()["data"]]


def waiting(server):
    return server.metric("vllm:num_requests_waiting", "vectors")


def computed(server):
    return server.metric("vllm:prompt_tokens_total", "vectors")


def test_embeddings_are_in_input_order_however_they_are_batched(server):
    async def scene():
        async with client_of(server) as client:
            alone = [(await embed(client, [text]))[0] for text in ("one", "two and more", "3")]
            several = asyncio.gather(*(embed(client, ["3", "one", "two and more"]) for _ in range(8)))
            return alone, await several

    alone, several = asyncio.run(scene())
    for vectors in several:
        for vector, expected in zip(vectors, (alone[2], alone[0], alone[1]), strict=True):
            assert vector == pytest.approx(expected, abs=1e-5)


def test_a_disconnected_client_removes_its_waiting_texts(server):
    async def scene():
        async with client_of(server) as client:
            leaving = [asyncio.create_task(embed(client, ENDLESS)) for _ in range(3)]
            await asyncio.to_thread(server.wait_for, lambda: waiting(server) > 300)
            for task in leaving:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)
            await asyncio.to_thread(server.wait_for, lambda: waiting(server) == 0)
            return await embed(client, ["hello"])

    before = computed(server)
    assert len(asyncio.run(scene())) == 1
    assert computed(server) - before < 3 * sum(map(len, ENDLESS)) / 2  # most of them never ran


def test_one_text_is_served_while_many_wait(server):
    async def scene():
        async with client_of(server) as client:
            many = asyncio.create_task(embed(client, ENDLESS))
            await asyncio.to_thread(server.wait_for, lambda: waiting(server) > 50)
            await embed(client, ["hello"])
            unfinished = not many.done()
            many.cancel()
            await asyncio.gather(many, return_exceptions=True)
            return unfinished

    assert asyncio.run(scene())
