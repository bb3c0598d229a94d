"""Sound files of usual containers, rates and channels → the same samples; other bytes are refused."""

import contextlib
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from sound_files import RATE, sound_file, tone

from pipelines.base.cancellation import WorkCancelled, cancelled_by
from pipelines.base.errors import RequestError
from pipelines.nodes.audio.decoding import AudioLimits, decode_audio

SECONDS = 1.5
EXACT = [  # container, codec, rate, channels
    ("wav", "pcm_s16le", 8_000, 1),
    ("wav", "pcm_s16le", 16_000, 1),
    ("wav", "pcm_s24le", 44_100, 2),
    ("wav", "pcm_f32le", 48_000, 6),
    ("wav", "pcm_s16le", 16_000, 8),
    ("w64", "pcm_s16le", 96_000, 2),
    ("aiff", "pcm_s16be", 22_050, 1),
    ("au", "pcm_mulaw", 8_000, 1),
    ("flac", "flac", 16_000, 1),
    ("flac", "flac", 48_000, 2),
    ("flac", "flac", 44_100, 8),
    ("ogg", "flac", 16_000, 1),
    ("matroska", "pcm_s16le", 44_100, 2),
    ("mov", "pcm_s16le", 32_000, 2),
]
LOSSY = [
    ("mp3", "libmp3lame", 16_000, 1),
    ("mp3", "libmp3lame", 44_100, 2),
    ("ogg", "libopus", 48_000, 2),
    ("ogg", "vorbis", 44_100, 2),
    ("ogg", "libopus", 48_000, 8),
    ("webm", "libopus", 48_000, 1),
    ("mp4", "aac", 16_000, 1),
    ("mp4", "aac", 44_100, 2),
    ("adts", "aac", 48_000, 2),
    ("mpegts", "mp2", 48_000, 2),
]
SLACK = {"mp4": 1, "adts": 2, "mpegts": 2, "ogg": 1}
"""Frames of the codec that may be heard in addition: some containers do not say where in a frame sound ends."""


@pytest.mark.parametrize(("container", "codec", "rate", "channels"), EXACT, ids=str)
def test_a_file_without_loss(container, codec, rate, channels):
    heard = decode_audio(sound_file(tone(SECONDS, rate), container, codec, rate, channels))
    assert heard.dtype == np.float32
    assert len(heard) == SECONDS * RATE
    within = slice(200, -200)  # the ends of a resampled tone ring
    assert np.abs(heard - tone(SECONDS))[within].max() < (0.02 if codec == "pcm_mulaw" else 2e-3)


@pytest.mark.parametrize(("container", "codec", "rate", "channels"), LOSSY, ids=str)
def test_a_file_with_loss(container, codec, rate, channels):
    heard = decode_audio(sound_file(tone(SECONDS, rate), container, codec, rate, channels))
    frame = {"aac": 1024, "mp2": 1152, "vorbis": 64}.get(codec, 0) * RATE / rate
    assert 0 <= len(heard) - SECONDS * RATE <= SLACK.get(container, 0) * frame
    loudness = np.sqrt(np.mean(heard**2))
    assert loudness == pytest.approx(np.sqrt(np.mean(tone(SECONDS) ** 2)), rel=0.1)


