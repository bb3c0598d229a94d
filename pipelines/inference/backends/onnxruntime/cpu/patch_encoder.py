"""Runs an encoder of images of any shapes on ONNX Runtime's CPU kernels (`EncoderSession`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ops import pooling
from ops.contract import PoolingOps
from pipelines.adapters.weights import WithoutAdapters
from pipelines.inference.backends.grid_inputs import (
    GOOD_TOKENS,
    grid_inputs,
    padded_rows,
    read_patches,
)
from pipelines.inference.backends.model_config import read_config
from pipelines.inference.backends.onnxruntime.cpu.encoder_session import OnnxCpuEncoder
from pipelines.inference.backends.onnxruntime.runtime import (
    CPU,
    RUNTIME_ERRORS,
    error_text,
    open_session,
    version,
)
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import Columns, EncoderSession, EncoderSettings
from pipelines.onnx_format.patch_inputs import FILE, PATCHES, ROTATIONS, ROWS


def open_encoder(path: Path, settings: EncoderSettings) -> EncoderSession:
    """The session of a model.onnx, or of an encoder of patches.  Raises `ModelError`."""
    return OnnxPatchEncoder(path, settings) if path.name == FILE else OnnxCpuEncoder(path, settings)


class OnnxPatchEncoder(WithoutAdapters):
    """One session of a patches.onnx with config.json beside it.  Raises `ModelError`."""

    ops: PoolingOps = pooling
    per_token = True
    vocab_size = 1
    good_batch_tokens = GOOD_TOKENS

    def __init__(self, path: Path, settings: EncoderSettings | None = None) -> None:
        settings = settings or EncoderSettings()
        if settings.precision is not None:
            raise ModelError("engine onnxruntime on cpu has no precision.")
        self._patches = read_patches(read_config(path.parent / "config.json"))
        self.max_tokens = self._patches.most_tokens
        self.columns: Columns | None = (self._patches.per_token * self._patches.numbers,)
        session = open_session(path.read_bytes(), path.parent, [CPU], settings.threads, {})
        self._session: ort.InferenceSession | None = session
        shapes = {port.name: port.shape for port in session.get_inputs()}
        self._names, self._num_angles = list(shapes), shapes[ROTATIONS][-1] if ROTATIONS in shapes else 0
        self.size = session.get_outputs()[0].shape[-1]

    def run(self, batch: TokenBatch) -> NDArray[np.float32]:
        assert self._session is not None, "run comes before close"
        assert batch.features is not None
        assert batch.grids is not None
        patches, grids = self._patches.parts(batch.features, batch.grids)
        inputs = grid_inputs(grids, self._patches, self._num_angles) | {PATCHES: patches}
        try:
            (rows,) = self._session.run([ROWS], {name: inputs[name] for name in self._names})
        except RUNTIME_ERRORS as error:
            raise RuntimeError(f"ONNX Runtime failed: {error_text(error)}") from error
        return padded_rows(batch, rows)

    def warm(self) -> bool:
        return False

    def describe(self) -> Mapping[str, str]:
        return {"engine": f"onnxruntime {version()}", "device": "cpu"}

    def close(self) -> None:
        self._session = None
