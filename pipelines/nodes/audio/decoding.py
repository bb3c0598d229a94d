"""Sound files of any usual container → samples, decoded by PyAV (ffmpeg's libraries as a package)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from pipelines.nodes.audio.pyav import import_av
from pipelines.nodes.watched_file import WatchedFile
from pipelines.values.tasks import SoundInput

if TYPE_CHECKING:
    import av

RATE = 16_000
"""Samples per second of what is returned."""
PACKED = "flt"
"""The channels of a sample side by side: PyAV crashes where eight or more of them are apart."""
FIELD = "file"
RATES, MAX_CHANNELS = range(4_000, 384_001), 32
"""Rates and channels that a file may have: headers may say anything, and a low rate makes many samples."""
MAX_FRAME_SAMPLES = 1 << 22
"""The most samples of one frame, all channels together: one packet may be a whole file."""
CONTAINERS = (
    *("wav", "w64", "aiff", "au", "caf", "flac", "mp3", "aac", "ac3", "eac3", "ogg", "amr", "ape", "wv"),
    *("matroska", "webm", "mov", "mp4", "m4a", "3gp", "3g2", "mj2", "mpeg", "mpegts", "asf", "avi", "flv"),
)
"""ffmpeg's names of the containers that are opened: none of them names other files or addresses to read."""
OPEN_OPTIONS = {"format_whitelist": ",".join(CONTAINERS), "protocol_whitelist": "none"}
Samples = NDArray[np.float32]


class AudioTooLong(RequestError):
    """A file with more seconds of sound than its limits allow."""


@dataclass(frozen=True, slots=True)
class AudioLimits:
    """Bounds on one file: seconds of sound, and seconds that decoding it may take."""

    max_seconds: float = 600.0
    deadline_s: float = 30.0


def decoded_sound(sound: SoundInput, max_bytes: int, left_s: float, together_s: float) -> Samples:
    """The samples of a sound of a request, which has `left_s` of the `together_s` seconds that all may have.

    Raises RequestError with its place, also for a file of more than `max_bytes`.
    """
    from pipelines.nodes.images.data_urls import read_data_url  # a worker has it once sounds are in a message

    where = sound.where
    try:
        if sound.samples is None:
            data = sound.data
            if data is None:
                data = read_data_url(sound.url, max_bytes, where)
            return _decoded_file(data, where, left_s)
        if len(sound.samples) > left_s * RATE:
            raise AudioTooLong("too long", where)
    except AudioTooLong:
        fault = f"`{where}`: the sounds of a request may have {together_s:g} seconds together"
        raise RequestError(fault, where) from None
    return sound.samples


def _decoded_file(data: bytes, where: str, left_s: float) -> Samples:
    try:
        return decode_audio(data, AudioLimits(max_seconds=left_s))
    except AudioTooLong:
        raise
    except RequestError as error:
        raise RequestError(f"`{where}`: {error.message}", where) from None


def decode_audio(data: bytes | memoryview, limits: AudioLimits = AudioLimits()) -> Samples:
    """The first audio stream of a file as float32[samples] at 16 kHz, its channels averaged.

    Packets that are damaged are left out, as ffmpeg does.  Memory is bounded by `limits`, however much the
    file unpacks to.  Raises RequestError for what is no sound, and for what is longer than the limits.
    """
    libraries = import_av("cannot decode audio")
    samples, source = bytearray(), _watched(data, limits)
    max_bytes = int(limits.max_seconds * RATE) * 4
    try:
        with libraries.open(source, options=OPEN_OPTIONS, metadata_errors="ignore") as file:
            for part in _converted(libraries, file, source.check):
                samples += part.data
                if len(samples) > max_bytes:
                    raise AudioTooLong(
                        f"The audio is longer than {limits.max_seconds:g} seconds; send it in parts.", FIELD
                    )
    except (libraries.FFmpegError, IndexError, ValueError) as error:
        raise _invalid() from error
    if not samples:
        raise _invalid()
    return np.frombuffer(samples, np.float32)


def _watched(data: bytes | memoryview, limits: AudioLimits) -> WatchedFile:
    too_long = RequestError(
        f"The audio takes longer than {limits.deadline_s:g} seconds to decode; send it as WAV or FLAC, or in "
        "parts.",
        FIELD,
    )
    return WatchedFile(data, limits.deadline_s, too_long)


def _invalid() -> RequestError:
    return RequestError("Invalid or unsupported audio file.", FIELD)


def _converted(
    libraries: Any, file: av.container.InputContainer, check: Callable[[], None]
) -> Iterator[Samples]:
    """float32[samples] of each piece of the file.  A resampler reads frames of one form.

    `check` is called before each packet and each frame, whether it can be decoded or not.
    """
    resampler, form = None, None
    for frame in _frames(libraries, file, check):
        check()
        _check_form(frame.sample_rate, frame.layout.nb_channels, frame.samples)
        now = frame.format.name, frame.layout.name, frame.sample_rate
        if now != form:
            yield from _averaged(resampler, frame=None)
            form = now
            resampler = libraries.AudioResampler(format=PACKED, layout=frame.layout, rate=RATE)
        yield from _averaged(resampler, frame)
    yield from _averaged(resampler, frame=None)


def _frames(
    libraries: Any, file: av.container.InputContainer, check: Callable[[], None]
) -> Iterator[av.AudioFrame]:
    stream = file.streams.audio[0]
    if stream.codec_context is None:
        raise ValueError("no decoder knows its codec, or its header was cut")
    _check_form(stream.codec_context.sample_rate, stream.codec_context.layout.nb_channels)
    for packet in file.demux(stream):
        check()
        with suppress(libraries.error.InvalidDataError):
            yield from packet.decode()


def _check_form(rate: int, channels: int, samples: int = 0) -> None:
    """Raise ValueError; 0 is not known yet."""
    if (rate and rate not in RATES) or channels > MAX_CHANNELS or samples * channels > MAX_FRAME_SAMPLES:
        raise ValueError(f"{channels} channels at {rate} Hz, {samples} samples in one frame")


def _averaged(resampler: Any, frame: av.AudioFrame | None) -> Iterator[Samples]:
    """What the resampler gives for a frame, or None for the file's end, its channels averaged."""
    if resampler is not None:
        for part in resampler.resample(frame):
            num_channels = part.layout.nb_channels
            samples: Samples = part.to_ndarray().reshape(-1, num_channels)
            yield samples[:, 0] if num_channels == 1 else samples.mean(axis=1)
