"""The hidden states of an encoder that the sequences of one prompt attend to."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


@dataclass(eq=False)
class EncoderStates:
    """`values`: float32[num_encoder_states, hidden_size], at least one.

    They stay here until the request ends, so that a sequence that was preempted finds them again.  While
    sequences run that attend to them, their keys and values have `blocks` of the cache, which those share;
    `slots` says where each frame is, as block * block_tokens + offset.  `are_written` once a step has
    computed them.
    """

    values: NDArray[np.float32]
    blocks: list[int] = field(default_factory=list)
    slots: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    are_written: bool = False

    def place(self, blocks: list[int], block_tokens: int) -> None:
        """Says to which blocks the hidden states are to be written, in order."""
        begins = np.array(blocks, np.int32) * np.int32(block_tokens)
        places = np.add.outer(begins, np.arange(block_tokens, dtype=np.int32)).reshape(-1)[: len(self)]
        self.blocks, self.slots, self.are_written = blocks, np.asarray(places, np.int32), False

    @cached_property
    def digest(self) -> bytes:
        return blake2b(np.ascontiguousarray(self.values).data, digest_size=16).digest()

    def __len__(self) -> int:
        return len(self.values)
