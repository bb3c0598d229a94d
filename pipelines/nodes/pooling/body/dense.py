"""The dense node: a layer of a sentence-transformers folder, read from its two files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo
from safetensors import SafetensorError

from graphs.node import FilePath, Node, NodeConfig, Place
from ops.activations import ACTIVATIONS
from ops.contract import PoolingOps
from pipelines.base.float_tensors import read_float_tensors
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import Encoded, RowShape
from pipelines.nodes.interface import Loading
from pipelines.nodes.pooling.body.pooled_shape import given_above

CONFIG, WEIGHTS, TORCH_WEIGHTS = "config.json", "model.safetensors", "pytorch_model.bin"


class ModuleFolder(FilePath):
    """A path to a folder with a config.json; the rules of file paths apply."""

    @classmethod
    def _checked(cls, text: str, info: ValidationInfo) -> Self:
        return cls(super()._checked(f"{text}/{CONFIG}", info).removesuffix(f"/{CONFIG}"))


class Dense(Node):
    """A dense layer: activation(weight · vector + bias).

    `gives` is the shape of the output after `load`.
    """

    place: ClassVar[Place] = "step"
    gives: RowShape

    class Config(NodeConfig):
        path: ModuleFolder = Field(
            description="a sentence-transformers module: config.json, model.safetensors"
        )

    def load(self, resources: Loading) -> None:
        """Raises `ModelError` for a folder that cannot be read, and for vectors of another size."""
        folder = self.folder / self.config.path
        above = given_above(resources)
        self._activation = read_activation(folder)
        self._host = read_weights(folder)
        size, wanted = self._host[0].shape
        if wanted != above.size:
            raise ModelError(f"{folder} takes vectors of {wanted} numbers, but the line above gives {above}.")
        self.gives = RowShape(above.per_token, size)
        self._loaded: tuple[Any, Any] | None = None

    def run(self, values: Encoded) -> Encoded:
        weight, bias = self._loaded = self._loaded or self._load(values.ops)
        wide = values.ops.dense(values.values, weight, bias, self._activation)
        return Encoded(wide, values.batch, values.ops)

    def _load(self, ops: PoolingOps) -> tuple[Any, Any]:
        """The weights on the device of the values."""
        weight, bias = self._host
        return ops.load(weight), None if bias is None else ops.load(bias)

    def close(self) -> None:
        self._loaded = None


def read_weights(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """(weight [out, in], bias [out] or None).  Raises `ModelError`."""
    if not (folder / WEIGHTS).is_file() and (folder / TORCH_WEIGHTS).is_file():
        raise ModelError(f"{folder} has only {TORCH_WEIGHTS}; braid export makes {WEIGHTS} of it.")
    try:
        tensors = read_float_tensors(folder / WEIGHTS)
        return tensors["linear.weight"], tensors.get("linear.bias")
    except (OSError, SafetensorError, KeyError) as error:
        raise ModelError(f"{folder / WEIGHTS} holds no dense layer of floats: {error}") from error


def read_activation(folder: Path) -> str:
    """One of `ACTIVATIONS`, of a torch class as config.json names it.  Raises `ModelError`."""
    try:
        named = json.loads((folder / CONFIG).read_text()).get("activation_function")
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"{folder / CONFIG} is needed for the layer's activation: {error}") from error
    if named is None:
        return "tanh"  # sentence-transformers' default
    name = str(named).rpartition(".")[2].lower()
    if name not in ACTIVATIONS:
        raise ModelError(f"{folder / CONFIG}: activation {named} is none of {', '.join(ACTIVATIONS)}.")
    return name
