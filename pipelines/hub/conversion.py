"""Converts a fetched model to a served one: `braid export` in a process of its own, and what that needs.

CTranslate2's Whisper needs nothing more than serving does.  Plain weights need torch and transformers: where
they are missing here, they are installed into an environment in the cache, once.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from pipelines.base import DISTRIBUTION, ROOT
from pipelines.base.cache_folder import default_cache
from pipelines.base.digests import digest
from pipelines.hub.base.errors import HubError
from pipelines.hub.base.events import Stop

EXTRAS = ("cpu", "export")
NEEDED = ("torch", "transformers", "nncf", "onnxscript")
"""Modules by which an environment that can export is known."""
READY = ".ready"
RUN_MODULE = ("-P", "-m")
LAST_LINES = 12
_EXTRA = re.compile(r"""\s*;.*extra\s*==\s*["'](?P<extra>\w+)["'].*""")


class Converter:
    """Converts with what is installed here, or in an environment below `cache`."""

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache or default_cache()

    def __call__(
        self, fetched: Path, new: Path, weights: str | None, stop: Stop, note: Callable[[str], None]
    ) -> None:
        """Write the served form of the model in `fetched` to `new`.  `weights`: int8, int4 …; None: int8 of
        what needs no torch.  Raises HubError and PullCancelled.
        """
        python = sys.executable if weights is None else self._python(stop, note)
        note("converting it" if weights is None else f"exporting it with {weights} weights")
        options = ["--weights", weights] if weights else []
        command = [python, *RUN_MODULE, "tools.export", str(fetched), "--name", new.name]
        # lines about the folder are left out: it has another name when it is complete
        run(
            [*command, "--out", str(new), "--no-first-run", *options],
            stop,
            lambda line: None if str(new) in line else note(line),
        )

    def _python(self, stop: Stop, note: Callable[[str], None]) -> str:
        """The interpreter of an environment that can export."""
        if all(importlib.util.find_spec(module) for module in NEEDED):
            return sys.executable
        wanted = requirements()
        folder = self._cache / f"export-{digest(*sorted(wanted), sys.version, num_bytes=6)}"
        python = folder / "bin" / "python"
        if not (folder / READY).exists():
            note(f"making an environment with torch and transformers in {folder}: some minutes, 2 GB")
            run([sys.executable, "-m", "venv", str(folder)], stop, note)
            run([str(python), "-m", "pip", "install", "--disable-pip-version-check", *wanted], stop, note)
            code = "import site; print(site.getsitepackages()[0])"
            place = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
            (Path(place.stdout.strip()) / "braid.pth").write_text(f"{ROOT}\n", encoding="utf-8")
            (folder / READY).touch()
        return str(python)


def requirements() -> list[str]:
    """What pip installs for an export: the packages of Braid with these extras, at the pinned versions."""
    try:
        listed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError as error:
        raise HubError("Braid is not installed here, so what an export needs is not known") from error
    wanted = [name for line in listed if (name := _of_extras(line))]
    pins = ROOT / "constraints.txt"
    return [*wanted, *(["--constraint", str(pins)] if pins.is_file() else [])]


def _of_extras(line: str) -> str | None:
    """A requirement without its condition; None where it is one of another extra."""
    found = _EXTRA.search(line)
    if found is None:
        return line.partition(";")[0].strip()
    return line[: found.start()].strip() if found["extra"] in EXTRAS else None


def run(command: Sequence[str], stop: Stop, note: Callable[[str], None]) -> None:
    """Run a command to its end and note its lines.  Raises HubError with the last ones where it fails."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    ended = threading.Event()
    watch = threading.Thread(target=_end_when_stopped, args=(process, stop, ended), daemon=True)
    watch.start()
    lines: list[str] = []
    try:
        for line in _lines(process):
            lines = [*lines, line][-LAST_LINES:]
            note(line)
        process.wait()
    finally:
        _kill(process)
        ended.set()
    stop.check()
    if process.returncode:
        raise HubError("\n".join(lines) or f"{command[0]} ended with {process.returncode}")


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            if text := line.rstrip():
                yield text


def _end_when_stopped(process: subprocess.Popen[str], stop: Stop, ended: threading.Event) -> None:
    while not ended.wait(0.2):
        if stop.is_set():
            _kill(process)
            return


def _kill(process: subprocess.Popen[str]) -> None:
    """End a process that runs, with all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
