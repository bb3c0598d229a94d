"""Endpoints fetch the images of a request before its model sees it, and only for a model that will."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("PIL", reason="needs the extra vision")

from asgi_client import AsgiClient
from pooled_calls import PooledPipeline
from scripted import ScriptedPipeline
from test_fetching import reply, server_of

from pipelines.nodes.audio.sounds import ReadAudio
from pipelines.nodes.images.decoding import ImageLimits
from pipelines.nodes.images.images import ReadImages
from server.media.fetching import MediaFetcher
from server.media.sources import MediaSources


def image_line():
    reader = ReadImages(ReadImages.Config(model="config.json", settings="config.json", max_images=2), None)
    reader.limits = ImageLimits(1_000, 1_000)
    return SimpleNamespace(node=reader)


class SeeingPipeline(ScriptedPipeline):
    """Takes images and lets the test see them."""

    def __init__(self):
        super().__init__()
        self.lines = [*self.lines, image_line()]

    def prepare(self, generation, client, tenant="", earlier=None, trace=None):
        self.seen = [each.data for each in generation.images]
        generation.images.clear()
        return super().prepare(generation, client, tenant, earlier)


def chat(*urls):
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"model": "tiny", "messages": [{"role": "user", "content": parts}]}


def ask(rig, path, body_of, *replies):
    """(answer, requests of the server of images) of a body that is made with the server's address."""

    async def scenario(client: AsgiClient):
        async with server_of(*replies) as (port, requests):
            rig.services.media = MediaFetcher(MediaSources((), (f"127.0.0.1:{port}",)), 10_000)
            return await client.post(path, body_of(f"http://127.0.0.1:{port}")), requests

    return rig.run(scenario)


def batch(address):
    return {**chat(), "messages": [chat(f"{address}/a")["messages"]]}


@pytest.mark.parametrize(
    ("path", "body_of"),
    [
        ("/v1/chat/completions", lambda at: chat(f"{at}/a")),
        ("/v3/chat/completions", lambda at: chat(f"{at}/a")),
        ("/v1/chat/completions/batch", batch),
    ],
)
def test_what_is_fetched_reaches_the_model(make_rig, path, body_of):
    pipeline = SeeingPipeline()
    answer, requests = ask(make_rig(pipeline), path, body_of, reply(b"picture"))
    assert (answer.status, pipeline.seen, len(requests)) == (200, [b"picture"], 1), answer.body


@pytest.mark.parametrize(
    ("path", "body_of"),
    [
        ("/v1/embeddings", lambda at: chat(f"{at}/a")),
        ("/v2/embed", lambda at: {"model": "tiny", "images": [f"{at}/a"]}),
        ("/v1/score", lambda at: {"model": "tiny", "data_1": "a", "data_2": chat(f"{at}/a")["messages"][0]}),
    ],
)
def test_what_is_fetched_reaches_a_model_of_vectors(make_rig, path, body_of):
    pipeline = PooledPipeline()
    pipeline.lines = [image_line()]
    answer, requests = ask(make_rig(pipeline), path, body_of, reply(b"picture"))
    assert (answer.status, len(requests)) == (200, 1), answer.body
    assert [each.data for each in pipeline.asked.images] == [b"picture"]


def test_a_url_that_is_named_twice_is_fetched_once_and_data_urls_stay(make_rig):
    pipeline = SeeingPipeline()
    _, requests = ask(
        make_rig(pipeline), "/v1/chat/completions", lambda at: chat(f"{at}/a", f"{at}/a"), reply(b"one")
    )
    assert (pipeline.seen, len(requests)) == ([b"one", b"one"], 1)
    ask(make_rig(pipeline), "/v1/chat/completions", lambda at: chat("data:,x"), reply())
    assert pipeline.seen == [None]


def test_a_file_that_does_not_come_is_the_request_s_fault(make_rig):
    rig = make_rig(SeeingPipeline())
    answer, _ = ask(rig, "/v1/chat/completions", lambda at: chat(f"{at}/a"), reply(status="404 Not Found"))
    assert answer.status == 422
    assert answer.error["message"].startswith("Failed to fetch media from URL: HTTP 404 error")
    assert answer.error["param"] == "messages.0.content.0"


def test_nothing_is_fetched_for_a_request_that_is_refused(make_rig):
    for pipeline, images in ((ScriptedPipeline(), 1), (SeeingPipeline(), 3)):
        _, requests = ask(
            make_rig(pipeline),
            "/v1/chat/completions",
            lambda at, images=images: chat(*(f"{at}/{i}" for i in range(images))),
            reply(b"x"),
        )
        assert requests == []


class HearingPipeline(ScriptedPipeline):
    """Takes sounds and lets the test see them."""

    def __init__(self):
        super().__init__()
        reader = ReadAudio(
            ReadAudio.Config(model="config.json", settings="config.json", max_sounds=1, max_mb=0.001), None
        )
        self.lines = [*self.lines, SimpleNamespace(node=reader)]

    def prepare(self, generation, client, tenant="", earlier=None, trace=None):
        self.heard = [each.data for each in generation.sounds]
        generation.sounds.clear()
        return super().prepare(generation, client, tenant, earlier)


def spoken(*urls):
    parts = [{"type": "audio_url", "audio_url": {"url": url}} for url in urls]
    return {"model": "tiny", "messages": [{"role": "user", "content": parts}]}


def test_sounds_are_fetched_too_within_their_own_bounds(make_rig):
    pipeline = HearingPipeline()
    answer, requests = ask(
        make_rig(pipeline), "/v1/chat/completions", lambda at: spoken(f"{at}/a"), reply(b"sound")
    )
    assert (answer.status, pipeline.heard, len(requests)) == (200, [b"sound"], 1), answer.body
    answer, _ = ask(
        make_rig(pipeline), "/v1/chat/completions", lambda at: spoken(f"{at}/a"), reply(bytes(2_000))
    )
    assert (answer.status, answer.error["param"]) == (422, "messages.0.content.0"), answer.body
    for pipeline, body_of in (
        (HearingPipeline(), lambda at: spoken(f"{at}/a", f"{at}/b")),
        (HearingPipeline(), lambda at: chat(f"{at}/a")),
        (ScriptedPipeline(), lambda at: spoken(f"{at}/a")),
    ):
        _, requests = ask(make_rig(pipeline), "/v1/chat/completions", body_of, reply(b"x"))
        assert requests == []
