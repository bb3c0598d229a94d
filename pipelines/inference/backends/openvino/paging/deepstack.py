"""Lets a paged decoder that adds embeddings of an image after its first layers (deepstack of Qwen3-VL) take
them from the embeddings that stand for the image's tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import openvino as ov
from openvino import opset13 as ops

DEEP, MASK = "deepstack_visual_embeds", "visual_pos_masks"
"""Inputs of such a decoder: float32[layers, tokens of images, size], and which tokens are those of images."""


def count_deep(model: ov.Model) -> int:
    """After how many layers of a paged model something is added; 0 for most models."""
    found = [one for one in model.get_parameters() if one.get_friendly_name() == DEEP]
    return len(found[0].output(0).get_target_inputs()) if found else 0


def add_deep(model: ov.Model, deep: Sequence[ov.Output], places: ov.Node, ids: ov.Node) -> None:
    """Replace the inputs DEEP and MASK: `deep` is, for each layer, float32[k, size] for the tokens at the k
    `places` among those of `ids`.
    """
    parameters = {parameter.get_friendly_name(): parameter for parameter in model.get_parameters()}
    size = deep[0].get_partial_shape()[-1].get_length()
    stacked = ops.concat([ops.unsqueeze(rows, np.int64(0)) for rows in deep], 0)
    blank = ops.constant(np.zeros((len(deep), 1, size), np.float32))  # what is read of a step without images
    none = ops.broadcast(ops.constant(np.array(False)), ops.shape_of(ids))
    shown = ops.broadcast(ops.constant(np.array(True)), ops.shape_of(places))
    mask = ops.unsqueeze(ops.scatter_update(none, places, shown, np.int64(0)), np.int64(1))
    for name, value in ((DEEP, ops.concat([stacked, blank], 1)), (MASK, mask)):
        for reader in parameters[name].output(0).get_target_inputs():
            reader.replace_source_output(value.output(0))
        model.remove_parameter(parameters[name])
