"""Lets the tokens of an image attend to one another in a paged decoder that was exported with that.

OpenVINO's transformation cuts the kinds of tokens off the masks without a word, though its attention has an
input for them: tokens of kind 1 that follow one another in a step attend to each other, others to what is
before.
"""

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.contracts.device_errors import ModelError
from pipelines.onnx_format.decoder_format import TOKEN_KINDS

ATTENTION, KINDS_INPUT = "PagedAttentionExtension", 25


def connect_kinds(model: ov.Model) -> bool:
    """Give a paged model the input TOKEN_KINDS, int32[tokens], or int32[0] for a step without images.

    False for a model whose tokens see only what is before them.  Raises `ModelError`.
    """
    kinds_input = next(
        (parameter for parameter in model.get_parameters() if parameter.get_friendly_name() == TOKEN_KINDS),
        None,
    )
    if kinds_input is None:
        return False
    kinds = ops.parameter([-1], np.int32, name=TOKEN_KINDS)
    kinds.output(0).set_names({TOKEN_KINDS})
    for node in model.get_ops():
        if node.get_type_name() == ATTENTION:
            _check_free(node)
            node.input(KINDS_INPUT).replace_source_output(kinds.output(0))
    if kinds_input.output(0).get_target_inputs():
        raise ModelError(f"its input {TOKEN_KINDS} is read by more than its attention.")
    model.remove_parameter(kinds_input)
    model.add_parameters([kinds])
    model.validate_nodes_and_infer_types()
    return True


def _check_free(attention: ov.Node) -> None:
    """Raise `ModelError` unless the input for kinds is the empty constant of the transformation."""
    known = attention.get_input_size() > KINDS_INPUT
    if not known or attention.input_value(KINDS_INPUT).get_partial_shape() != ov.PartialShape([0]):
        raise ModelError(
            f"OpenVINO {ov.__version__} has another input {KINDS_INPUT} of its attention than kinds of "
            "tokens; Braid needs 2026.4.1."
        )
