"""What the body of a scheduler computes with: the step, and the per-slot state of its sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops import numpy_ops
from ops.contract import SamplingOps
from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.speculation.speculation_slots import SpeculationSlots
from pipelines.inference.sampling.sampling_slots import SamplingSlots


@dataclass(frozen=True, slots=True)
class StepContext:
    """A step with the engine's live state beside it, for the sampler, the grammar and the speculation nodes.

    `sampling` is indexed by `step.logit_slots`, `speculation` by `step.slots`; it is None where the engine
    does not speculate.  Backends get `step` alone.
    """

    step: Step
    sampling: SamplingSlots
    speculation: SpeculationSlots | None = None

    def with_step(self, step: Step) -> StepContext:
        """Gives this state beside another step."""
        return replace(self, step=step)


class Masks(NamedTuple):
    """The tokens that some sampled logit rows may choose; all others may choose any token."""

    rows: NDArray[np.int64]
    """int64[k], ascending: indices of sampled logit rows."""
    bits: NDArray[np.uint32]
    """uint32[k, ceil(vocab_size / 32)]: a set bit allows its id, the lowest bit the lowest id."""


@dataclass(frozen=True, slots=True)
class Logits:
    """The logits that a model computed: `values[j]` belongs to `context.step.logit_indices[j]`.

    `values`: float32[num_logits, vocab_size], writable, since stages change the sampled rows in place.  It is
    a numpy array, or one on a device; `ops` is the arithmetic for it.
    """

    values: Any
    context: StepContext
    ops: SamplingOps = numpy_ops
    masks: Masks | None = None
