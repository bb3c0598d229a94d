"""The sampler node, the last line of a scheduler's body: logits become tokens."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig, Place
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits


class Sampler(Node):
    """Chooses tokens by each request's own parameters.

    `defaults` names a generation_config.json: what a request leaves open is filled from it where the request
    enters (`pipelines.nodes.generation.model_settings.read_defaults`), so no step ever reads it.
    """

    place: ClassVar[Place] = "step"

    class Config(NodeConfig):
        defaults: FilePath | None = Field(
            default=None, description="a generation_config.json: parameters that a request does not set"
        )

    def run(self, logits: Logits) -> Sampled:
        return sample(logits)
