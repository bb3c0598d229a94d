"""The label node: pooled outputs, or the tensors of a classification head → classes by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import EngineError
from pipelines.nodes.interface import Loading, Running
from pipelines.values.node_values import Classes, PooledOutputs, Tensors
from pipelines.values.stream_values import Deferred

NUM_UNNAMED = 2
"""Number of classes where a config.json sets none (transformers omits its default)."""


def read_labels(path: Path) -> list[str]:
    """Names of classes in order: a JSON list of them, or the `id2label` of a config.json.

    Raises ValueError when the file is neither.
    """
    labels = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(labels, dict):
        unnamed = {index: f"LABEL_{index}" for index in range(labels.get("num_labels") or NUM_UNNAMED)}
        named = {int(index): label for index, label in (labels.get("id2label") or unnamed).items()}
        labels = [named.get(index) for index in range(len(named))]
    if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{path.name}: neither a list of names nor an id2label for 0, 1, 2 …")
    return labels


class Label(Node):
    """Attaches the names of the classes to the probabilities of each text."""

    class Config(NodeConfig):
        labels: FilePath = Field(description="a config.json with id2label, or a JSON list of names")
        probabilities: str = Field(
            default="probabilities", description="name of the head's tensor with the probabilities"
        )
        logits: str = Field(default="logits", description="name of the head's tensor with the logits")
        moderation: dict[str, list[str]] | None = Field(
            default=None,
            description="for moderations: the labels that are harmful, each with OpenAI's categories that it "
            "is, [] for none of them; default: labels of common models are known",
        )

    def load(self, resources: Loading) -> None:
        self.labels: list[str] = resources.shared(read_labels, self.folder / self.config.labels)

    def run(self, call: Running, pooled: Deferred[PooledOutputs] | Deferred[Tensors]) -> Deferred[Classes]:
        name = self.config.probabilities if call.request.activate else self.config.logits
        return pooled.map(lambda found: Classes(self.fitting(numbers(found, name)), self.labels))

    def fitting(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The values, checked: a number for each label.  Raises EngineError."""
        if values.ndim != 2 or values.shape[1] != len(self.labels):
            raise EngineError(
                f"the model gives {list(values.shape)} numbers, but {self.config.labels} names "
                f"{len(self.labels)} classes for each text"
            )
        return values


def numbers(found: PooledOutputs | Tensors, name: str) -> NDArray[np.float32]:
    """The pooled outputs, or the tensor of that name.  Raises EngineError where there is none."""
    if isinstance(found, PooledOutputs):
        if isinstance(found.values, list):
            raise EngineError("a label node needs a vector for each text; this model gives one per token")
        return found.values
    if name not in found:
        raise EngineError(f"a label node needs the tensor `{name}`; the model gives {', '.join(found)}")
    return found[name].astype(np.float32, copy=False)
