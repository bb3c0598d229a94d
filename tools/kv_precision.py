"""Measures how KV cache types change logits: `python -m tools.kv_precision MODEL [--text FILE]`.

The same tokens go through one decoder with a float32 cache and activations, and through the same decoder with
other types; every position's logits are compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipelines.host.backends.openvino.decoder_session import OpenVINOSession, OpenVINOSettings
from pipelines.host.engine.packed_parts import PromptPart, packed_step
from pipelines.host.engine.step import Step
from tools.logit_distance import log_softmax

README = Path(__file__).parents[1] / "README.md"
EXACT = OpenVINOSettings(kv_cache="f32", precision="f32")
CHUNK_TOKENS = 32
"""Number of positions per comparison, which bounds memory."""
OWN_CHOICE = "the device's own"


class Distance(NamedTuple):
    """The difference of some logits from the exact ones, over all positions.

    `mean_abs` and `max_abs` are of logits minus their mean, which does not affect sampling.  `kl` is the
    mean and `kl_max` the largest Kullback-Leibler divergence of the exact distribution from the other,
    in nats; `same` is the share of the positions with the same most probable token.
    """

    mean_abs: float
    max_abs: float
    kl: float
    kl_max: float
    same: float


def distance(exact: NDArray[np.float32], other: NDArray[np.float32]) -> Distance:
    """The distance of two float32[positions, vocab]."""
    apart = np.abs(_centred(exact) - _centred(other))
    exact_log, other_log = log_softmax(exact), log_softmax(other)
    divergence = (np.exp(exact_log) * (exact_log - other_log)).sum(axis=1)
    same = exact.argmax(axis=1) == other.argmax(axis=1)
    return Distance(
        float(apart.mean()),
        float(apart.max()),
        float(divergence.mean()),
        float(divergence.max()),
        float(same.mean()),
    )


def over_all(parts: Sequence[tuple[int, Distance]]) -> Distance:
    """The distance over all positions, from parts with their numbers of positions."""
    weights = [positions for positions, _ in parts]
    mean = {
        name: float(np.average([getattr(part, name) for _, part in parts], weights=weights))
        for name in ("mean_abs", "kl", "same")
    }
    most = {name: max(getattr(part, name) for _, part in parts) for name in ("max_abs", "kl_max")}
    return Distance(**mean, **most)


def _centred(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    return np.asarray(wide - wide.mean(axis=1, keepdims=True))


def compare(model: Path, ids: Sequence[int], kv_cache: str | None) -> tuple[str, Distance]:
    """(cache type in use, distance of its logits); None selects the device's default types."""
    other = OpenVINOSettings(kv_cache=kv_cache, precision=None if kv_cache is None else "f32")
    sessions = [OpenVINOSession(model, settings) for settings in (EXACT, other)]
    for session in sessions:
        session.allocate(-(-len(ids) // session.block_tokens))
    parts = []
    for begin in range(0, len(ids), CHUNK_TOKENS):
        chunk = np.array(ids[begin : begin + CHUNK_TOKENS], np.int64)
        exact, near = (session.run(_scored(chunk, begin, session.block_tokens)) for session in sessions)
        parts.append((len(chunk), distance(exact, near)))
    facts = sessions[1].describe()
    for session in sessions:
        session.close()
    return f"{facts['kv_cache']} cache, {facts['precision']} activations", over_all(parts)


def _scored(ids: NDArray[np.int64], past: int, block_tokens: int) -> Step:
    """The logits of all given tokens of one sequence, whose blocks are in order."""
    blocks = np.arange(-(-(past + len(ids)) // block_tokens), dtype=np.int32)
    return packed_step([PromptPart(ids, past, blocks, np.arange(len(ids)))], block_tokens)


def table(rows: Sequence[tuple[str, Distance]]) -> Iterator[str]:
    yield "| | mean difference | largest | KL divergence, nats | its largest | same likeliest token |"
    yield "|---|---|---|---|---|---|"
    for name, found in rows:
        numbers = f"{found.mean_abs:.4f} | {found.max_abs:.3f} | {found.kl:.2e} | {found.kl_max:.2e}"
        yield f"| {name} | {numbers} | {found.same:.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.kv_precision", description=__doc__)
    parser.add_argument("model", type=Path, help="openvino_model.xml or model.onnx, tokenizer.json beside it")
    parser.add_argument("--text", type=Path, default=README, help="what to read; default: README.md")
    parser.add_argument("--tokens", type=int, default=384)
    parser.add_argument("--types", nargs="*", default=["u8", "u4"], help="of the cache")
    asked = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(asked.model.parent / "tokenizer.json"))
    ids = tokenizer.encode(asked.text.read_text(), add_special_tokens=False).ids[: asked.tokens]
    rows = [compare(asked.model, ids, kv_cache) for kv_cache in [*asked.types, None]]
    rows[-1] = (f"{OWN_CHOICE}: {rows[-1][0]}", rows[-1][1])
    print(f"{len(ids)} positions, against an f32 cache with f32 activations\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
