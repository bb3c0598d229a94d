"""What an upload may take of a worker's memory: counted while it arrives, and while its sound is read."""

import asyncio
import tracemalloc

import pytest
from speech_rig import BOUNDARY, TRANSCRIPTIONS, SpeechPipeline, decoded, form, recording

import server.apis.speech.endpoint as endpoint
from pipelines.base.errors import Overloaded, RequestError
from server.apis.speech.form import sound_form
from server.apis.speech.sound_memory import MAX_LONGEST, SoundMemory

CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
PIECE = 16 << 10


class Arriving:
    """A body that comes piece by piece, and how much of it was read."""

    def __init__(self, body):
        self.body, self.num_read = body, 0

    async def __aiter__(self):
        for start in range(0, len(self.body), PIECE):
            self.num_read = start + PIECE
            yield self.body[start : start + PIECE]


def test_a_file_is_refused_when_its_bound_is_passed_not_at_its_end():
    body = Arriving(form(bytes(100 * PIECE))[0])
    with pytest.raises(RequestError, match=r"Maximum file size exceeded \(parameter=audio_filesize_mb"):
        asyncio.run(sound_form(CONTENT_TYPE, 4 * PIECE).read(body))
    assert body.num_read < 10 * PIECE


def test_a_file_is_in_memory_once():
    size = 8 << 20
    body = Arriving(form(bytes(size))[0])

    async def read():
        tracemalloc.start()
        try:
            form_read = await sound_form(CONTENT_TYPE, size).read(body)
            return len(form_read.files["file"]), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    num, peak = asyncio.run(read())
    assert num == size
    assert peak < 1.3 * size


def test_recordings_of_one_length_have_room_but_no_more():
    memory = SoundMemory(100)
    ends = [memory.hold(100) for _ in range(MAX_LONGEST)]
    with pytest.raises(Overloaded):
        memory.hold(1)
    ends.pop()()
    memory.hold(50)
    assert memory.num_bytes == 100 * MAX_LONGEST - 50


def test_a_recording_that_has_no_room_is_a_429(make_rig, monkeypatch):
    monkeypatch.setattr(endpoint, "decode_audio", decoded)
    rig = make_rig(SpeechPipeline())
    body, headers = form(recording())
    end = rig.services.sounds.hold(10**9)
    answer = rig.post(TRANSCRIPTIONS, body, **headers)
    assert (answer.status, answer.headers["retry-after"]) == (429, "2")
    end()
    assert rig.post(TRANSCRIPTIONS, body, **headers).status == 200
    assert rig.services.sounds.num_bytes == 0
