"""A decoder without a model, for tests: its next token is a hash of the content of its cache.

A mistake in scheduling, caching or copying changes the text, the same on every machine and in every process.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ops import numpy_ops
from ops.cache_blocks import copy_blocks, slot_mapping
from ops.contract import SamplingOps
from pipelines.adapters.weights import AdapterWeights, LinearShape
from pipelines.inference.backends.host_memory import default_cache_bytes
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.contracts.step import NO_STATE, CrossAttention, InputsEmbeds, RecurrentStates, Step

NEVER_WRITTEN = -1
NEVER_COMPUTED = 0x5EED  # a state that no sequence may begin with
LOGIT_RANGE = 12.0
FAKE_SHAPE = LinearShape(8, 8)
FIRST_FRAME = 1 << 20  # the place of the first frame of a context, behind those of all its tokens

LACKS = ("kv_cache", "precision", "threads", "engine", "activation_group", "sparse_prefill", "routed_experts")


def open_fake(path: Path, settings: DecoderSettings) -> FakeSession:
    """The session that a file of JSON describes, by the fields of `FakeSession`.  Raises `ModelError`."""
    settings.refuse("device fake", *LACKS)
    return FakeSession(**json.loads(path.read_text()))


@dataclass(slots=True)
class FakeSession:
    """A `DecoderSession` whose cache int64[num_blocks, block_tokens] stores the token ids themselves.

    `host_cache` is the same for the host blocks.  With `keeps_states` (and the whole context in sight) it
    has recurrent states, each a hash of all tokens before it, which must agree with the cache.  With
    `encoder_hidden_size` the next token also depends on the frames that a sequence attends to.  With
    `embeds_size` the
    first number of a row counts in the place of the token that it stands for, and with several
    `mrope_axes` the place of a token on each of them; with `whole_images` so does the sum of those of its
    image, as far as the step has them. With `num_linears` it holds adapters, whose weights count in the
    places of the tokens of their sequences. Each step takes at least `step_s` seconds, with the GIL released.
    A step with the token `poison` raises RuntimeError after it has written to the cache, as a lost device
    would. A token depends on the last `sight_tokens` of its context; None: on the whole context. A step with
    the token `deadly` ends the process, as a fault of an engine would. After the share `dissent` of all
    contexts the token differs from that of a session without it, as a draft model's.
    """

    vocab_size: int = 97
    block_tokens: int = 4
    max_context: int = 4096
    step_s: float = 0.0
    poison: int | None = None
    deadly: int | None = None
    sight_tokens: int | None = None
    dissent: float = 0.0
    num_steps: int = 0
    keeps_states: bool = False
    can_swap: bool = True
    num_linears: int = 0
    encoder_hidden_size: int = 0
    max_frames: int = 0
    embeds_size: int = 0
    mrope_axes: int = 1
    whole_images: bool = False
    step_times_s: dict[int, float] = field(default_factory=dict)
    shape_change_s: float = 0.0
    ops: SamplingOps = numpy_ops
    cache: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    host_cache: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    states: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    adapters: dict[int, int] = field(default_factory=dict)

    @property
    def shape(self) -> ModelShape:
        return ModelShape(
            vocab_size=self.vocab_size,
            max_context=self.max_context,
            block_tokens=self.block_tokens,
            block_bytes=self.block_bytes,
            state_bytes=self.state_bytes,
            encoder_hidden_size=self.encoder_hidden_size,
            max_encoder_states=self.max_frames,
            inputs_embeds_size=self.embeds_size,
            mrope_axes=self.mrope_axes,
            whole_images=self.whole_images,
        )

    @property
    def state_bytes(self) -> int:
        return 8 if self.keeps_states else 0

    @property
    def block_bytes(self) -> int:
        return self.block_tokens * 8

    def reserve(self, max_tokens: int, max_sequences: int, max_scored: int = 0) -> int:
        return default_cache_bytes()

    def allocate(self, num_blocks: int, num_host_blocks: int = 0, num_states: int = 0) -> None:
        self.cache = np.full((num_blocks, self.block_tokens), NEVER_WRITTEN, np.int64)
        self.states = np.full(num_states, NEVER_COMPUTED, np.uint64)
        self.host_cache = np.full((num_host_blocks, self.block_tokens), NEVER_WRITTEN, np.int64)

    def run(self, step: Step) -> NDArray[np.float32]:
        """float32[num_logits, vocab_size], spread over [0, LOGIT_RANGE); see `fake_logits`."""
        self.num_steps += 1
        if self.step_s:
            time.sleep(self.step_s)
        self._move_blocks(step)
        if len(step.adapters):
            step = self._adapted(step)
        if step.embeds is not None:
            step = _with_rows(step, step.embeds, self.whole_images)
        if self.mrope_axes > 1:
            step = replace(step, token_ids=with_axes(step.token_ids, _positions(step, self.mrope_axes)))
        slots = slot_mapping(step.block_table, step.starts, step.positions, self.block_tokens)
        self.cache.reshape(-1)[slots] = step.token_ids
        if step.cross is not None:
            self.cache.reshape(-1)[step.cross.slots] = fake_frames(step.cross.new_states)
        if self.deadly is not None and (step.token_ids == self.deadly).any():
            os.abort()
        if self.poison is not None and (step.token_ids == self.poison).any():
            raise RuntimeError(f"the step met the poisoned token {self.poison}")
        digests = self._digests(step)
        if step.cross is not None:
            digests += self._frame_digests(step, step.cross)
        if step.states is not None and self.keeps_states:
            states = self._advance_states(step, step.states)
            digests += (states - digests) * GOLDEN  # nothing where the two agree
        if self.dissent:
            other = _mix(digests ^ GOLDEN)
            digests = np.where((other >> np.uint64(40)) < self.dissent * 2**24, other, digests)
        return _logits(digests, self.vocab_size)

    @property
    def linears(self) -> Mapping[str, LinearShape]:
        """One in each layer."""
        return {f"layers.{layer}.self_attn.q_proj": FAKE_SHAPE for layer in range(self.num_linears)}

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        self.adapters[number] = fake_adapter(weights)

    def drop_adapter(self, number: int) -> None:
        self.adapters.pop(number, None)

    def _adapted(self, step: Step) -> Step:
        """The step whose token ids are others where a sequence has an adapter."""
        own = [self.adapters[number] if number else 0 for number in step.adapters.tolist()]
        return replace(step, token_ids=step.token_ids + np.repeat(own, np.diff(step.starts)))

    def read_block(self, block: int) -> NDArray[np.uint8]:
        content: NDArray[np.uint8] = self.cache[block].copy().view(np.uint8)
        return content

    def write_block(self, block: int, content: NDArray[np.uint8]) -> None:
        self.cache[block] = content.view(np.int64)

    def warm(self) -> bool:
        return False

    def describe(self) -> Mapping[str, str]:
        return {"device": "fake", "precision": "int64", "cache": "int64"}

    def close(self) -> None:
        self.allocate(0)

    def _move_blocks(self, step: Step) -> None:
        self.host_cache[step.swaps_out[:, 1]] = self.cache[step.swaps_out[:, 0]]
        self.cache[step.swaps_in[:, 1]] = self.host_cache[step.swaps_in[:, 0]]
        copy_blocks(self.cache, step.copies)

    def _advance_states(self, step: Step, states: RecurrentStates) -> NDArray[np.uint64]:
        """uint64[num_logits]: the state after each sampled position; writes the states of all sequences."""
        sums = np.cumsum(_hashed(step.token_ids, step.positions), dtype=np.uint64)
        read = states.table[:, 0]
        begins = np.where(read == NO_STATE, np.uint64(0), self.states[read])
        begins[1:] -= sums[step.starts[1:-1] - 1]
        for seq, num_writes in enumerate(step.num_state_writes.tolist()):
            interval, past, end = states.interval[seq], step.num_past[seq], step.starts[seq + 1]
            ends = step.starts[seq] + (past // interval + 1 + np.arange(num_writes)) * interval - past
            rows = states.table[seq, 1 : num_writes + 1]
            self.states[rows] = begins[seq] + sums[np.minimum(ends, end) - 1]
        owners = np.searchsorted(step.starts, step.logit_indices, side="right") - 1
        return begins[owners] + sums[step.logit_indices]

    def _frame_digests(self, step: Step, cross: CrossAttention) -> NDArray[np.uint64]:
        """uint64[num_logits]: a hash of the cached frames that each sampled position attends to."""
        digests = []
        for blocks, num_frames in zip(cross.table, cross.lengths, strict=True):
            stored = self.cache[blocks].reshape(-1)[:num_frames]
            digests.append(_hashed_frames(stored).sum(dtype=np.uint64))
        owners = np.searchsorted(step.starts, step.logit_indices, side="right") - 1
        return np.array(digests, np.uint64)[owners]

    def _digests(self, step: Step) -> NDArray[np.uint64]:
        """uint64[num_logits]: a hash of the cached context up to and including each sampled position."""
        owners = np.searchsorted(step.starts, step.logit_indices, side="right") - 1
        ends = step.num_past[owners] + step.logit_indices - step.starts[owners] + 1
        counts = ends if self.sight_tokens is None else np.minimum(ends, self.sight_tokens)
        begins = np.cumsum(counts) - counts
        places = np.arange(counts.sum()) + np.repeat(ends - counts - begins, counts)
        blocks = step.block_table[np.repeat(owners, counts), places // self.block_tokens]
        hashed = _hashed(self.cache[blocks, places % self.block_tokens], places)
        return np.add.reduceat(hashed, begins) if len(begins) else hashed


def fake_adapter(weights: AdapterWeights) -> int:
    """What an adapter adds to the ids of its sequences' tokens: a number above those of all vocabularies."""
    linears = [weights.linears[name] for name in sorted(weights.linears)]
    content = b"".join(each.a.tobytes() + each.b.tobytes() for each in linears)
    return (crc32(content) | 1) << 24