def test_channels_are_averaged():
    left = np.stack([tone(0.5), np.zeros(RATE // 2, np.float32)])
    assert np.abs(decode_audio(_stereo(left)) - tone(0.5) / 2).max() < 1e-4


WAV = sound_file(tone(0.5), "wav", "pcm_s16le")
JUNK = {
    "nothing": b"",
    "text": b"hello " * 100,
    "header": WAV[:30],
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
    "no_samples": WAV[:44],
    "playlist": b"#EXTM3U\n#EXTINF:10,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n",
}


@pytest.mark.parametrize("data", JUNK.values(), ids=JUNK)
def test_bytes_that_are_no_sound(data):
    with pytest.raises(RequestError, match=r"^Invalid or unsupported audio file\.$") as caught:
        decode_audio(data)
    assert caught.value.field == "file"


def test_a_file_names_no_other_file(tmp_path):
    """ffmpeg reads lists of files; what a client sends is never one."""
    other = tmp_path / "other.wav"
    other.write_bytes(WAV)
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{other.as_uri()}\n#EXT-X-ENDLIST\n"
    concat = f"ffconcat version 1.0\nfile '{other}'\n"
    for text in (playlist, concat):
        with pytest.raises(RequestError, match="Invalid"):
            decode_audio(text.encode())


def test_an_mp4_whose_samples_are_elsewhere_is_refused(tmp_path):
    other = tmp_path / "other.mp4"
    other.write_bytes(sound_file(tone(0.5), "mp4", "aac"))
    with pytest.raises(RequestError, match="Invalid"):
        decode_audio(referring_to(str(other), other.read_bytes()))


def referring_to(path: str, data: bytes) -> bytes:
    """An mp4 file whose sound is in another one: the reference to itself (`url `) names that one (`alis`)."""
    own, name = b"\0\0\0\x0curl \0\0\0\x01", f"v{path.replace('/', ':')}".encode()
    head = b"alis" + bytes(14) + b"\1v".ljust(40, b"\0") + b"\1o".ljust(64, b"\0") + bytes(36)
    named = (2).to_bytes(2, "big") + len(name).to_bytes(2, "big") + name + bytes(len(name) % 2)
    new = head + named + b"\xff\xff\0\0"
    new = (len(new) + 4).to_bytes(4, "big") + new
    at = data.index(own)
    file = bytearray(data[:at] + new + data[at + len(own) :])
    for box in (b"dref", b"dinf", b"minf", b"mdia", b"trak", b"moov"):  # those around it have grown
        begin = file.rindex(box, 0, at) - 4
        size = int.from_bytes(file[begin : begin + 4], "big") + len(new) - len(own)
        file[begin : begin + 4] = size.to_bytes(4, "big")
    return bytes(file)


@pytest.mark.parametrize(("at", "value"), [(22, 4000), (24, 0x7FFFFFFF), (24, 1)], ids=str)
def test_absurd_headers(at, value):
    """Channels are at byte 22 of a WAV file, the rate is at 24."""
    size = 2 if at == 22 else 4
    with pytest.raises(RequestError, match="Invalid"):
        decode_audio(WAV[:at] + value.to_bytes(size, "little") + WAV[at + size :])


def test_a_file_that_is_cut_gives_its_beginning():
    heard = decode_audio(WAV[: len(WAV) // 2])
    assert 0 < len(heard) < 0.3 * RATE


@pytest.mark.parametrize(("container", "codec", "rate", "channels"), EXACT[::3] + LOSSY[::2], ids=str)
def test_a_file_of_any_kind_that_is_cut(container, codec, rate, channels):
    """Wherever it ends, there are fewer samples, or the file is refused."""
    data = sound_file(tone(0.5, rate), container, codec, rate, channels)
    for part in (0.02, 0.1, 0.5, 0.9, 0.99):
        with contextlib.suppress(RequestError):
            assert 0 < len(decode_audio(data[: int(len(data) * part)])) <= 0.7 * RATE


def test_damaged_bytes_cost_some_samples():
    data = bytearray(sound_file(tone(3), "mp3", "libmp3lame"))
    data[len(data) // 2 : len(data) // 2 + 300] = bytes(range(150)) * 2
    assert 2 * RATE < len(decode_audio(bytes(data))) <= 3.2 * RATE


@pytest.mark.parametrize("sent", range(16))
def test_mutated_files_give_samples_or_an_error(sent):
    random = np.random.default_rng(sent)
    container, codec = [("wav", "pcm_s16le"), ("mp3", "libmp3lame"), ("flac", "flac"), ("mp4", "aac")][
        sent % 4
    ]
    data = np.frombuffer(sound_file(tone(0.5), container, codec), np.uint8).copy()
    places = random.integers(0, min(len(data), 400 if sent % 3 else len(data)), 8)
    data[places] = random.integers(0, 256, 8)
    with contextlib.suppress(RequestError):
        assert decode_audio(data.tobytes()).ndim == 1


def test_sound_that_is_too_long():
    silence = sound_file(np.zeros(20 * RATE, np.float32), "flac", "flac")
    assert len(decode_audio(silence, AudioLimits(max_seconds=20))) == 20 * RATE
    with pytest.raises(RequestError, match="longer than 19 seconds"):
        decode_audio(silence, AudioLimits(max_seconds=19))


def test_little_data_that_unpacks_to_much_is_not_unpacked():
    """Ten minutes of silence in 50 KB: memory holds the seconds that are allowed, no more."""
    silence = sound_file(np.zeros(600 * RATE, np.float32), "flac", "flac")
    assert len(silence) < 300_000
    tracemalloc.start()
    try:
        with pytest.raises(RequestError, match="longer than 30 seconds"):
            decode_audio(silence, AudioLimits(max_seconds=30))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * 30 * RATE * 4


def test_a_file_that_is_one_packet():
    """It would be resampled at once, to several times its bytes."""
    whole = tone(2, 4_000)
    assert len(decode_audio(sound_file(whole, "matroska", "pcm_s16le", 4_000, frame_size=8_000))) == 2 * RATE
    with pytest.raises(RequestError, match="Invalid"):
        decode_audio(sound_file(tone(600, 8_000), "matroska", "pcm_u8", 8_000, frame_size=1 << 23))


def test_decoding_that_takes_too_long():
    with pytest.raises(RequestError, match="takes longer than 0 seconds"):
        decode_audio(WAV, AudioLimits(deadline_s=0))


def test_packets_that_give_no_sound_take_their_time_too():
    """Those that cannot be decoded were left out without a look at the time."""
    damaged = bytearray(sound_file(tone(SECONDS, 48_000), "mp4", "aac", 48_000, 1))
    begin, end = damaged.index(b"mdat") + 4, damaged.index(b"moov") - 4
    damaged[begin:end] = b"\xff" * (end - begin)
    with pytest.raises(RequestError, match="Invalid"):
        decode_audio(bytes(damaged))
    with pytest.raises(RequestError, match="takes longer than 0 seconds"):
        decode_audio(bytes(damaged), AudioLimits(deadline_s=0))


def test_a_client_that_hung_up():
    gone = threading.Event()
    gone.set()
    with cancelled_by(gone), pytest.raises(WorkCancelled):
        decode_audio(WAV)


def test_without_pyav_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(RequestError, match=r"braid-server\[audio\]"):
        decode_audio(WAV)


def _stereo(channels):
    """A WAV file of float32[2, samples]."""
    data = channels.T.astype("<f4").tobytes()
    form = np.array([3, 2], "<u2").tobytes() + np.array([RATE, RATE * 8], "<u4").tobytes()
    chunk = b"fmt " + np.uint32(16).tobytes() + form + np.array([8, 32], "<u2").tobytes()
    body = b"WAVE" + chunk + b"data" + np.uint32(len(data)).tobytes() + data
    return b"RIFF" + np.uint32(len(body)).tobytes() + body
