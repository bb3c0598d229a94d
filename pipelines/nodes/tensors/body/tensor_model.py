"""The tensor_model node: one model of named tensors in the body of an `infer` node.

Finds at load which tensor feeds which input.  Workers import it too, to check graphs, so an engine is
imported only when a file is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from graphs.errors import hint
from graphs.node import FilePath, Node, NodeConfig, Place
from pipelines.host.backends.device_errors import ModelError
from pipelines.host.backends.tensor_contract import TensorPort, TensorSession, run_tensors
from pipelines.nodes.interface import Loading
from pipelines.values import Tensors


@dataclass(frozen=True)
class TensorSettings:
    """`engine` None is openvino for .xml and onnxruntime for .onnx; `threads` None is one for each core."""

    engine: str | None = None
    threads: int | None = None


class TensorModel(Node):
    """Runs one model on named tensors: takes its inputs by name and gives all its outputs.

    An input is looked up in `tensors`, then in `beside`, and else required of the request: `required` holds
    the names and ports of those, `outputs` the ports of what the model gives.
    """

    place: ClassVar[Place] = "step"

    class Config(NodeConfig):
        path: FilePath = Field(description="an OpenVINO IR (.xml) or model.onnx that takes and gives tensors")
        device: Literal["cpu"] = Field(default="cpu", description="tensor models run on cpu")
        engine: Literal["openvino", "onnxruntime"] | None = Field(
            default=None, description="default: openvino for .xml, onnxruntime for .onnx"
        )
        threads: int | None = Field(default=None, ge=1, description="default: every core")
        inputs: dict[str, str] = Field(
            default={}, description="model input: name of the tensor that feeds it, where they differ"
        )

    def load(self, resources: Loading) -> None:
        """Open the model, on cpu wherever others run, and find what feeds it.  Raises `ModelError`."""
        settings = TensorSettings(self.config.engine, self.config.threads)
        self.model: TensorSession = resources.shared(open_tensors, self.folder / self.config.path, settings)
        self.outputs = self.model.outputs
        for name in self.config.inputs:
            if name not in self.model.inputs:
                raise ModelError(
                    f"inputs: the model has no input `{name}`{hint(name, self.model.inputs, 'inputs')}."
                )
        self.feeds = {name: self.config.inputs.get(name, name) for name in self.model.inputs}
        self.required = self._required(resources)

    def run(self, tensors: Tensors, beside: Tensors | None = None) -> Tensors:
        given = {**(beside or {}), **tensors}
        return Tensors(run_tensors(self.model, {name: given[feed] for name, feed in self.feeds.items()}))

    def close(self) -> None:
        self.model.close()

    def _required(self, resources: Loading) -> list[tuple[str, TensorPort]]:
        """The inputs that the request must hold.  Raises `ModelError` where a line above gives a misfit."""
        assert resources.binding is not None, "a node is loaded with its line"
        roots = [source.root for source in resources.binding.sources.values()]
        given = {
            name: node.outputs
            for name, node in resources.above.items()
            if name in roots and isinstance(node, TensorModel)
        }
        required = []
        for name, feed in self.feeds.items():
            port = self.model.inputs[name]
            giver = next((root for root in roots if root not in given or feed in given[root]), None)
            if giver is None:
                names = [known for root in given for known in given[root]]
                raise ModelError(f"nothing gives its input `{name}`, {port}{hint(feed, names, 'given')}.")
            if giver not in given:
                required.append((feed, port))
            elif misfit(given[giver][feed], port):
                had = given[giver][feed]
                raise ModelError(f"its input `{name}` is {port}, but `{giver}` gives `{feed}` as {had}.")
        return required


def misfit(have: TensorPort, want: TensorPort) -> bool:
    """Whether no tensor can be of both ports."""
    if have.dtype != want.dtype:
        return True
    if have.shape is None or want.shape is None:
        return False
    sizes = zip(have.shape, want.shape, strict=False)
    return len(have.shape) != len(want.shape) or any(
        None not in pair and pair[0] != pair[1] for pair in sizes
    )


def open_tensors(path: Path, settings: TensorSettings | None = None) -> TensorSession:
    """The session for an openvino_model.xml or a model.onnx.  Raises `ModelError`."""
    settings = settings or TensorSettings()
    engines = OPENERS.get(path.suffix)
    if engines is None:
        raise ModelError(f"{path.name}: tensor models are opened from {', '.join(OPENERS)}.")
    engine = settings.engine or next(iter(engines))
    if engine not in engines:
        raise ModelError(f"{path.name}: {engine} does not open {path.suffix}; {' or '.join(engines)} does.")
    if not path.is_file():
        raise ModelError(f"{path} does not exist.")
    return engines[engine](path, settings)


def _open_openvino(path: Path, settings: TensorSettings) -> TensorSession:
    from pipelines.host.backends.openvino.tensor_session import OpenVINOTensors

    return OpenVINOTensors(path, settings.threads)


def _open_onnxruntime(path: Path, settings: TensorSettings) -> TensorSession:
    from pipelines.host.backends.onnxruntime.tensor_session import OnnxTensors

    return OnnxTensors(path, settings.threads)


OPENERS: dict[str, dict[str, Callable[[Path, TensorSettings], TensorSession]]] = {
    ".xml": {"openvino": _open_openvino},
    ".onnx": {"onnxruntime": _open_onnxruntime, "openvino": _open_openvino},
}
"""File suffix → engine → what opens it; the first is the default."""
