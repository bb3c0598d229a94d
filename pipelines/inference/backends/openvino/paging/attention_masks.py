"""What each attention of an exported OpenVINO decoder may see, read from the masks that the model computes.

Paged attention has no mask: it has a window and ALiBi slopes for each layer.  The part of the graph that
computes the masks is cut out and run, at the beginning and at the end of the longest context; from the
numbers follows which window and which slopes give the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as ops

from pipelines.inference.contracts.device_errors import ModelError

SDPA = "ScaledDotProductAttention"
MASK_INPUT = 3
HIDDEN = -6e4
"""Scores below this are masked; the bias of ALiBi is not as low within LONGEST tokens."""
LONGEST = 1 << 16
"""Tokens of the context at whose end masks are read, at most."""
FIRST_ROWS, LAST_ROWS = 48, 4
"""Queries whose masks are read at the beginning and at the end."""
MOST_VALUES = 1 << 27
"""Most values of a tensor between inputs and masks; a shorter context is read where there would be more."""
SLOPE_TOLERANCE = 8e-3
"""Part of a bias by which it may differ from a line: exports compute it in bfloat16 too."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class AttentionMask:
    """`window`: tokens that a query sees, itself included, -1 is no limit.  `slopes`: float32[heads] of
    ALiBi, or None.  `chunked`: a query sees the tokens of its chunk alone.
    """

    window: int = -1
    slopes: Floats | None = None
    chunked: bool = False


CAUSAL = AttentionMask()


def read_attention_masks(model: ov.Model, max_context: int) -> list[AttentionMask]:
    """One for each attention of a stateful decoder, in order; the model is not changed.

    Raises `ModelError` where a mask is nothing that paged attention has.
    """
    length = min(max_context, LONGEST)
    first = _run_masks(model, 0, min(FIRST_ROWS, length))
    while True:
        try:
            last = _run_masks(model, max(length - LAST_ROWS, 1), LAST_ROWS)
            break
        except _TooLong:
            length //= 2
    return [_understood(number, *pair) for number, pair in enumerate(zip(first, last, strict=True))]


def _understood(layer: int, first: Floats | None, last: Floats | None) -> AttentionMask:
    """The mask of a layer from its rows [heads, queries, keys] at the beginning and at the end."""
    if first is None or last is None:
        return CAUSAL
    try:
        _check_first(first)
        window, is_chunked = _window(last)
        return AttentionMask(window, _slopes(last), is_chunked)
    except ValueError as error:
        raise ModelError(
            f"Attention of layer {layer} {error}, which paged attention cannot. Export it with "
            "braid export --format onnx, which refuses or keeps it."
        ) from error


def _check_first(rows: Floats) -> None:
    """At the beginning a query sees itself and, before any window ends, all tokens before it."""
    queries, keys = rows.shape[-2:]
    seen = rows > HIDDEN
    later = np.arange(keys) > np.arange(queries)[:, None]
    if (seen & later).any():
        raise ValueError("sees later tokens")
    if not seen[:, np.arange(queries), np.arange(queries)].all():
        raise ValueError("does not see the token itself")
    _slopes(rows)


def _window(rows: Floats) -> tuple[int, bool]:
    """(window, whether it is a chunk) from the last queries of a long context."""
    if (rows > HIDDEN).any(axis=0).sum() != (rows > HIDDEN).all(axis=0).sum():
        raise ValueError("sees other tokens with each head")
    seen = rows[0] > HIDDEN
    positions = np.arange(seen.shape[1] - len(seen), seen.shape[1])
    counts, begins = seen.sum(axis=1), seen.argmax(axis=1)
    if (begins + counts - 1 != positions).any():
        raise ValueError("sees tokens with gaps between them")
    if not begins.any():
        return -1, False
    if len(set(counts)) == 1:
        return int(counts[0]), False
    return -1, True


def _slopes(rows: Floats) -> Floats | None:
    """float32[heads]: how much the bias of a key falls with each token between it and the query."""
    queries, keys = rows.shape[1:]
    seen = rows > HIDDEN
    own = np.arange(keys - queries, keys)
    bias = np.where(seen, rows - rows[:, np.arange(queries), own][:, :, None], 0)
    if not bias.any():
        return None
    behind = np.where(seen, np.arange(keys) - own[:, None], 0)
    far = int(-behind.min())  # of the last query
    slopes: Floats = (bias * (behind == -far)).sum(axis=(1, 2)) / -far
    error = np.abs(bias - slopes[:, None, None] * behind)
    if (error > SLOPE_TOLERANCE * far * np.abs(slopes)[:, None, None] + 1e-5).any():
        raise ValueError("adds a bias to its scores that is not ALiBi's")
    return slopes.astype(np.float32)


# The part of the graph that computes the masks


class _TooLong(Exception):
    """A tensor on the way to a mask would be too large."""


