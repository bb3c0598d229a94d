"""A decoder exported to OpenVINO, run one packed step at a time.  Knows nothing of scheduling or sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from ops import host
from ops.contract import SamplingOps
from pipelines.backends.config import read_max_context
from pipelines.backends.errors import ModelError
from pipelines.backends.host_memory import NOWHERE_TO_SWAP, spare_bytes
from pipelines.backends.openvino.head import LOGITS_INPUT, gather_logits
from pipelines.backends.openvino.memory import CacheLayout, CacheMemory
from pipelines.backends.openvino.paged import last_line, read_paged
from pipelines.engine.feed import Step

NO_LOGITS_AT = np.zeros(1, np.int64)  # the head wants a row even when nothing is sampled


@dataclass(frozen=True)
class OpenVINOSettings:
    """How a model is compiled; None leaves the choice to the export and the device."""

    device: str = "cpu"
    kv_cache: str | None = None
    precision: str | None = None
    threads: int | None = None

    def properties(self) -> dict[str, Any]:
        """The same in OpenVINO's words."""
        wanted = {
            "PERFORMANCE_HINT": "LATENCY",
            "KV_CACHE_PRECISION": self.kv_cache,
            "INFERENCE_PRECISION_HINT": self.precision,
            "INFERENCE_NUM_THREADS": self.threads,
        }
        return {name: value for name, value in wanted.items() if value is not None}


class OpenVINOSession:
    """One compiled decoder and its cache (`DecoderSession`).

    `path` is an openvino_model.xml as optimum-intel or the OpenVINO organisation export it, or a model.onnx,
    with its weights and config.json beside it.  Raises `ModelError`.
    """

    ops: SamplingOps = host
    can_swap = False

    def __init__(self, path: Path, settings: OpenVINOSettings | None = None) -> None:
        settings = settings or OpenVINOSettings()
        properties = checked_properties(settings)
        model, self.max_context, self._weights = _read(path)
        self._compiled: ov.CompiledModel | None = _compile(model, settings.device, properties)
        self._layout = CacheLayout(self._compiled)
        self.block_tokens = self._layout.block_tokens
        self.block_bytes = self._layout.block_bytes
        self.vocab_size = self._compiled.output(0).get_partial_shape()[-1].get_length()
        self._facts = self._read_facts(settings.device)
        self._request: ov.InferRequest | None = self._compiled.create_infer_request()
        self._memory: CacheMemory | None = None
        self._inputs = {port.any_name for port in self._compiled.inputs}

    def reserve(self, max_tokens: int, max_sequences: int, max_scored: int = 0) -> int:
        return spare_bytes()

    def allocate(self, num_blocks: int, num_host_blocks: int = 0) -> None:
        if num_host_blocks:
            raise ValueError(NOWHERE_TO_SWAP)
        self._memory = CacheMemory(self._layout, num_blocks)
        for name, tensor in self._memory.tensors.items():
            self._request.set_tensor(name, tensor)
        self._infer(_first_step())

    def run(self, step: Step) -> NDArray[np.float32]:
        assert self._memory is not None, "run comes between allocate and close"
        if len(step.copies):
            self._memory.copy(step.copies)
        return self._infer(_feed(step))[: step.num_logits]

    def _infer(self, feed: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """float32[rows gathered, vocab].  The request reads `feed` in place, so it must outlive the call."""
        assert self._request is not None
        for name, array in feed.items():
            if name in self._inputs:
                self._request.set_tensor(name, ov.Tensor(array, shared_memory=True))
        self._request.infer(share_outputs=True, decode_strings=False)
        logits: NDArray[np.float32] = self._request.get_output_tensor(0).data
        return logits.reshape(-1, self.vocab_size)

    def warm(self) -> bool:
        return False

    def describe(self) -> Mapping[str, str]:
        return self._facts

    def _read_facts(self, device: str) -> dict[str, str]:
        return {
            "engine": f"openvino {ov.__version__.split('-')[0]}",
            "device": device,
            "precision": self._compiled.get_property("INFERENCE_PRECISION_HINT").to_string(),
            "kv_cache": self._layout.element_type,
            "block_tokens": str(self.block_tokens),
            "block_bytes": str(self.block_bytes),
        }

    def close(self) -> None:
        """Free the model and the cache; only the numbers stay.  A second call, by a sharer, does nothing."""
        self._request = self._compiled = self._memory = None
        self._weights = None  # which the compiled model was reading


def _read(path: Path) -> tuple[ov.Model, int, object]:
    """The paged model with rows gathered before its head, the tokens of its context, what it leans on."""
    if path.suffix == ".onnx":
        from pipelines.backends.openvino.from_onnx import read_onnx

        read = read_onnx(path)
        return read.model, read.max_context, read.weights
    model = read_paged(path)
    gather_logits(model)
    return model, read_max_context(path.parent / "config.json"), None


def _feed(step: Step) -> dict[str, NDArray[Any]]:
    """The step as a paged model reads it: input name → contiguous array."""
    blocks, begins = flat_blocks(step.block_table, step.num_blocks)
    return {
        "input_ids": step.token_ids,
        "position_ids": step.positions,
        "past_lens": step.num_past,
        "subsequence_begins": step.starts,
        "block_indices": blocks,
        "block_indices_begins": begins,
        "max_context_len": np.array(step.max_context, np.int32),
        LOGITS_INPUT: step.logits_at if step.num_logits else NO_LOGITS_AT,
    }


def _first_step() -> dict[str, NDArray[Any]]:
    """One token into block 0: OpenVINO packs its weights when it first computes; no client waits for that."""
    nothing, one = np.zeros(1, np.int32), np.array([0, 1], np.int32)
    return {
        "input_ids": nothing.astype(np.int64),
        "position_ids": nothing.astype(np.int64),
        "past_lens": nothing,
        "subsequence_begins": one,
        "block_indices": nothing,
        "block_indices_begins": one,
        "max_context_len": np.array(1, np.int32),
        LOGITS_INPUT: NO_LOGITS_AT,
    }


def flat_blocks(
    table: NDArray[np.int32], num_blocks: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Rows of blocks → all blocks in one row [sum(num_blocks)] and each sequence's begin [num_seqs + 1]."""
    begins = np.zeros(len(num_blocks) + 1, np.int32)
    np.cumsum(num_blocks, out=begins[1:])
    used = np.arange(table.shape[1]) < num_blocks[:, None]
    return table[used], begins


def checked_properties(settings: OpenVINOSettings) -> dict[str, Any]:
    """The settings as properties, each known to the device.  Raises `ModelError` naming what is not."""
    core, device = ov.Core(), settings.device.upper()
    if device not in core.available_devices:
        here = ", ".join(one.lower() for one in core.available_devices)
        raise ModelError(f"device {settings.device} is not here; OpenVINO sees: {here}.")
    if device != "CPU":
        raise ModelError(
            f"device {settings.device}: the cache lies in host memory, which only cpu writes to."
        )
    properties = settings.properties()
    known = core.get_property(device, "SUPPORTED_PROPERTIES")
    unknown = [name for name in properties if known.get(name) != "RW"]
    if unknown:
        missing = ", ".join(unknown)
        raise ModelError(f"device {settings.device} has no {missing} in OpenVINO {ov.__version__}.")
    return properties


def _compile(model: ov.Model, device: str, properties: dict[str, Any]) -> ov.CompiledModel:
    try:
        return ov.Core().compile_model(model, device.upper(), properties)
    except RuntimeError as error:
        raise ModelError(f"OpenVINO cannot compile the model for {device}: {last_line(error)}") from error
