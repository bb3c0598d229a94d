"""Lets a paged decoder that turns its tokens by several numbers (M-RoPE) read one position for each token,
and all numbers for those of images alone: a step without images is as short as that of other models.
"""

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.paging.positions import POSITIONS
from pipelines.onnx_format.decoder_format import GIVEN_POSITIONS


def spread_positions(model: ov.Model, places: ov.Node) -> int:
    """Replace the input POSITIONS, int64[axes, tokens], by one of int64[tokens], and GIVEN_POSITIONS,
    int64[axes, k]: the positions of the tokens at the k `places`.

    Returns the number of axes; 1 for a model that reads one position for each token, which is not changed.
    """
    (whole,) = (
        parameter for parameter in model.get_parameters() if parameter.get_friendly_name() == POSITIONS
    )
    if whole.partial_shape.rank.get_length() == 1:
        return 1
    axes = whole.partial_shape[0].get_length()
    plain, image_positions = (
        ops.parameter([-1], np.int64, name=POSITIONS),
        ops.parameter([axes, -1], np.int64, name=GIVEN_POSITIONS),
    )
    plain.output(0).set_names({POSITIONS})
    image_positions.output(0).set_names({GIVEN_POSITIONS})
    spread = ops.tile(ops.unsqueeze(plain, np.int64(0)), np.array([axes, 1], np.int64))
    read = ops.scatter_update(spread, places, image_positions, np.int64(1))
    for reader in whole.output(0).get_target_inputs():
        reader.replace_source_output(read.output(0))
    model.remove_parameter(whole)
    model.add_parameters([plain, image_positions])
    return int(axes)
