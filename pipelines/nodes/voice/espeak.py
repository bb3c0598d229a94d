"""espeak-ng of this machine: found, and asked for the phonemes of texts in a process of its own.

Braid neither holds nor installs it: it is under the GPL.
"""

from __future__ import annotations

import ctypes.util
import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pipelines.base.cancellation import check_cancelled
from pipelines.base.errors import EngineError

LIBRARY = "PHONEMIZER_ESPEAK_LIBRARY"
"""The environment variable with the path of the library, as other programs read it, where it is not found."""
MISSING = (
    "this voice needs espeak-ng for its phonemes, and it is not installed: apt install espeak-ng "
    f"(brew install espeak-ng), or name its library in {LIBRARY}; then load the model again"
)
CHILD = Path(__file__).with_name("espeak_child.py")
DEADLINE_S = 10.0
"""For the phonemes of one text, and for the start of the process."""
TICK_S = 0.1
MAX_ANSWER_BYTES = 4 << 20


def find_espeak() -> str | None:
    """The library as a loader finds it; None where it is not installed."""
    return os.environ.get(LIBRARY) or ctypes.util.find_library("espeak-ng")


class Espeak:
    """A process that knows the phonemes of one voice; started anew when it ended.  For any thread.

    Raises ValueError where espeak-ng or the voice is missing.
    """

    def __init__(self, voice: str) -> None:
        self._voice = voice
        self._lock = threading.Lock()
        self._child = self._start()

    def clauses(self, text: str) -> list[tuple[str, str]]:
        """The phonemes of each clause, and the text that was read for it; of all but the last with one
        character more.  Raises EngineError.
        """
        with self._lock:
            if self._child.poll() is not None:
                self._child = self._start()
            try:
                return [(phonemes, read) for phonemes, read in self._ask(text)]
            except BaseException as error:
                self._end()  # an answer that comes later would be taken for that of another text
                if isinstance(error, (OSError, ValueError)):
                    raise EngineError(f"espeak-ng gave no phonemes for this text: {error}") from error
                raise

    def close(self) -> None:
        with self._lock:
            self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        library = find_espeak()
        if library is None:
            raise ValueError(MISSING)
        child = subprocess.Popen(
            [sys.executable, "-IS", str(CHILD), library, self._voice],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._child = child
        try:
            ready = self._answer()
        except OSError as error:
            self._end()
            raise ValueError(f"espeak-ng does not start: {error}") from error
        if ready:
            self._end()
            raise ValueError(ready["error"])
        return child

    def _ask(self, text: str) -> Any:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(text).encode() + b"\n")
        self._child.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        """The next line, as JSON.  Raises OSError."""
        assert self._child.stdout is not None
        line, ends_s = bytearray(), time.monotonic() + DEADLINE_S
        ready = select.poll()
        ready.register(self._child.stdout, select.POLLIN)
        while not line.endswith(b"\n"):
            check_cancelled()
            if time.monotonic() > ends_s or len(line) > MAX_ANSWER_BYTES:
                raise OSError("it takes too long")
            if ready.poll(TICK_S * 1000):
                piece = os.read(self._child.stdout.fileno(), 1 << 16)
                if not piece:
                    raise OSError("its process ended")
                line += piece
        return json.loads(line)

    def _end(self) -> None:
        child = self._child
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
