"""The process in which templates of requests are rendered: it may run out of time or memory, and die of it.

It reads jobs from its standard input and writes an outcome for each to its standard output, as lines of JSON.
The kernel ends it when a job takes too long, whatever it is doing.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from functools import lru_cache
from typing import Any

from pipelines.nodes.text.templates.jinja_template import ChatTemplateError, Template

MAX_ERROR_CHARS = 4096
OUT_OF_MEMORY = "it took more memory than a template may take"
NUM_COMPILED = 32
"""How many compiled templates are cached."""


@lru_cache(NUM_COMPILED)
def _compiled(source: str, special_tokens: tuple[tuple[str, str], ...]) -> Template:
    return Template(source, dict(special_tokens))


def outcome(job: dict[str, Any]) -> dict[str, Any]:
    """The text of a job, or why there is none, and the time that it took."""
    began_s = time.monotonic()
    try:
        template = _compiled(job["source"], tuple(sorted(job["special_tokens"].items())))
        found = {"text": template.render(**job["arguments"])}
    except ChatTemplateError as error:
        text = OUT_OF_MEMORY if isinstance(error.__cause__, MemoryError) else str(error)
        found = {"error": text[:MAX_ERROR_CHARS]}
    return {**found, "took_s": time.monotonic() - began_s}


def main(max_memory_bytes: int) -> None:
    """Render until the input ends; the process gets at most `max_memory_bytes`."""
    resource.setrlimit(resource.RLIMIT_AS, (max_memory_bytes, max_memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the process ends with its input
    for line in sys.stdin.buffer:
        job = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, job["timeout_s"])
        written = json.dumps(outcome(job)).encode() + b"\n"
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except MemoryError:
        sys.exit(1)
