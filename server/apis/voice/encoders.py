"""Samples → the bytes of a sound file, piece by piece as they are made: by PyAV but for wav and pcm."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from pipelines.nodes.audio.pyav import import_av

FormatName = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
Samples = NDArray[np.int16]
PCM_RATE = 24_000
"""OpenAI's clients play pcm at this rate; it has no header that says another."""
UNKNOWN_BYTES = 0xFFFF_FFFF
"""The length in a header that is sent before the sound is made."""
MP3_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)


@dataclass(frozen=True)
class FileFormat:
    """`container` and `codec` are ffmpeg's names, "" where no library is needed; `rates` are those that it
    can have, () for any: another becomes the one that is nearest.
    """

    content_type: str
    container: str = ""
    codec: str = ""
    rates: tuple[int, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    def rate(self, own: int) -> int:
        """The rate for samples of the rate `own`."""
        return min(self.rates, key=lambda rate: abs(rate - own)) if self.rates else own


FORMATS: dict[str, FileFormat] = {
    "mp3": FileFormat(
        "audio/mpeg", "mp3", "libmp3lame", MP3_RATES, {"write_xing": "0", "id3v2_version": "0"}
    ),
    "opus": FileFormat("audio/ogg", "ogg", "libopus", (PCM_RATE,)),
    "aac": FileFormat("audio/aac", "adts", "aac", MP3_RATES),
    "flac": FileFormat("audio/flac", "flac", "flac"),
    "wav": FileFormat("audio/wav"),
    "pcm": FileFormat("audio/pcm", rates=(PCM_RATE,)),
}
assert tuple(FORMATS) == get_args(FormatName)


class SoundEncoder(Protocol):
    """One file.  Both methods return the bytes that are ready; they may take long."""

    def add(self, samples: Samples) -> bytes: ...

    def end(self) -> bytes: ...


def open_encoder(name: str, own_rate: int) -> SoundEncoder:
    """The encoder for samples of the rate `own_rate`.  Raises RequestError where its library is missing."""
    form = FORMATS[name]
    if form.container:
        return CodedSound(name, form, own_rate)
    return PlainSound(b"" if name == "pcm" else wav_header(own_rate), own_rate, form.rate(own_rate))


class PlainSound:
    """Samples as they are, behind a header."""

    def __init__(self, header: bytes, own_rate: int, rate: int) -> None:
        self._header = header
        self._rates = own_rate, rate

    def add(self, samples: Samples) -> bytes:
        header, self._header = self._header, b""
        return header + resampled(samples, *self._rates).astype("<i2", copy=False).tobytes()

    def end(self) -> bytes:
        return b""


class CodedSound:
    """One continuous stream of an encoder of ffmpeg's."""

    def __init__(self, name: str, form: FileFormat, own_rate: int) -> None:
        self._av = import_av(f"cannot write {name}", "Request wav or pcm, or install", "response_format")
        self._rates = own_rate, form.rate(own_rate)
        self._written = Written()
        self._file = self._av.open(
            self._written, "w", format=form.container, container_options=dict(form.options)
        )
        self._stream = self._file.add_stream(form.codec, rate=self._rates[1], layout="mono")

    def add(self, samples: Samples) -> bytes:
        if len(samples):
            frame = self._av.AudioFrame.from_ndarray(resampled(samples, *self._rates)[None], "s16", "mono")
            frame.sample_rate = self._rates[1]
            self._file.mux(self._stream.encode(frame))
        return self._written.take()

    def end(self) -> bytes:
        self._file.mux(self._stream.encode(None))
        self._file.close()
        return self._written.take()


class Written:
    """A file that only grows: what was written and not yet taken."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: Any) -> int:
        self._data += data
        return len(data)

    def take(self) -> bytes:
        data, self._data = bytes(self._data), bytearray()
        return data


def wav_header(rate: int, num_bytes: int | None = None) -> bytes:
    """The header of 16-bit samples of one channel; None: as many as follow."""
    data = UNKNOWN_BYTES if num_bytes is None else num_bytes
    whole = UNKNOWN_BYTES if num_bytes is None else num_bytes + 36
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    return (
        struct.pack("<4sI4s4sI", b"RIFF", whole, b"WAVE", b"fmt ", len(form))
        + form
        + struct.pack("<4sI", b"data", data)
    )


def resampled(samples: Samples, own_rate: int, rate: int) -> Samples:
    """Resamples by the spectrum; a sentence begins and ends in silence."""
    count = round(len(samples) * rate / own_rate)
    if rate == own_rate or not count:
        return samples
    spectrum = np.fft.rfft(samples.astype(np.float64))
    found = np.fft.irfft(spectrum, count) * (count / len(samples))
    return np.clip(np.rint(found), -32_768, 32_767).astype(np.int16)