def _with_rows(step: Step, embeds: InputsEmbeds, whole_images: bool) -> Step:
    """The step with the first numbers of its embeddings as the ids of their tokens."""
    token_ids, places, numbers = step.token_ids.copy(), embeds.places, fake_frames(embeds.values)
    if whole_images:
        follows = (np.diff(places) == 1) & ~np.isin(places[1:], step.starts)
        begins = np.flatnonzero(np.append(True, ~follows))
        sums = np.add.reduceat(numbers, begins)
        numbers = numbers + np.repeat(sums, np.diff(np.append(begins, len(places))))
    token_ids[places] = numbers
    return replace(step, token_ids=token_ids)


def _positions(step: Step, axes: int) -> NDArray[np.int64]:
    """int64[axes, num_tokens]: the positions by which a model rotates each token."""
    shifts = step.position_shifts
    shifted = step.positions if shifts is None else step.positions + shifts
    positions = np.tile(shifted, (axes, 1))
    if step.embeds is not None:
        positions[:, step.embeds.places] = step.embeds.positions
    return positions


def with_axes(token_ids: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers in the place of token ids, equal only for equal ids at equal positions, [axes, num_tokens]."""
    weights = 1 << (16 + 14 * np.arange(len(positions)))
    return np.asarray(token_ids + weights @ positions, np.int64)


def fake_logits(
    contexts: list[NDArray[np.int64]], vocab_size: int, frames: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """The logits after each context: float32[len(contexts), vocab_size], a hash of all its tokens in order,
    and of the `frames` that it attends to.

    `FakeSession` computes the same from its cache, so a test can predict the output of a sequence alone.
    """
    digests = [_hashed(context, np.arange(len(context))).sum(dtype=np.uint64) for context in contexts]
    seen = np.uint64(0) if frames is None else _hashed_frames(fake_frames(frames)).sum(dtype=np.uint64)
    return _logits(np.array(digests, np.uint64) + seen, vocab_size)


def fake_frames(frames: NDArray[np.float32]) -> NDArray[np.int64]:
    """What the cache stores of each frame: its first number."""
    return frames[:, 0].astype(np.int64)


def _hashed_frames(stored: NDArray[np.int64]) -> NDArray[np.uint64]:
    return _hashed(stored, np.arange(len(stored)) + FIRST_FRAME)


def _logits(digests: NDArray[np.uint64], vocab_size: int) -> NDArray[np.float32]:
    words = _mix(digests[:, None] + np.arange(vocab_size, dtype=np.uint64) * GOLDEN)
    return (words >> np.uint64(40)).astype(np.float32) * np.float32(LOGIT_RANGE / 2**24)


GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _hashed(token_ids: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash each token with its position; the sum of the hashes is the context's digest."""
    return _mix(token_ids.astype(np.uint64) ^ _mix((places + 1).astype(np.uint64) * GOLDEN))


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea, Flood, 2014): each output bit depends on all input bits."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
