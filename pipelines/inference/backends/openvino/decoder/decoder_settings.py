"""How a decoder is compiled on OpenVINO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.inference.backends.openvino.model.activation_groups import ROUNDING
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels
from pipelines.inference.backends.openvino.paging.sparse_prefill import RetainedContext


@dataclass(frozen=True)
class OpenVINOSettings:
    """How a model is compiled; None leaves the choice to the export and the device.

    `headless`: it gives the states after its last layer instead of logits.
    """

    device: str = "cpu"
    kv_cache: str | None = None
    precision: str | None = None
    threads: int | None = None
    targets: frozenset[str] | None = None
    """What adapters may change, as q_proj; none named: all linear layers; None: nothing."""
    headless: bool = False
    retained: RetainedContext | None = None
    """The context that most of a prompt attends to; None: all."""
    activation_group: int | None = None
    """Activations that share a scale where linear layers round them to eight bits; 0: they are not rounded.
    """
    routed_experts: str | None = None
    """Whether choices of experts are recorded: "counted", or also "returned" in all replies."""
    kernels: LinearKernels | None = None
    """What computes linear layers with weights of few bits; None: OpenVINO itself."""

    def properties(self) -> dict[str, Any]:
        """The settings as OpenVINO's properties.

        Linear layers of eight-bit weights also round the activations, which depends on the number of tokens
        in the step; f32 disables it.
        """
        wanted = {
            ROUNDING: 0 if self.precision == "f32" else self.activation_group,
            "PERFORMANCE_HINT": "LATENCY",
            "KV_CACHE_PRECISION": self.kv_cache,
            "INFERENCE_PRECISION_HINT": self.precision,
            "INFERENCE_NUM_THREADS": self.threads,
        }
        return {name: value for name, value in wanted.items() if value is not None}
