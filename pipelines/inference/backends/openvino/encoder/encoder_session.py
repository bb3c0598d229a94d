"""Runs an exported encoder on OpenVINO (`EncoderSession`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from ops import pooling
from ops.contract import PoolingOps
from pipelines.adapters.weights import AdapterWeights, LinearShape
from pipelines.inference.backends.adapter_inputs import AdapterInputs, check_linears
from pipelines.inference.backends.encoder_files import read_encoder_facts
from pipelines.inference.backends.encoder_io import (
    PROBE_BATCH,
    blank_batch,
    features_shape,
    input_arrays,
    output_shape,
    padded_to_width,
    probe_features,
    read_columns,
    reads_arrays,
)
from pipelines.inference.backends.openvino.encoder.encoder_model import (
    compile_encoder,
    facts_of,
    input_types,
    read_encoder,
    select_output,
    weights_beside,
)
from pipelines.inference.backends.openvino.encoder.image_patches import fill_patches
from pipelines.inference.backends.openvino.model.arrays import inference_of, to_tensor
from pipelines.inference.backends.openvino.model.lm_head import compute_output_in_float32
from pipelines.inference.backends.openvino.model.lora_linears import add_lora, narrow_adapters
from pipelines.inference.backends.openvino.model.mapped_files import release_pages_during
from pipelines.inference.backends.openvino.paging.paged_attention import last_line
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import CPU_BATCH_TOKENS, Columns, EncoderSettings

WIDTH_STEP = 8
"""Widths are rounded up to multiples of it.  A shape other than the last call's costs a millisecond, a new
one more; eight tokens of padding cost less than either.
"""
LIKELY_SHAPES = [
    *((1, width) for width in range(8, 136, 8)),
    *((texts, width) for texts in (2, 4, 8, 16) for width in (16, 32)),
]
"""(texts, width) of calls that are run once before requests need them."""
MAX_WARMUP_S = 0.1
"""Upper limit in seconds of a warm-up call: a new request waits for its end."""


class OpenVINOEncoder:
    """One compiled encoder.  `path` is an openvino_model.xml or a model.onnx, with config.json beside it.

    OpenVINO repacks weights when it first computes.  The constructor triggers it, so that no request waits
    for it; of the file only the embedding tables stay mapped.  Raises `ModelError`.
    """

    ops: PoolingOps = pooling
    good_batch_tokens = CPU_BATCH_TOKENS
    columns: Columns | None = None

    def __init__(self, path: Path, settings: EncoderSettings | None = None) -> None:
        settings, weights = settings or EncoderSettings(), weights_beside(path)
        self._files = [weights] if weights else []
        model = read_encoder(path, weights)
        fill_patches(path, model)
        self._inputs = input_types(path, model)
        if (array := reads_arrays(self._inputs)) is not None:
            shape = [_size(length) for length in model.input().partial_shape]
            self.columns = read_columns(path, array, shape)
        else:
            self._read_texts(path)
        select_output(path, model)
        compute_output_in_float32(model, rounds=settings.precision != "f32")
        self.linears: Mapping[str, LinearShape] = {}
        if settings.targets is not None:
            self.linears = add_lora(model, settings.targets, by_text=True)
            check_linears(path, self.linears)
        dtype = narrow_adapters(model, settings.precision)
        self._adapters = AdapterInputs(self.linears, self._set_input, by_text=True, dtype=dtype)
        with release_pages_during(self._files):
            compiled = compile_encoder(path, model, settings)
            self._compiled: ov.CompiledModel | None = compiled
            self._request: ov.InferRequest | None = compiled.create_infer_request()
            self._infer_request = inference_of(compiled)
            self._probe(path)
        is_warm = self.columns is not None  # all windows are of one size
        self._shapes_to_warm = [
            shape for shape in LIKELY_SHAPES if shape[1] <= self.max_tokens and not is_warm
        ]
        self._facts = facts_of(compiled)

    def _read_texts(self, path: Path) -> None:
        facts = read_encoder_facts(path.parent)
        self.max_tokens, self.vocab_size, self._pad_id = facts.max_tokens, facts.vocab_size, facts.pad_id
        self._min_width = facts.min_width

    def _probe(self, path: Path) -> None:
        """Run once; read the output's shape, and for windows of sound how many frames they have."""
        if self.columns is None:
            self.per_token, self.size = output_shape(path, self.run(PROBE_BATCH))
            return
        self.vocab_size, self._pad_id, self._min_width = 1, 0, 0
        values = self._infer(probe_features(self.columns))
        self.per_token, self.max_tokens, self.size = features_shape(path, values)

    def run(self, batch: TokenBatch) -> NDArray[np.float32]:
        width = batch.ids.shape[1]
        wider = max(min(width + -width % WIDTH_STEP, self.max_tokens), self._min_width)
        values = self._infer(padded_to_width(batch, wider))
        return values[:, :width] if values.ndim == 3 else values

    def _infer(self, batch: TokenBatch) -> NDArray[np.float32]:
        assert self._request is not None, "run comes before close"
        inputs = input_arrays(batch, self._inputs, self._pad_id)
        for index, array in enumerate(inputs.values()):
            self._request.set_input_tensor(index, ov.Tensor(array, shared_memory=True))
        slot = self._adapters.of_texts(batch.adapters)
        for name, array in slot.items():
            self._set_input(name, array)
        try:
            self._infer_request(self._request)
        except RuntimeError as error:
            raise RuntimeError(f"OpenVINO failed: {last_line(error)}") from error
        values: NDArray[np.float32] = self._request.get_output_tensor(0).data
        return values

    def _set_input(self, name: str, array: NDArray[Any]) -> None:
        """The request reads the array in place."""
        assert self._request is not None
        self._request.set_tensor(name, to_tensor(name, array))

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        self._adapters.put(number, weights)

    def drop_adapter(self, number: int) -> None:
        self._adapters.drop(number)

    def warm(self) -> bool:
        """Run one more shape of calls, until one takes long; return whether more are left."""
        if not self._shapes_to_warm:
            return False
        began_s = perf_counter()
        self.run(blank_batch(*self._shapes_to_warm.pop(0)))
        if perf_counter() - began_s > MAX_WARMUP_S:
            self._shapes_to_warm = []
        return bool(self._shapes_to_warm)

    def describe(self) -> Mapping[str, str]:
        return self._facts

    def close(self) -> None:
        """Free the model; the properties stay.  A second call has no effect."""
        self._request = self._compiled = None
        self._adapters = AdapterInputs({}, self._set_input)
        self._shapes_to_warm = []
        self._files = []  # which the compiled model was reading


def _size(axis: ov.Dimension) -> int | None:
    """The length of an axis; None where it is free."""
    return axis.get_length() if axis.is_static else None