def _run_masks(model: ov.Model, num_past: int, num_new: int) -> list[Floats | None]:
    """float32[heads, num_new, num_past + num_new] of each attention; None where there is no mask."""
    clone = model.clone()
    attentions = [node for node in clone.get_ordered_ops() if node.get_type_name() == SDPA]
    _give_shapes(clone, num_past, num_new)
    masks = [_mask_of(node) for node in attentions]
    _cut_shapes(masks)
    wanted = list({_key(mask): mask for mask in masks if mask is not None}.items())
    outputs = dict(
        zip([key for key, _ in wanted], _computed([mask for _, mask in wanted], num_past), strict=True)
    )
    size = num_past + num_new
    return [None if mask is None else _rows(outputs[_key(mask)], num_new, size) for mask in masks]


def _mask_of(node: ov.Node) -> ov.Output | None:
    """None for an attention that is causal by itself, or whose mask is the number 0."""
    if node.get_input_size() <= MASK_INPUT:
        return None
    mask = node.input_value(MASK_INPUT)
    is_number = mask.get_partial_shape().is_static and not mask.get_partial_shape().to_shape()
    return None if is_number else mask


def _give_shapes(model: ov.Model, num_past: int, num_new: int) -> None:
    """Fix every length: one sequence, `num_past` tokens in each state, `num_new` tokens given."""
    lengths = {"attention_mask": num_past + num_new}
    for parameter in model.get_parameters():
        dims = list(parameter.get_partial_shape())
        length = lengths.get(parameter.output(0).any_name, num_new)
        free = iter([1, length, *[1] * len(dims)])
        sizes = [dim.get_length() if dim.is_static else next(free) for dim in dims]
        parameter.set_partial_shape(ov.PartialShape(sizes))
    states = []
    for node in model.get_ordered_ops():
        if node.get_type_name() == "ReadValue":
            dims = list(node.get_output_partial_shape(0))
            free = iter([1, *[num_past] * len(dims)])
            sizes = [dim.get_length() if dim.is_static else next(free) for dim in dims]
            state = ops.parameter(sizes, node.get_output_element_type(0))
            node.output(0).replace(state.output(0))
            states.append(state)
    model.add_parameters(states)
    model.validate_nodes_and_infer_types()


def _cut_shapes(masks: list[ov.Output | None]) -> None:
    """Replace what only gives a shape by that shape, so that the masks hang on the inputs alone."""
    for node in list(_before(masks)):
        shape = node.get_output_partial_shape(0) if node.get_output_size() else None
        if node.get_type_name() == "ShapeOf" and node.input(0).get_partial_shape().is_static:
            sizes = node.input(0).get_partial_shape().to_shape()
            constant = ops.constant(np.array(sizes, node.get_output_element_type(0).to_dtype()))
            node.output(0).replace(constant.output(0))
        elif shape is not None and shape.is_static and np.prod(list(shape.to_shape())) > MOST_VALUES:
            raise _TooLong


def _before(values: list[ov.Output | None]) -> Iterator[ov.Node]:
    """The nodes that values are computed from, without those that only give a shape to a ShapeOf."""
    queue = [value.get_node() for value in values if value is not None]
    seen: set[str] = set()
    while queue:
        node = queue.pop()
        if node.get_name() in seen:
            continue
        seen.add(node.get_name())
        yield node
        if node.get_type_name() != "ShapeOf" or node.input(0).get_partial_shape().is_dynamic:
            queue += [value.get_node() for value in node.input_values()]


def _computed(masks: list[ov.Output], num_past: int) -> list[NDArray[Any]]:
    if not masks:
        return []
    parameters = [node for node in _before(list(masks)) if node.get_type_name() == "Parameter"]
    cut = ov.Model([ops.result(mask) for mask in masks], parameters)
    compiled = ov.Core().compile_model(cut, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled([_input(parameter, num_past) for parameter in parameters])
    return [np.array(results[index]) for index in range(len(masks))]


def _input(parameter: ov.Node, num_past: int) -> NDArray[Any]:
    """Ones for a mask, positions, else zeros."""
    shape = parameter.get_output_shape(0)
    dtype = parameter.get_output_element_type(0).to_dtype()
    match parameter.output(0).any_name if parameter.output(0).names else "":
        case "attention_mask":
            return np.ones(list(shape), dtype)
        case "position_ids":
            return np.broadcast_to(np.arange(num_past, num_past + shape[-1], dtype=dtype), list(shape)).copy()
    return np.zeros(list(shape), dtype)


def _rows(mask: NDArray[Any], num_new: int, size: int) -> Floats:
    """float32[heads, num_new, size]."""
    values = np.where(mask, 0.0, 2 * HIDDEN) if mask.dtype == np.bool_ else mask
    heads = values.shape[-3] if values.ndim >= 3 else 1
    found = values.astype(np.float32).reshape(-1, *values.shape[-2:])[:heads]
    return np.broadcast_to(found, (heads, num_new, size))


def _key(value: ov.Output) -> tuple[str, int]:
    return value.get_node().get_name(), value.get_index()
