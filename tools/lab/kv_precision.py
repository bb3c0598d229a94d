"""Measures how lossy settings change logits: `python -m tools.lab.kv_precision MODEL [--text FILE]`.

The same tokens go through one decoder with a float32 cache and activations, and through the same decoder with
other types of the cache, other groups of rounded activations, or sparse attention to a long context before
them; every position's logits are compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.paging.sparse_prefill import RetainedContext
from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.packed_parts import PromptPart, packed_step
from tools.logit_distance import log_softmax

README = Path(__file__).parents[2] / "README.md"
EXACT = OpenVINOSettings(kv_cache="f32", precision="f32")
CHUNK_TOKENS = 32
"""Number of positions per comparison, which bounds memory."""
CONTEXT_TOKENS = 512
"""Number of positions per step of the context before them."""
OWN_CHOICE = OpenVINOSettings()


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
    worse: float = 0.0


def distance(
    exact: NDArray[np.float32], other: NDArray[np.float32], said: NDArray[np.int64] | None = None
) -> Distance:
    """The distance of two float32[positions, vocab]; `said` int64[positions]: the text's next tokens."""
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
        0.0 if said is None else float((exact_log - other_log)[np.arange(len(said)), said].mean()),
    )


def over_all(parts: Sequence[tuple[int, Distance]]) -> Distance:
    """The distance over all positions, from parts with their numbers of positions."""
    weights = [positions for positions, _ in parts]
    mean = {
        name: float(np.average([getattr(part, name) for _, part in parts], weights=weights))
        for name in ("mean_abs", "kl", "same", "worse")
    }
    most = {name: max(getattr(part, name) for _, part in parts) for name in ("max_abs", "kl_max")}
    return Distance(**mean, **most)


def _centred(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    return np.asarray(wide - wide.mean(axis=1, keepdims=True))


def compare(
    model: Path, ids: Sequence[int], others: Sequence[OpenVINOSettings], before: int = 0
) -> list[tuple[str, Distance]]:
    """(what differs, the distance of its logits) for each of `others`, over the tokens after `before`.

    Of `ids` the last one is only a next token.
    """
    sessions = [OpenVINOSession(model, settings) for settings in (EXACT, *others)]
    for session in sessions:
        session.allocate(-(-len(ids) // session.shape.block_tokens))
    tokens, size = np.array(ids, np.int64), len(ids) - 1
    for begin in range(0, before, CONTEXT_TOKENS):
        chunk = tokens[begin : min(begin + CONTEXT_TOKENS, before)]
        for session in sessions:
            session.run(_step(chunk, begin, session.shape.block_tokens, rows=0))
    parts: list[list[tuple[int, Distance]]] = [[] for _ in others]
    for begin in range(before, size, CHUNK_TOKENS):
        end = min(begin + CHUNK_TOKENS, size)
        step = _step(tokens[begin:end], begin, sessions[0].shape.block_tokens, rows=end - begin)
        exact, *compared = (session.run(step) for session in sessions)
        for those, logits in zip(parts, compared, strict=True):
            those.append((end - begin, distance(exact, logits, tokens[begin + 1 : end + 1])))
    names = [_name(*both) for both in zip(sessions[1:], others, strict=True)]
    for session in sessions:
        session.close()
    return [(name, over_all(those)) for name, those in zip(names, parts, strict=True)]


def _name(session: OpenVINOSession, settings: OpenVINOSettings) -> str:
    facts = session.describe()
    named = [f"{facts['kv_cache']} cache, {facts['precision']} activations"]
    if settings.activation_group is not None:
        named.append(f"rounded in groups of {settings.activation_group}")
    if settings.retained is not None:
        named.append("sparse prefill {}+{}".format(*settings.retained))
    return ", ".join(named)


def _step(ids: NDArray[np.int64], past: int, block_tokens: int, rows: int) -> Step:
    """A part of one sequence, whose blocks are in order, with the logits of its first `rows` tokens."""
    blocks = np.arange(-(-(past + len(ids)) // block_tokens), dtype=np.int32)
    return packed_step([PromptPart(ids, past, blocks, np.arange(rows))], block_tokens)


def table(rows: Sequence[tuple[str, Distance]]) -> Iterator[str]:
    yield (
        "| | mean difference | largest | KL divergence, nats | its largest | same likeliest token "
        "| next token less likely, nats |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name, found in rows:
        numbers = f"{found.mean_abs:.4f} | {found.max_abs:.3f} | {found.kl:.2e} | {found.kl_max:.2e}"
        yield f"| {name} | {numbers} | {found.same:.1%} | {found.worse:+.4f} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.lab.kv_precision", description=__doc__)
    parser.add_argument("model", type=Path, help="openvino_model.xml or model.onnx, tokenizer.json beside it")
    parser.add_argument("--text", type=Path, default=README, help="what to read; default: README.md")
    parser.add_argument("--tokens", type=int, default=384)
    parser.add_argument("--before", type=int, default=0, help="tokens of the text before those")
    parser.add_argument("--types", nargs="*", default=["u8", "u4"], help="of the cache, in float32 otherwise")
    parser.add_argument("--groups", nargs="*", type=int, default=[], help="of activations (activation_group)")
    parser.add_argument("--sparse", nargs="*", default=[], help="FIRST+RECENT tokens of sparse_prefill")
    asked = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(asked.model.parent / "tokenizer.json"))
    text = tokenizer.encode(asked.text.read_text(), add_special_tokens=False).ids
    ids = text[: asked.before + asked.tokens + 1]
    others = [
        *(OpenVINOSettings(kv_cache=cache_type, precision="f32") for cache_type in asked.types),
        OWN_CHOICE,
        *(replace(OWN_CHOICE, activation_group=group) for group in asked.groups),
        *(
            replace(OWN_CHOICE, retained=RetainedContext(*map(int, sizes.split("+"))))
            for sizes in asked.sparse
        ),
    ]
    rows = compare(asked.model, ids, others, asked.before)
    print(f"{len(ids) - 1 - asked.before} positions after {asked.before}, against f32 types\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
