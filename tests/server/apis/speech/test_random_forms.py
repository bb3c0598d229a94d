"""Random and damaged forms get a reply that is no server error, on every path."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from speech_rig import BOUNDARY, SpeechPipeline, decoded, recording

import server.apis.speech.endpoint as endpoint
from pipelines.base.errors import RequestError

NAMES = (
    *("model", "language", "prompt", "response_format", "temperature", "timestamp_granularities[]", "stream"),
    *("stream_include_usage", "vllm_xargs", "seed", "top_p", "top_k", "min_p", "n", "include[]", "file"),
    *("chunking_strategy", "long_form", "max_completion_tokens", "priority", "request_id", "to_language"),
    *("vad_config.enabled", "timestamp_granularities", "[]", "a[]", "é", "", "x" * 200),
)
VALUES = (
    *(
        "",
        "true",
        "false",
        "1",
        "-1",
        "0.5",
        "nan",
        "inf",
        "1e400",
        "9" * 23,
        "null",
        "{}",
        "[]",
        "[[[[",
        "\0",
    ),
    *(
        "json",
        "verbose_json",
        "srt",
        "vtt",
        "text",
        "de",
        "en",
        "hh",
        "word",
        "segment",
        "sequential",
        "auto",
    ),
    *("tiny", "nope", '{"language_detection_only":true}', '{"language_candidates":[1]}', "x" * 70_000, "é🦊"),
    '{"language_candidates":["de"]}',
)
ENDS = ("", "", "", '; filename="a.wav"', "; filename*=UTF-8''%zz", '; filename=""')
HEADERS = ("", "", "\r\nContent-Type: text/plain; charset=foo", "\r\nContent-Transfer-Encoding: base64")
TYPES = (f"multipart/form-data; boundary={BOUNDARY}",) * 9 + (
    *("multipart/form-data", 'multipart/form-data; boundary="', "text/plain"),
)
SOUNDS = (recording(1), recording(45), b"", b"junk")


def random_form(draw: random.Random) -> bytes:
    fields = [
        _field(draw.choice(NAMES), draw.choice(ENDS) + draw.choice(HEADERS), draw.choice(VALUES).encode())
        for _ in range(draw.randrange(8))
    ]
    if draw.random() < 0.8:
        fields.append(_field("file", '; filename="a"', draw.choice(SOUNDS)))
    draw.shuffle(fields)
    body = b"".join(fields) + f"--{BOUNDARY}--\r\n".encode()
    return damaged(draw, body) if draw.random() < 0.3 else body


def _field(name: str, more: str, value: bytes) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + value + b"\r\n"


def damaged(draw: random.Random, body: bytes) -> bytes:
    data = bytearray(body)
    for _ in range(draw.randrange(1, 6)):
        at, kind = draw.randrange(len(data) or 1), draw.randrange(3)
        if kind == 0:
            data[at : at + 1] = draw.randbytes(1)
        elif kind == 1:
            del data[at : at + draw.randrange(1, 40)]
        else:
            data[at:at] = draw.randbytes(4)
    return bytes(data)


def strict(data: bytes, limits: object) -> np.ndarray:
    """As `decoded`, of recordings that were not damaged."""
    if data not in SOUNDS[:2]:
        raise RequestError("Invalid or unsupported audio file.", "file")
    return decoded(data, limits)


@pytest.mark.parametrize(
    "count", [150, pytest.param(int(os.environ.get("BRAID_FORMS", "10000")), marks=pytest.mark.breadth)]
)
def test_random_forms(make_rig, monkeypatch, count):
    monkeypatch.setattr(endpoint, "decode_audio", strict)
    draw, pipeline, seen = random.Random(count), SpeechPipeline(), set()

    async def all_of_them(client):
        for _ in range(count):
            pipeline.calls.clear()
            api = draw.choice(["/v1", "/v3", "/v3/v1"])
            path = f"{api}/audio/{draw.choice(['transcriptions', 'translations'])}"
            body = random_form(draw)
            answer = await client.post(path, body, content_type=draw.choice(TYPES))
            assert answer.status < 500, (path, body[:600], answer.body)
            seen.add(answer.status)

    rig = make_rig(pipeline)
    rig.run(all_of_them)
    assert {200, 400} <= seen
    assert rig.services.arriving.num_bytes == rig.services.sounds.num_bytes == 0
