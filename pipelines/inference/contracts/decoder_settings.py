"""How a decoder is opened: what its line of the graph sets, and what the process adds."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.adapters.weights import AdapterRoom
from pipelines.base.prepared_models import PreparedModels
from pipelines.inference.contracts.device_errors import ModelError


@dataclass(frozen=True)
class DecoderSettings:
    """The settings of a model line; None leaves the choice to the engine.

    `kv_cache`: element type of the cache.  `precision`: type of activations.  `activation_group`: activations
    per scale where a linear layer rounds them to 8 bits.  `sparse_prefill`: tokens (first, recent) that most
    of a
    prompt attends to.  `routed_experts`: choices of experts are "counted", or also "returned" in all replies.
    `room`: which adapters may be loaded; None: none.  `prepared`: what engines made of
    models before; None: nothing is stored.
    """

    device: str = "cpu"
    engine: str | None = None
    kv_cache: str | None = None
    precision: str | None = None
    activation_group: int | None = None
    threads: int | None = None
    sparse_prefill: tuple[int, int] | None = None
    routed_experts: str | None = None
    room: AdapterRoom | None = None
    prepared: PreparedModels | None = None

    @property
    def targets(self) -> frozenset[str] | None:
        """What adapters may change, as q_proj; empty: every linear layer; None: nothing."""
        return None if self.room is None else self.room.targets

    def refuse(self, owner: str, *names: str) -> None:
        """Raise `ModelError` when a setting is named that `owner`, an engine or a device, does not have."""
        unused = [name for name in names if getattr(self, name) is not None]
        if unused:
            raise ModelError(f"{owner} has no {', '.join(unused)}.")
