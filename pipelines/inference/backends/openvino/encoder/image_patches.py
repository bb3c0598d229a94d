"""Lets an encoder of images that reads which of their patches are there read whole images alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.encoder_files import read_patches
from pipelines.inference.backends.encoder_io import PIXELS

MASK, POSITIONS = "patch_attention_mask", "patch_position_ids"


def fill_patches(path: Path, model: ov.Model) -> None:
    """Replace the inputs MASK and POSITIONS by those of images that all their patches belong to.

    Raises `ModelError`.
    """
    parameters = {parameter.get_friendly_name(): parameter for parameter in model.get_parameters()}
    if not {MASK, POSITIONS, PIXELS} <= parameters.keys():
        return
    along = read_patches(path.parent)
    places = _places(along)
    values = {
        MASK: np.ones((1, along, along), bool),
        POSITIONS: (places[:, None] * along + places).reshape(1, -1),
    }
    images = ops.gather(ops.shape_of(parameters[PIXELS]), np.array([0]), np.int64(0))
    for name, value in values.items():
        constant = ops.constant(value.astype(parameters[name].get_element_type().to_dtype()))
        shape = ops.concat([images, ops.constant(np.array(value.shape[1:], np.int64))], 0)
        parameters[name].output(0).replace(ops.broadcast(constant, shape).output(0))
        model.remove_parameter(parameters[name])
    model.validate_nodes_and_infer_types()


def _places(along: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """int64[along]: on one side the position of each patch, as transformers computes it since 4.55: the first
    two have the same.
    """
    starts = np.arange(along, dtype=np.float32) / np.float32(along) * np.float32(1 - 1e-6)
    bounds = np.arange(1 / along, 1.0, 1 / along).astype(np.float32)
    return np.searchsorted(bounds, starts, side="right").astype(np.int64)
