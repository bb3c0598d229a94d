"""The tensor_model node: one model of named tensors in the body of an `infer` node.

Finds at load which tensor feeds which input.  Workers import it too, to check graphs, so an engine is
imported only when a file is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from graphs.errors import hint
from graphs.node import FilePath, Node, NodeConfig, Place
from pipelines.inference.backends.open_model import log_opened_model, open_tensors
from pipelines.inference.backends.registry import TENSORS, TensorEngine, device_pattern
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.tensor_contract import TensorPort, TensorSession, run_tensors
from pipelines.inference.contracts.tensor_settings import Reshaping, TensorSettings
from pipelines.nodes.interface import Loading
from pipelines.values.node_values import Tensors


class TensorModel(Node):
    """Runs one model on named tensors: takes its inputs by name and gives all its outputs.

    An input is looked up in `tensors`, then in `beside`, and else required of the request: `required` holds
    the names and ports of those, `outputs` the ports of what the line gives.
    """

    place: ClassVar[Place] = "step"

    class Config(NodeConfig):
        path: FilePath = Field(description="the model: .xml, .onnx, .tflite, or saved_model.pb in its folder")
        device: str = Field(
            default="cpu",
            pattern=device_pattern(TENSORS),
            description="cpu, gpu (by openvino), or cuda:0 (by onnxruntime)",
        )
        engine: TensorEngine | None = Field(
            default=None,
            description="what runs an .onnx on cpu; default: onnxruntime, openvino where `shape`, "
            "`batch_size`, `layout`, `precision` or `streams` is set",
        )
        threads: int | None = Field(default=None, ge=1, description="default: every core")
        streams: int | None = Field(
            default=None,
            ge=1,
            le=256,
            description="parts of the cores, each for a run of its own (by openvino); default: 1. `max_runs` "
            "of the infer line says how many runs there are",
        )
        precision: Literal["f32", "bf16", "f16"] | None = Field(
            default=None, description="type in which openvino computes; default: the device's choice"
        )
        inputs: dict[str, str] = Field(
            default={}, description="model input: name of the tensor that feeds it, where they differ"
        )
        outputs: dict[str, str] = Field(
            default={}, description="model output: name under which the line gives it, where they differ"
        )
        shape: list[int] | dict[str, list[int]] | None = Field(
            default=None,
            description="of the only input, or input: shape; -1 is a free length; default: the model's",
        )
        batch_size: int | None = Field(
            default=None,
            ge=-1,
            description="first length of every input; -1: any; not with `shape`",
        )
        layout: str | dict[str, str] | None = Field(
            default=None,
            description="`NHWC:NCHW` takes tensors in the first layout for a model in the second; of the "
            "only input, or input or output: layout",
        )

    def load(self, resources: Loading) -> None:
        """Open the model and find what feeds it.  Raises `ModelError`."""
        config = self.config
        settings = TensorSettings(
            resources.device or config.device,
            config.engine,
            config.threads,
            config.precision,
            config.streams,
            Reshaping.of(config.shape, config.batch_size, config.layout),
        )
        path = self.folder / config.path
        self.model: TensorSession = resources.shared(open_tensors, path, settings)
        self.opened = log_opened_model(path, self.model.describe())
        _check_names("inputs", config.inputs, self.model.inputs)
        _check_names("outputs", config.outputs, self.model.outputs)
        self.feeds = {name: config.inputs.get(name, name) for name in self.model.inputs}
        self.outputs = _renamed(config.outputs, self.model.outputs)
        self.required = self._required(resources)

    def run(self, tensors: Tensors, beside: Tensors | None = None) -> Tensors:
        given = {**(beside or {}), **tensors}
        found = run_tensors(self.model, {name: given[feed] for name, feed in self.feeds.items()})
        return Tensors(zip(self.outputs, found.values(), strict=True))

    def close(self) -> None:
        self.model.close()

    def _required(self, resources: Loading) -> list[tuple[str, TensorPort]]:
        """The inputs that the request must hold.  Raises `ModelError` where a line above gives a misfit."""
        assert resources.binding is not None, "a node is loaded with its line"
        roots = [source.root for source in resources.binding.sources.values()]
        ports = {
            name: node.outputs
            for name, node in resources.above.items()
            if name in roots and isinstance(node, TensorModel)
        }
        required = []
        for name, feed in self.feeds.items():
            port = self.model.inputs[name]
            giver = next((root for root in roots if root not in ports or feed in ports[root]), None)
            if giver is None:
                names = [known for root in ports for known in ports[root]]
                raise ModelError(f"nothing gives its input `{name}`, {port}{hint(feed, names, 'given')}.")
            if giver not in ports:
                required.append((feed, port))
            elif misfit(ports[giver][feed], port):
                had = ports[giver][feed]
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


def _check_names(setting: str, given: Mapping[str, str], known: Mapping[str, TensorPort]) -> None:
    for name in given:
        if name not in known:
            kind = setting.removesuffix("s")
            raise ModelError(f"{setting}: the model has no {kind} `{name}`{hint(name, known, setting)}.")


def _renamed(names: Mapping[str, str], ports: Mapping[str, TensorPort]) -> dict[str, TensorPort]:
    """The ports by their new names, in order.  Raises `ModelError` where two are of one name."""
    found: dict[str, TensorPort] = {}
    for name, port in ports.items():
        new = names.get(name, name)
        if new in found:
            raise ModelError(f"outputs: two outputs are named `{new}`.")
        found[new] = replace(port, name=new)
    return found
