"""Runs an exported encoder on ONNX Runtime's CPU kernels (`EncoderSession`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from ops import pooling
from ops.contract import PoolingOps
from pipelines.adapters.weights import AdapterWeights, LinearShape
from pipelines.inference.backends.adapter_inputs import AdapterInputs, check_linears
from pipelines.inference.backends.encoder_files import read_encoder_facts
from pipelines.inference.backends.encoder_io import (
    PROBE_BATCH,
    features_shape,
    input_arrays,
    output_shape,
    padded_to_width,
    probe_features,
    read_columns,
    reads_arrays,
)
from pipelines.inference.backends.onnx.block_sums import multiply_block_sums
from pipelines.inference.backends.onnx.expert_linears import use_expert_linears
from pipelines.inference.backends.onnx.lora_linears import add_lora
from pipelines.inference.backends.onnxruntime.runtime import (
    CPU,
    RUNTIME_ERRORS,
    error_text,
    open_session,
    version,
)
from pipelines.inference.backends.onnxruntime.session_io import input_types, read_output
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import CPU_BATCH_TOKENS, Columns, EncoderSettings
from pipelines.onnx_format.decoder_format import DOMAIN

FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")
"""Types of values that ONNX Runtime returns as numpy arrays; bfloat16 is not one of them."""


class OnnxCpuEncoder:
    """One session of a model.onnx with config.json beside it.  Raises `ModelError`."""

    ops: PoolingOps = pooling
    good_batch_tokens = CPU_BATCH_TOKENS
    columns: Columns | None = None
    _min_width = 0

    def __init__(self, path: Path, settings: EncoderSettings | None = None) -> None:
        settings = settings or EncoderSettings()
        if settings.precision is not None:
            raise ModelError("engine onnxruntime on cpu has no precision.")
        model, self.linears = _read(path, settings.targets)
        self._session: ort.InferenceSession | None = _open(path, model, settings.threads)
        self._inputs = input_types(path, self._session)
        self._given: dict[str, NDArray[np.float32]] = {}
        self._adapters = AdapterInputs(self.linears, self._given.__setitem__, by_text=True)
        self._output = read_output(path, self._session, FLOATS).name
        if (array := reads_arrays(self._inputs)) is not None:
            self._read_frames(path, array, self._session)
        else:
            self._read_texts(path)

    def _read_texts(self, path: Path) -> None:
        facts = read_encoder_facts(path.parent)
        self.max_tokens, self.vocab_size, self._pad_id = facts.max_tokens, facts.vocab_size, facts.pad_id
        self._min_width = facts.min_width
        self.per_token, self.size = output_shape(path, self.run(PROBE_BATCH))

    def _read_frames(self, path: Path, array: str, session: ort.InferenceSession) -> None:
        self.columns = read_columns(path, array, session.get_inputs()[0].shape)
        self.vocab_size, self._pad_id = 1, 0
        values = self.run(probe_features(self.columns))
        self.per_token, self.max_tokens, self.size = features_shape(path, values)

    def run(self, batch: TokenBatch) -> NDArray[np.float32]:
        assert self._session is not None, "run comes before close"
        width = batch.ids.shape[1]
        inputs = input_arrays(padded_to_width(batch, self._min_width), self._inputs, self._pad_id)
        if self.linears:
            own = self._adapters.of_texts(batch.adapters)
            inputs |= self._given | own
        try:
            (values,) = self._session.run([self._output], inputs)
        except RUNTIME_ERRORS as error:
            raise RuntimeError(f"ONNX Runtime failed: {error_text(error)}") from error
        rows: NDArray[np.float32] = np.asarray(values, np.float32)
        return rows[:, :width] if self._min_width and rows.ndim == 3 else rows

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        self._adapters.put(number, weights)

    def drop_adapter(self, number: int) -> None:
        self._adapters.drop(number)

    def warm(self) -> bool:
        """Has no effect: nothing is prepared for a shape."""
        return False

    def describe(self) -> Mapping[str, str]:
        return {"engine": f"onnxruntime {version()}", "device": "cpu"}

    def close(self) -> None:
        self._session = None
        self._given.clear()
        self._adapters = AdapterInputs({}, self._given.__setitem__)


def _read(path: Path, targets: frozenset[str] | None) -> tuple[bytes, Mapping[str, LinearShape]]:
    """The model, with inputs for the adapters of all linear layers that `targets` name; experts that a GGUF
    file has become linear layers.
    """
    model = ir.load(path)
    if use_expert_linears(model.graph)[0]:
        multiply_block_sums(model.graph)
        model.graph.opset_imports.pop(DOMAIN, None)
    elif targets is None:
        return path.read_bytes(), {}
    linears: Mapping[str, LinearShape] = {}
    if targets is not None:
        linears = add_lora(model.graph, targets, by_text=True)
        check_linears(path, linears)
    return ir.to_proto(model).SerializeToString(), linears


def _open(path: Path, model: bytes, threads: int | None) -> ort.InferenceSession:
    try:
        return open_session(model, path.parent, [CPU], threads, {})
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
