"""Finds the parsers of one chat template in a process with bounded time and memory.

Reads one line of JSON, the arguments of `find_parsers`, and writes what was found as another.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from dataclasses import asdict

from pipelines.nodes.text.parser_search.search import find_parsers


def main(max_memory_bytes: int, max_s: float) -> None:
    """Find the parsers; the process gets this much memory and processor time at most."""
    resource.setrlimit(resource.RLIMIT_AS, (max_memory_bytes, max_memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the deadline ends the process
    signal.setitimer(signal.ITIMER_PROF, max_s)
    print(json.dumps(asdict(find_parsers(*json.loads(sys.stdin.buffer.read())))))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), float(sys.argv[2]))
    except MemoryError:
        sys.exit(1)
