"""`python -m tools.lab.bench.opening FILE.gguf`: what it takes to convert a GGUF file and to open it.

Each line is a fresh process without a server: the first converts the file into an empty cache and opens it on
OpenVINO, the next ones open what is stored.  Processor seconds count where other programs share the cores.
Before them the bytes of the file are read once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click

MEMORY = {"VmHWM": "peak MB", "VmRSS": "resident MB"}
STORED_BYTES = 1 << 30
"""What prepared graphs may take."""


class Clock(NamedTuple):
    """Seconds, of the wall and of the process."""

    wall: float
    processor: float

    @classmethod
    def now(cls) -> Clock:
        return cls(time.perf_counter(), time.process_time())

    def until_now(self, what: str) -> dict[str, float]:
        now = Clock.now()
        return {f"{what} s": now.wall - self.wall, "processor s": now.processor - self.processor}


@click.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--rounds", default=3, show_default=True, help="Openings after the first.")
@click.option("--in-cache", type=click.Path(path_type=Path), help="Open it in this process, with this cache.")
def main(file: Path, rounds: int, in_cache: Path | None) -> None:
    """Print seconds and MB, one line for each opening of FILE."""
    if in_cache is not None:
        click.echo(json.dumps(opened(file, in_cache)))
        return
    with tempfile.TemporaryDirectory() as cache:
        show("read", read(file))
        for number in range(rounds + 1):
            command = [sys.executable, "-m", "tools.lab.bench.opening", str(file), "--in-cache", cache]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            for what, figures in json.loads(done.stdout.splitlines()[-1]).items():
                show(f"{what} {number or '(first)'}", figures)


def show(name: str, figures: dict[str, float]) -> None:
    click.echo(f"{name:19}" + "  ".join(f"{key} {value:.2f}" for key, value in figures.items()))


def read(file: Path) -> dict[str, float]:
    piece, start = bytearray(1 << 20), Clock.now()
    with file.open("rb", buffering=0) as opened_file:
        while opened_file.readinto(piece):
            pass
    return {**start.until_now("read"), "MB": file.stat().st_size / 1e6}


def opened(file: Path, cache: Path) -> dict[str, dict[str, float]]:
    """What conversion and opening took, and the memory of this process after each."""
    from pipelines.base.prepared_models import PreparedModels
    from pipelines.gguf.converted_files import converted
    from pipelines.inference.backends.openvino.open_decoder import open_decoder
    from pipelines.inference.contracts.decoder_settings import DecoderSettings

    start = Clock.now()
    folder = converted(file, cache)
    figures = {"converted": {**start.until_now("convert"), **memory()}}
    start = Clock.now()
    session = open_decoder(
        folder / "model.onnx", DecoderSettings(prepared=PreparedModels(STORED_BYTES, cache))
    )
    figures["opened"] = {**start.until_now("open"), **memory()}
    session.close()
    return figures


def memory() -> dict[str, float]:
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[field].split()[0]) / 1e3 for field, name in MEMORY.items()}


if __name__ == "__main__":
    main()
