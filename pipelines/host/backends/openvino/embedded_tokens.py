"""Lets a paged decoder whose first input is embeddings read token ids, and rows of images for some of them.

optimum-intel exports a model that sees images in parts: the decoder reads embeddings, and the table that
gives them for token ids is a file of its own.  Here the table becomes a part of the decoder.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.host.backends.device_errors import ModelError
from pipelines.host.backends.openvino.mapped_files import MappedFile
from pipelines.host.backends.openvino.paged_attention import EMBEDDINGS, read_model, weights_beside
from pipelines.host.backends.openvino.step_inputs import StepInputs
from pipelines.host.engine.step import Step

TABLE = "openvino_text_embeddings_model.xml"
IDS, ROWS, PLACES = "input_ids", "given_rows", "given_places"


def embed_tokens(model: ov.Model, folder: Path) -> tuple[int, MappedFile | None]:
    """Give a paged model the inputs `input_ids`, int64[tokens], ROWS, float32[k, size], and PLACES, int64[k]:
    the rows are read in the place of the embeddings of those tokens.

    Returns the size of a row, and the mapped weights of the table; (0, None) for a model that reads ids.
    Raises `ModelError`.
    """
    given = {parameter.get_friendly_name(): parameter for parameter in model.get_parameters()}
    if EMBEDDINGS not in given:
        return 0, None
    if given["position_ids"].partial_shape.rank.get_length() != 1:
        raise ModelError("its tokens have positions in several rows (M-RoPE), which are not computed yet.")
    embeddings = given[EMBEDDINGS].output(0)
    weights = weights_beside(folder / TABLE)
    table = read_model(folder / TABLE, weights)
    size = table.output().partial_shape[-1].get_length()
    ids, rows, places = (
        _input(IDS, [-1], np.int64),
        _input(ROWS, [-1, size], np.float32),
        _input(PLACES, [-1], np.int64),
    )
    one_text = ops.unsqueeze(ids, np.int64(0))
    for reader in table.input().get_target_inputs():
        reader.replace_source_output(one_text.output(0))
    looked_up = table.get_results()[0].input_value(0)
    flat = ops.convert(ops.reshape(looked_up, np.array([-1, size], np.int64), False), "f32")
    read = ops.scatter_update(flat, places, rows, np.int64(0))
    for reader in embeddings.get_target_inputs():
        reader.replace_source_output(read.output(0))
    model.remove_parameter(given[EMBEDDINGS])
    model.add_parameters([ids, rows, places])
    model.validate_nodes_and_infer_types()
    return size, weights


def _input(name: str, shape: list[int], dtype: type[np.generic]) -> ov.Node:
    parameter = ops.parameter(shape, dtype, name=name)
    parameter.output(0).set_names({name})
    return parameter


class RowInputs:
    """The inputs of a step for rows of `row_size` numbers; no inputs for a model without them."""

    def __init__(self, row_size: int) -> None:
        self.none: StepInputs = {}
        if row_size:
            self.none = {ROWS: np.empty((0, row_size), np.float32), PLACES: np.empty(0, np.int64)}

    def of(self, step: Step) -> StepInputs:
        if not len(step.given_places):
            return self.none
        return {ROWS: step.given_rows, PLACES: step.given_places}
