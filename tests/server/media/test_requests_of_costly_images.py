"""Images that take long to decode, over HTTP: refused with a reason, and neighbours have their turn."""

from __future__ import annotations

import asyncio
import base64
import time

import pytest

pytest.importorskip("PIL", reason="needs the extra vision")

from costly_images import scanned_jpeg
from test_random_images import ReadingPipeline

from pipelines.nodes.images.decoding import ImageLimits

WIDE_ROOM_S = 10


def chat(data):
    url = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
    parts = [{"type": "image_url", "image_url": {"url": url}}]
    return {"model": "tiny", "messages": [{"role": "user", "content": parts}]}


@pytest.fixture
def rig(make_rig):
    """A server with a model that reads images of 40 million pixels, as vision models do."""
    pipeline = ReadingPipeline()
    pipeline.reader.limits = ImageLimits(20_000_000, 40_000_000)
    return make_rig(pipeline)


def test_jpegs_of_very_many_scans_are_refused_and_hold_nobody_up(rig):
    """Two of them held both threads for long work; a third long request waits behind none."""
    bomb, good = chat(scanned_jpeg(5744, 5000)), chat(scanned_jpeg(900, 0) + bytes(100_000))
    began_s = time.process_time()

    async def scenario(client):
        bombs = [client.post("/v1/chat/completions", bomb) for _ in range(2)]
        return await asyncio.gather(*bombs, client.post("/v1/chat/completions", good))

    *refused, served = rig.run(scenario)
    for answer in refused:
        assert answer.status == 400
        assert answer.json["error"]["param"] == "messages.0.content.0"
        assert "5010 scans; at most 500" in answer.json["error"]["message"]
    assert served.status == 200
    assert time.process_time() - began_s < WIDE_ROOM_S
