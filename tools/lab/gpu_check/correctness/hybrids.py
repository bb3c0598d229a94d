"""Compares small decoders on the GPU with logits in their packs, and texts of a crowd with themselves:
hybrids, and gpt-oss, whose attention has sinks and windows.

What is checked is how states and caches are read and written: in whole prompts and in chunks, token by token
in decode steps (replayed from CUDA graphs and not), after draft tokens that were rejected, from stored
prefixes, after preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.step import NO_STATE, RecurrentStates, Step
from pipelines.inference.engine.packed_parts import PromptPart, packed_step
from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.correctness.distance import distance
from tools.lab.gpu_check.packs.driving import EngineLimits, Request, answers, engine
from tools.lab.gpu_check.packs.packed import NotPacked
from tools.lab.gpu_check.packs.packed_hybrids import (
    HYBRIDS,
    WITH_SINKS,
    PackedHybrid,
    Text,
    read_hybrid,
)

Floats = NDArray[np.float32]
Open = Callable[[PackedHybrid, bool], Any]
"""(decoder, whether decode steps are replayed from CUDA graphs) → a context with its session."""

LIMIT = 2e-2
"""Allowed error relative to the size of logits: attention, and all of exports, is computed in 16 bits."""
SAME = 2e-2
"""The difference by which a log-probability in a crowd may differ from that of the whole text at once."""
GRAPHS = (False, True)
CHUNKS = (512, 48, 1)
"""Tokens of a prompt in a step."""
WRONG_TOKENS = 3
MAX_SEQUENCES, NUM_STATES, FEW_BLOCKS = 6, 24, 5
LOOK_AT_SINKS = (
    "pipelines/inference/backends/onnxruntime/cuda/lowering.py (head_sink), the check `attention`, "
    "pipelines/inference/backends/onnx/expert_linears.py"
)
LOOK_AT = (
    "ops/cuda/recurrent.cu (the check `kernels`), ops/cpu/state_operators.hpp, "
    "pipelines/inference/backends/onnxruntime/cuda/states.py"
)


class Room(NamedTuple):
    """What a session has for its runs: blocks for each text, one behind another, and for a crowd."""

    blocks: list[NDArray[np.int32]]
    num_blocks: int


@contextmanager
def open_on_gpu(packed: PackedHybrid, graphs: bool) -> Iterator[Any]:
    from ops.cuda.device import CupyDevice
    from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
    from pipelines.inference.backends.onnxruntime.cuda.provider import CudaRuntime

    device = CupyDevice()

    class Runtime(CudaRuntime):
        """With CUDA graphs or without, as requested."""

        def open(self, lowered: Any) -> Any:
            return self._open(lowered, graphs=graphs), graphs

    session = OnnxCudaSession(packed.lowered, device, Runtime(0, device.stream))
    try:
        yield session
    finally:
        session.close()


def check_hybrids(setting: Setting) -> None:
    """Check every hybrid of the pack with CUDA graphs and without; fails with all differences."""
    check_packed(setting, HYBRIDS, LOOK_AT)


def check_sinks(setting: Setting) -> None:
    """Check gpt-oss likewise; no CUDA graph replays its steps, since it is a mixture."""
    check_packed(setting, WITH_SINKS, LOOK_AT_SINKS)


def check_packed(setting: Setting, names: tuple[str, ...], look_at: str) -> None:
    wrong: list[str] = []
    packs = dict(packed_hybrids(setting, names))
    for name, packed in packs.items():
        for graphs in GRAPHS:
            words = f"{name}, {'with' if graphs else 'without'} CUDA graphs"
            try:
                wrong += check_hybrid(words, packed, setting, open_on_gpu, graphs=graphs)
            except Exception as error:  # an exception of one decoder must not hide the next
                wrong.append(f"{words}: {type(error).__name__}: {error}")
    if wrong:
        raise Failed("\n".join(wrong), look_at)


def packed_hybrids(setting: Setting, names: tuple[str, ...]) -> Iterator[tuple[str, PackedHybrid]]:
    """The decoders of the pack; transformers 4 makes all but one.  Raises `NotPacked` where there is none."""
    missing: list[NotPacked] = []
    for name in names:
        try:
            yield name, read_hybrid(setting.pack, name)
        except NotPacked as error:
            missing.append(error)
            setting.say(f"{name} is not in the pack")
    if len(missing) == len(names):
        raise missing[0]


def check_hybrid(
    words: str, packed: PackedHybrid, setting: Setting, opened: Open, *, graphs: bool
) -> list[str]:
    """The problems of one decoder, one line each."""
    wrong, errors = [], {}
    with opened(packed, graphs) as session:
        room = reserved(session, packed)
        runs: dict[str, list[Floats]] = {
            f"chunks of {size}": logits_in_chunks(session, packed.texts, room, size) for size in CHUNKS
        }
        runs["rejected drafts"] = [
            logits_after_rejection(session, text, blocks, has_states=packed.has_states)
            for text, blocks in zip(packed.texts, room.blocks, strict=True)
        ]
        for kind, rows in runs.items():
            far = distance(np.concatenate(rows), np.concatenate([text.logits for text in packed.texts]))
            errors[kind] = far.rms
            if not far.within(LIMIT):
                wrong.append(f"{words}, {kind}: {far}")
        for kind, limits in crowds(room, packed.has_states).items():
            apart, happened = crowd_error(session, packed, limits)
            errors[kind] = apart
            if apart > SAME or not happened:
                what = "" if happened else ", and it did not happen"
                wrong.append(f"{words}, {kind}: log-probabilities off by {apart:.2g}{what}")
        setting.note(words, errors)
        setting.say(f"{words}: worst {max(errors.values()):.2g}; {session.describe()['graphs']} graphs")
    return wrong


def reserved(session: Any, packed: PackedHybrid) -> Room:
    """Allocate for all runs: memory is allocated once, since CUDA graphs hold its addresses."""
    size = session.shape.block_tokens
    counts = [-(-len(text.ids) // size) for text in packed.texts]
    num_blocks = sum(counts) + 2 * MAX_SEQUENCES
    num_tokens = sum(len(text.ids) for text in packed.texts)
    session.reserve(num_tokens, MAX_SEQUENCES, num_tokens)
    session.allocate(num_blocks, num_states=NUM_STATES if packed.has_states else 0)
    blocks = np.split(np.arange(sum(counts), dtype=np.int32), np.cumsum(counts)[:-1])
    return Room(blocks, num_blocks)


def logits_in_chunks(session: Any, texts: list[Text], room: Room, step_tokens: int) -> list[Floats]:
    """The logits after the last tokens of each text, all texts beside one another.

    Steps give logits of all their tokens, as those in which all sequences decode do.
    """
    rows: list[list[Floats]] = [[] for _ in texts]
    for begin in range(0, max(len(text.ids) for text in texts), step_tokens):
        live = [number for number, text in enumerate(texts) if begin < len(text.ids)]
        chunks = [texts[number].ids[begin : begin + step_tokens] for number in live]
        parts = [
            PromptPart(ids, begin, room.blocks[number], np.arange(len(ids)), number)
            for number, ids in zip(live, chunks, strict=True)
        ]
        logits = run(session, packed_step(parts, session.shape.block_tokens))
        bounds = np.cumsum([len(ids) for ids in chunks])[:-1]
        for number, own in zip(live, np.split(logits, bounds), strict=True):
            rows[number].append(own)
    return [np.concatenate(own)[-len(text.logits) :] for own, text in zip(rows, texts, strict=True)]


def logits_after_rejection(
    session: Any, text: Text, blocks: NDArray[np.int32], *, has_states: bool
) -> Floats:
    """The logits of a text whose wanted tokens were preceded by a step with wrong ones, which were rejected.

    Each token of that step writes a state, if there are states; the next step continues from that of the last
    right token.
    """
    size, at = session.shape.block_tokens, len(text.ids) - len(text.logits) - 1
    none = np.arange(0)
    if at:
        run(session, packed_step([PromptPart(text.ids[:at], 0, blocks, none, 0)], size))
    drafted = np.concatenate([text.ids[at : at + 1], text.ids[:WRONG_TOKENS]])
    step = packed_step([PromptPart(drafted, at, blocks, none, 0)], size)
    if has_states:
        table = np.array([[0 if at else NO_STATE, *range(1, 2 + WRONG_TOKENS)]], np.int32)
        step = replace(step, states=RecurrentStates(table, np.ones(1, np.int32)))
    run(session, step)
    rest = text.ids[at + 1 :]
    step = packed_step([PromptPart(rest, at + 1, blocks, np.arange(len(rest)), 1)], size)
    return run(session, step)


def run(session: Any, step: Step) -> Floats:
    """The logits of a step, in host memory."""
    logits = session.run(step)
    rows: Floats = session.ops.fetch(logits, np.arange(step.num_logits)).copy()
    return rows


def crowds(room: Room, has_states: bool) -> dict[str, EngineLimits]:
    """The limits of engines whose sequences share prefixes, and wait for each other's blocks."""
    num_states = NUM_STATES if has_states else 0
    return {
        "shared prefixes": EngineLimits(
            room.num_blocks, MAX_SEQUENCES, 64, reuse_prefixes=True, num_states=num_states
        ),
        "preemption": EngineLimits(FEW_BLOCKS, MAX_SEQUENCES, 64, num_states=num_states),
    }


