"""Lets a paged decoder whose input is embeddings read token ids, and embeddings of images for some of them.

optimum-intel exports a vision model in parts: the decoder reads embeddings, and the table that
gives them for token ids is a file of its own.  Here the table becomes a part of the decoder.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.inference.backends.openvino.paging.deepstack import add_deep, count_deep
from pipelines.inference.backends.openvino.paging.mrope_positions import spread_positions
from pipelines.inference.backends.openvino.paging.paged_attention import (
    EMBEDDINGS,
    read_model,
    weights_beside,
)
from pipelines.inference.backends.openvino.paging.step_inputs import StepInputs
from pipelines.inference.contracts.step import Step
from pipelines.onnx_format.decoder_format import (
    GIVEN_EMBEDDINGS,
    GIVEN_PLACES,
    GIVEN_POSITIONS,
    INPUT_IDS,
    TOKEN_KINDS,
)

TABLE = "openvino_text_embeddings_model.xml"


class Embedded(NamedTuple):
    """The length of the rows that a decoder reads, on how many axes their positions are, whether those of an
    image attend to one another, and the mapped weights of its table.
    """

    embeds_size: int = 0
    mrope_axes: int = 1
    whole_images: bool = False
    table: MappedFile | None = None


def embed_tokens(model: ov.Model, folder: Path) -> Embedded:
    """Give a paged model the inputs `input_ids`, int64[tokens], GIVEN_EMBEDDINGS, float32[k, size], and
    GIVEN_PLACES, int64[k]: the rows are read in the place of the embeddings of those tokens; what follows in
    a row is added after its first layers.  A model that reads ids is not changed.  Raises `ModelError`.
    """
    parameters = {parameter.get_friendly_name(): parameter for parameter in model.get_parameters()}
    if EMBEDDINGS not in parameters:
        return Embedded()
    embeddings = parameters[EMBEDDINGS].output(0)
    weights = weights_beside(folder / TABLE)
    table = read_model(folder / TABLE, weights)
    size = table.output().partial_shape[-1].get_length()
    num_deep = count_deep(model)
    ids, given_embeds, places = (
        _input(INPUT_IDS, [-1], np.int64),
        _input(GIVEN_EMBEDDINGS, [-1, size * (1 + num_deep)], np.float32),
        _input(GIVEN_PLACES, [-1], np.int64),
    )
    split = ops.split(given_embeds, np.int64(1), 1 + num_deep) if num_deep else given_embeds
    rows, *deep = split.outputs()
    one_text = ops.unsqueeze(ids, np.int64(0))
    for reader in table.input().get_target_inputs():
        reader.replace_source_output(one_text.output(0))
    looked_up = table.get_results()[0].input_value(0)
    flat = ops.convert(ops.reshape(looked_up, np.array([-1, size], np.int64), False), "f32")
    read = ops.scatter_update(flat, places, rows, np.int64(0))
    for reader in embeddings.get_target_inputs():
        reader.replace_source_output(read.output(0))
    model.remove_parameter(parameters[EMBEDDINGS])
    model.add_parameters([ids, given_embeds, places])
    if deep:
        add_deep(model, deep, places, ids)
    mrope_axes = spread_positions(model, places)
    model.validate_nodes_and_infer_types()
    return Embedded(size * (1 + num_deep), mrope_axes, TOKEN_KINDS in parameters, weights)


def _input(name: str, shape: list[int], dtype: type[np.generic]) -> ov.Node:
    parameter = ops.parameter(shape, dtype, name=name)
    parameter.output(0).set_names({name})
    return parameter


class RowInputs:
    """The inputs of a step for embeddings of images; no inputs for a model without them."""

    def __init__(self, embedded: Embedded) -> None:
        self.none: StepInputs = {}
        self._has_axes, self._whole_images = embedded.mrope_axes > 1, embedded.whole_images
        if embedded.embeds_size:
            self.none = {
                GIVEN_EMBEDDINGS: np.empty((0, embedded.embeds_size), np.float32),
                GIVEN_PLACES: np.empty(0, np.int64),
            }
        if self._has_axes:
            self.none[GIVEN_POSITIONS] = np.empty((embedded.mrope_axes, 0), np.int64)
        if self._whole_images:
            self.none[TOKEN_KINDS] = np.empty(0, np.int32)

    def of(self, step: Step, num_tokens: int) -> StepInputs:
        """The inputs of a step that is padded to `num_tokens` tokens."""
        embeds = step.embeds
        if embeds is None:
            return self.none
        inputs: StepInputs = {GIVEN_EMBEDDINGS: embeds.values, GIVEN_PLACES: embeds.places}
        if embeds.positions is not None:
            inputs[GIVEN_POSITIONS] = embeds.positions
        if self._whole_images:
            inputs[TOKEN_KINDS] = np.zeros(num_tokens, np.int32)
            inputs[TOKEN_KINDS][embeds.places] = 1
        return inputs
