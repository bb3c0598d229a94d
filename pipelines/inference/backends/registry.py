"""The list of backends: which engine opens which model file, on which device, and by which function.

A backend is a folder beside this file and a line in one of the three tables.  Its function is named, and
imported when a file is first opened: workers read the tables too, to check graphs, and load no engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

CPU, INTEL_GPU, CUDA, FAKE = "cpu", r"gpu(\.\d+)?", r"cuda(:\d+)?", "fake"
"""Devices that a graph may name, as regular expressions."""
EXAMPLES = {CPU: "cpu", INTEL_GPU: "gpu", CUDA: "cuda:0", FAKE: "fake"}
"""A device of each, for messages."""
ONNX_ADVICE = "onnxruntime runs model.onnx; export it with braid export HF_FOLDER --format onnx."
CUDA_ADVICE = (
    "NVIDIA GPUs run model.onnx; export it with braid export HF_FOLDER --format onnx --weights fp16. "
    "Vision models run on cpu alone, as OpenVINO IR."
)


@dataclass(frozen=True)
class Opener:
    """How an engine opens files of one kind of model.

    `engine`: its name in graphs; None: it is chosen by its device alone.  `files`: suffixes, or whole names;
    none: any file.  `devices`: where it runs, as regular expressions.  `function`: `module:function` in this
    folder; it takes the file's path and the settings of its kind of model, and returns a session, or raises
    `ModelError`, which is `Unsupported` where another engine may be able to run the file.  `libraries`:
    distributions that it needs; models are run once more after one of them has changed.  `lacks`: settings of
    tensor models that it does not carry out.  `advice`: what to do with a file that it does not open.
    """

    engine: str | None
    files: tuple[str, ...]
    devices: tuple[str, ...]
    function: str
    libraries: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    advice: str = ""

    def opens(self, path: Path) -> bool:
        return not self.files or path.suffix in self.files or path.name in self.files

    def runs_on(self, device: str) -> bool:
        return re.fullmatch("|".join(self.devices), device) is not None

    def open(self, path: Path, settings: Any) -> Any:
        """Import the function, and open the file with it."""
        module, _, name = self.function.partition(":")
        function: Callable[[Path, Any], Any] = getattr(import_module(f"{__package__}.{module}"), name)
        return function(path, settings)


DECODERS = (
    Opener(
        "openvino",
        (".xml", ".onnx"),
        (CPU, INTEL_GPU),
        "openvino.open_decoder:open_decoder",
        libraries=("openvino",),
    ),
    Opener(
        "onnxruntime",
        (".onnx",),
        (CPU,),
        "onnxruntime.cpu.open_decoder:open_decoder",
        libraries=("onnxruntime",),
        advice=ONNX_ADVICE,
    ),
    Opener(
        "onnxruntime",
        (".onnx",),
        (CUDA,),
        "onnxruntime.cuda.open_decoder:open_decoder",
        libraries=("onnxruntime-gpu",),
        advice=CUDA_ADVICE,
    ),
    Opener(engine=None, files=(".script",), devices=(FAKE,), function="scripted_decoder:open_scripted"),
    Opener(engine=None, files=(), devices=(FAKE,), function="fake_decoder:open_fake"),
)
ENCODERS = (
    Opener("openvino", (".xml", ".onnx"), (CPU,), "openvino.open_encoder:open_encoder"),
    Opener(
        "onnxruntime",
        (".onnx",),
        (CPU,),
        "onnxruntime.cpu.patch_encoder:open_encoder",
        advice=ONNX_ADVICE,
    ),
    Opener(
        "onnxruntime",
        (".onnx",),
        (CUDA,),
        "onnxruntime.cuda.encoder_session:open_encoder",
        advice=CUDA_ADVICE,
    ),
)
TENSORS = (
    Opener("openvino", (".xml",), (CPU, INTEL_GPU), "openvino.tensor_session:open_tensors"),
    Opener(
        "onnxruntime",
        (".onnx",),
        (CPU, CUDA),
        "onnxruntime.tensor_session:open_tensors",
        lacks=("reshaping", "precision", "streams"),
    ),
    Opener(
        "openvino",
        (".onnx", ".tflite", "saved_model.pb"),
        (CPU, INTEL_GPU),
        "openvino.tensor_session:open_tensors",
    ),
)
"""The engines of each kind of model; the first that can open a file is the default."""


def engine_names(openers: Iterable[Opener]) -> tuple[str, ...]:
    """The engines that a graph may name, each once."""
    return tuple({each.engine: None for each in openers if each.engine is not None})


def file_kinds(openers: Iterable[Opener]) -> tuple[str, ...]:
    """The suffixes and names of files that are opened, each once."""
    return tuple(dict.fromkeys(kind for each in openers for kind in each.files))


def examples(openers: Iterable[Opener]) -> list[str]:
    """A device of each kind on which they run, for messages."""
    return [EXAMPLES[device] for device in _devices(openers)]


def device_pattern(openers: Iterable[Opener]) -> str:
    """The devices that a graph may name, as one regular expression."""
    return f"^({'|'.join(_devices(openers))})$"


def devices_of_all() -> list[str]:
    """The devices on which every kind of model runs, as regular expressions."""
    others = [{*_devices(openers)} for openers in (ENCODERS, TENSORS)]
    return [device for device in _devices(DECODERS) if all(device in some for some in others)]


def libraries() -> tuple[str, ...]:
    """The distributions that engines need, each once."""
    every = (*DECODERS, *ENCODERS, *TENSORS)
    return tuple(dict.fromkeys(name for each in every for name in each.libraries))


def _devices(openers: Iterable[Opener]) -> list[str]:
    return list(dict.fromkeys(device for each in openers for device in each.devices))


if TYPE_CHECKING:  # types of the setting `engine`, which a graph's checker and its JSON Schema read
    DecoderEngine = str
    EncoderEngine = str
    TensorEngine = str
else:
    DecoderEngine, EncoderEngine, TensorEngine = (
        Literal[engine_names(openers)] for openers in (DECODERS, ENCODERS, TENSORS)
    )
