"""Templates that requests bring: rendered in processes beside the worker, with bounded time and memory."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import RequestError, Unavailable
from pipelines.nodes.text.templates.jinja_template import MAX_RENDER_S
from pipelines.nodes.text.templates.render_process import OUT_OF_MEMORY

NUM_PROCESSES = 2
ROOT = Path(__file__).parents[4]
"""The folder that holds the packages."""
MAX_MEMORY_BYTES = 768 << 20
"""Of a process: the interpreter takes about 100 MB of it."""
FIELD = "chat_template"


class RenderProcess:
    """A process that renders one job at a time."""

    def __init__(self) -> None:
        module = "pipelines.nodes.text.templates.render_process"
        command = [sys.executable, "-P", "-m", module, str(MAX_MEMORY_BYTES)]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )

    def outcome(self, job: Mapping[str, Any]) -> dict[str, Any] | None:
        """What became of a job; None where the process died of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            return None
        found: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
        return found

    def end(self) -> int:
        """End the process; its exit status, minus the signal that ended it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            return self._process.wait(MAX_RENDER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class RenderProcesses:
    """At most NUM_PROCESSES of them, each started when it is first needed, and used again."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(NUM_PROCESSES)
        self._idle: list[RenderProcess] = []

    def outcome(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """What became of a job.  Raises Unavailable while others take all processes."""
        if not self._free.acquire(timeout=MAX_RENDER_S):
            raise Unavailable("all processes that render templates of requests are busy")
        try:
            process = self._idle.pop() if self._idle else RenderProcess()
            found = process.outcome(job)
            if found is not None:
                self._idle.append(process)
                return found
            return {"error": _cause_of_death(process.end()), "took_s": MAX_RENDER_S}
        finally:
            self._free.release()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().end()


def _cause_of_death(status: int) -> str:
    if status == -signal.SIGALRM:
        return f"it took longer than {MAX_RENDER_S:g} s"
    return OUT_OF_MEMORY


PROCESSES = RenderProcesses()
atexit.register(PROCESSES.close)


class RequestTemplate:
    """The template of one request, with MAX_RENDER_S for all that it renders."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self._source = source
        self._special_tokens = dict(special_tokens)
        self._left_s = MAX_RENDER_S

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        add_generation_prompt: bool,
        continue_final_message: bool,
        kwargs: Mapping[str, Any],
    ) -> str:
        """As `Template.render`.  Raises RequestError for everything that the template does wrong."""
        arguments = {
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": continue_final_message,
            "kwargs": dict(kwargs),
        }
        job = {
            "source": self._source,
            "special_tokens": self._special_tokens,
            "arguments": arguments,
            "timeout_s": max(self._left_s, 1e-3),
        }
        found = PROCESSES.outcome(job)
        self._left_s -= found["took_s"]
        if "error" in found:
            raise RequestError(f"`{FIELD}`: {found['error']}", FIELD)
        text: str = found["text"]
        return text
