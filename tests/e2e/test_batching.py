"""Texts of clients that stay and of clients that leave, over HTTP and a slow encoder."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import onnx
import pytest
from paced_model import byte_tokenizer, write_model
from patience import PATIENCE_S
from server_process import ServerProcess

ENCODER = """<ir_version: 10, opset_import: ["": 20]>
encoder (int64[n, w] input_ids, int64[n, w] attention_mask) => (float[n, w, 4] last_hidden_state) {
  turns = Constant <value = int64 {20000}> ()
  yes = Constant <value = bool {1}> ()
  last = Constant <value_ints = [2]> ()
  four = Constant <value_ints = [1, 1, 4]> ()
  ids = Cast <to = 1> (input_ids)
  deep = Unsqueeze (ids, last)
  wide = Tile (deep, four)
  last_hidden_state = Loop (turns, yes, wide) <
    body = turn (int64 i, bool go, float[n, w, 4] v) => (bool again, float[n, w, 4] x) {
      again = Identity (go)
      x = Sin (v)
    }>
}"""
GRAPH = """\
version: 1
task: embed
nodes:
  tokens: {type: tokenize, from: request.prompts, tokenizer: tokenizer.json}
  rows:
    type: batcher
    from: tokens
    max_batch_tokens: 256
    body:
      hidden: {type: encoder, from: batch, path: model.onnx, engine: onnxruntime, threads: 1}
      pooled: {type: pool, from: hidden, how: mean}
      unit:   {type: normalize, from: pooled}
"""
MANY = [f"{'a' * (20 + number % 60)}" for number in range(200)]
ENDLESS = MANY * 10
"""Texts that take so long that a client always leaves before their end."""


def write_slow_encoder(folder: Path) -> None:
    """An encoder that takes some hundredths of a second for a call."""
    folder.mkdir(parents=True)
    onnx.save(onnx.parser.parse_model(ENCODER), folder / "model.onnx")
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"vocab_size": 259, "max_position_embeddings": 128}))
    (folder / "graph.yaml").write_text(GRAPH)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    models = tmp_path_factory.mktemp("batching") / "models"
    write_model(models / "fake")
    write_slow_encoder(models / "vectors")
    with ServerProcess(models) as running:
        running.all_ready()
        yield running


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