def crowd_error(session: Any, packed: PackedHybrid, limits: EngineLimits) -> tuple[float, bool]:
    """The difference of the log-probabilities of texts in a crowd from those of each text at once, and
    whether the crowd did what it is here for.
    """
    size = session.shape.block_tokens
    length, output = (
        (size + 5, 16) if limits.reuse_prefixes else (size - 3, size + 8)
    )  # from one block to three
    prompt = np.tile(packed.texts[0].ids, 1 + length // len(packed.texts[0].ids))[:length].tolist()
    tails = [[], [7], [7, 8, 9]] if limits.reuse_prefixes else [[number] for number in range(MAX_SEQUENCES)]
    requests = [
        Request([*prompt, *tail], output, at=16 * number if limits.reuse_prefixes else 0, logprobs=1)
        for number, tail in enumerate(tails)
    ]
    replies, counts = answers(engine(session, limits), requests)
    worst = 0.0
    for request, answer in zip(requests, replies, strict=True):
        ids = np.array(request.prompt + answer.tokens[:-1])
        blocks = np.arange(-(-len(ids) // size), dtype=np.int32)
        rows = np.arange(len(request.prompt) - 1, len(ids))
        whole = run(session, packed_step([PromptPart(ids, 0, blocks, rows, 0)], size)).astype(np.float64)
        chosen = whole[np.arange(len(rows)), answer.tokens]
        expected = chosen - np.log(np.exp(whole - whole.max(1, keepdims=True)).sum(1)) - whole.max(1)
        reported = np.array([token.logprob for token in answer.logprobs])
        worst = max(worst, float(np.abs(reported - expected).max()))
    if limits.reuse_prefixes:
        return worst, all(answer.num_cached >= size for answer in replies[1:])
    return worst, counts.preemptions > 0
