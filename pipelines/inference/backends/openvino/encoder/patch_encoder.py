"""Runs an encoder of images of any shapes, as those of Qwen-VL are: whole, or exported in parts.

One embeds patches, one (`_merger`) has the layers and makes one row of several patches, and one of Qwen3-VL
(`_pos`) is a table of positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as ops

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
from pipelines.inference.backends.openvino.encoder.encoder_model import (
    compile_encoder,
    facts_of,
    read_encoder,
    weights_beside,
)
from pipelines.inference.backends.openvino.model.arrays import inference_of
from pipelines.inference.backends.openvino.model.mapped_files import release_pages_during
from pipelines.inference.backends.openvino.paging.paged_attention import last_line
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import Columns, EncoderSettings
from pipelines.onnx_format.patch_inputs import (
    CORNERS,
    FILE,
    INPUTS,
    PATCHES,
    ROTATIONS,
    SHARES,
)

MERGER = "openvino_vision_embeddings_merger_model.xml"
TABLE = "openvino_vision_embeddings_pos_model.xml"
DEEP = "deepstack_feature_lists"
"""Rows of earlier layers, which the merger of Qwen3-VL gives beside its own."""


def reads_patches(path: Path) -> bool:
    """Whether an encoder reads images of any shapes, in a file of its own name or in parts."""
    return path.name == FILE or path.with_name(MERGER).is_file()


class PatchEncoder(WithoutAdapters):
    """One compiled encoder of both parts (`EncoderSession`).  Raises `ModelError`."""

    ops: PoolingOps = pooling
    per_token = True
    vocab_size = 1
    good_batch_tokens = GOOD_TOKENS

    def __init__(self, path: Path, settings: EncoderSettings | None = None) -> None:
        self._patches = read_patches(read_config(path.parent / "config.json"))
        self.max_tokens = self._patches.most_tokens
        self.columns: Columns | None = (self._patches.per_token * self._patches.numbers,)
        merger = path.with_name(MERGER)
        parts = [part for part in (path, merger, path.with_name(TABLE)) if part.is_file()]
        files = [weights_beside(part) for part in parts]
        self._files = [file for file in files if file is not None]
        read = [read_encoder(part, file) for part, file in zip(parts, files, strict=True)]
        model = read[0] if path.name == FILE else _joined(*read)
        self._inputs = {port.any_name: index for index, port in enumerate(model.inputs)}
        if unknown := sorted(set(self._inputs) - INPUTS):
            raise ModelError(f"{path} needs inputs that are not computed: {', '.join(unknown)}.")
        rotates = ROTATIONS in self._inputs
        self._num_angles = model.input(ROTATIONS).get_partial_shape()[-1].get_length() if rotates else 0
        self.size = model.output(0).get_partial_shape()[-1].get_length()
        with release_pages_during(self._files):
            compiled = compile_encoder(merger, model, settings or EncoderSettings())
            self._request: ov.InferRequest | None = compiled.create_infer_request()
            self._infer_request = inference_of(compiled)
            self._infer(np.zeros((1, *self.columns), np.float32), np.ones((1, 2), np.int32))
        self._facts = facts_of(compiled)

    def run(self, batch: TokenBatch) -> NDArray[np.float32]:
        assert batch.features is not None
        assert batch.grids is not None
        return padded_rows(batch, self._infer(batch.features, batch.grids))

    def _infer(self, features: NDArray[np.float32], grids: NDArray[np.int32]) -> NDArray[np.float32]:
        """float32[tokens, size]."""
        assert self._request is not None, "run comes before close"
        patches, grids = self._patches.parts(features, grids)
        inputs = grid_inputs(grids, self._patches, self._num_angles)
        inputs[PATCHES] = np.require(patches, np.float32, ["C", "W"])
        for name, index in self._inputs.items():
            self._request.set_input_tensor(index, ov.Tensor(inputs[name], shared_memory=True))
        try:
            self._infer_request(self._request)
        except RuntimeError as error:
            raise RuntimeError(f"OpenVINO failed: {last_line(error)}") from error
        rows: NDArray[np.float32] = self._request.get_output_tensor(0).data
        return rows

    def warm(self) -> bool:
        return False

    def describe(self) -> Mapping[str, str]:
        return self._facts

    def close(self) -> None:
        """Free the model; the properties stay.  A second call has no effect."""
        self._request = None
        self._files = []  # which the compiled model was reading


def _joined(embedding: ov.Model, merger: ov.Model, table: ov.Model | None = None) -> ov.Model:
    """All parts as one model, which reads patches and gives one row for each token."""
    patches = embedding.get_parameters()[0]
    patches.output(0).set_names({PATCHES})
    (between,) = (parameter for parameter in merger.get_parameters() if PATCHES in parameter.output(0).names)
    parameters, embedded = [patches], embedding.get_results()[0].input_value(0)
    if table is not None:
        corners, shares = table.get_parameters()[0], ops.parameter([4, -1], np.float32, name=SHARES)
        corners.output(0).set_names({CORNERS})
        shares.output(0).set_names({SHARES})
        places = ops.multiply(table.get_results()[0].input_value(0), ops.unsqueeze(shares, np.int64(2)))
        embedded = ops.add(embedded, ops.reduce_sum(places, np.int64(0))).output(0)
        parameters += [corners, shares]
    for reader in between.output(0).get_target_inputs():
        reader.replace_source_output(embedded)
    between.output(0).set_names(set())
    others = [
        parameter
        for parameter in merger.get_parameters()
        if parameter is not between and PATCHES not in parameter.output(0).names
    ]
    rows = merger.get_results()[0].input_value(0)
    deep = [result.input_value(0) for result in merger.get_results() if DEEP in result.output(0).names]
    if deep:
        by_token = ops.transpose(deep[0], np.array([1, 0, 2]))
        flat = ops.reshape(by_token, np.array([0, -1]), True)
        rows = ops.concat([rows, flat], 1).output(0)
    return ov.Model([rows], [*others, *parameters])
