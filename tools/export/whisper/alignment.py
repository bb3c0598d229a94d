"""Writes the part of a decoder that shows when each token of a finished text was spoken.

It reads all tokens at once, and gives how much each of them attends to each frame, in the heads that follow
the sound.  Its weights are those of the decoder's own file, which it names.

inputs    input_ids, position_ids int64[1, num_tokens] · context_frames float32[1, num_frames, frame_size]
output    weights float32[num_heads, num_tokens, num_frames], each row of them a distribution
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass
from onnx_ir.tape import Tape

from pipelines.onnx_format.decoder_format import (
    CONTEXT_ATTENTION,
    CONTEXT_FRAMES,
    DOMAIN,
    INPUT_IDS,
    POSITION_IDS,
)

WEIGHTS = "weights"
INPUTS = (INPUT_IDS, POSITION_IDS, CONTEXT_FRAMES)
KEYS_LAST = [0, 1, 3, 2]
MASKED = -1e30
"""What is added to the score of a token that comes later."""


def default_heads(config: Mapping[str, Any]) -> list[tuple[int, int]]:
    """(layer, head) of a model that names none: all of the upper half of its layers, as in Whisper."""
    layers, heads = int(config["decoder_layers"]), int(config["decoder_attention_heads"])
    return [(layer, head) for layer in range(layers // 2, layers) for head in range(heads)]


def write_alignment(decoder: Path, heads: Sequence[Sequence[int]], file: Path) -> None:
    """Write `file` beside `decoder`, a file of Braid's ONNX format that attends to frames.

    `heads`: the (layer, head) pairs that follow the sound.  Raises ValueError where the decoder lacks one.
    """
    model = ir.load(decoder)
    shares = _plain_attention(model.graph)
    chosen: dict[int, list[int]] = {}
    for layer, head in heads:
        if layer not in shares or not 0 <= head < shares[layer].num_heads:
            raise ValueError(f"the decoder has no head {head} in a layer {layer}")
        chosen.setdefault(layer, []).append(head)
    tape = Tape(model.graph)
    gathered = [
        tape.op("Gather", [shares[layer].values, _ints(tape, *head)], {"axis": 1})
        for layer, head in chosen.items()
    ]
    weights = tape.op("Squeeze", [tape.op("Concat", gathered, {"axis": 1}), _ints(tape, 0)])
    weights.name, weights.dtype = WEIGHTS, ir.DataType.FLOAT
    weights.shape = ir.Shape([len(heads), "num_tokens", "num_frames"])
    model.graph.outputs[:] = [weights]
    model.graph.inputs[:] = [value for value in model.graph.inputs if value.name in INPUTS]
    RemoveUnusedNodesPass()(model)
    model.opset_imports.pop(DOMAIN, None)
    ir.save(model, file)


class Shares(NamedTuple):
    """How much each token attends to each frame in one layer: float32[1, heads, tokens, frames]."""

    num_heads: int
    values: ir.Value


def _plain_attention(graph: ir.Graph) -> dict[int, Shares]:
    """Let queries see all keys at once, instead of those in blocks of a cache; gives the shares by layer."""
    tape, positions = Tape(), next(value for value in graph.inputs if value.name == POSITION_IDS)
    is_later = tape.op("Greater", [positions, tape.op("Transpose", [positions], {"perm": [1, 0]})])
    mask = tape.op("Where", [is_later, _number(tape, MASKED), _number(tape, 0.0)])
    graph.insert_before(next(iter(graph)), tape.nodes)
    shares = {}
    for node in [node for node in graph if node.domain == DOMAIN]:
        tape, read = Tape(), node.attributes
        query, key, value = [value for value in node.inputs if value is not None]
        key.shape = value.shape = None  # tokens and frames have the same name there
        scaled = tape.op("Mul", [query, _number(tape, read["scale"].as_float())])
        scores = tape.op("MatMul", [scaled, tape.op("Transpose", [key], {"perm": KEYS_LAST})])
        if node.op_type != CONTEXT_ATTENTION:
            scores = tape.op("Add", [scores, mask])
        share = tape.op("Softmax", [scores], {"axis": -1})
        attended = tape.op("MatMul", [share, value])
        if node.op_type == CONTEXT_ATTENTION:
            shares[read["layer"].as_int()] = Shares(read["num_heads"].as_int(), share)
        ir.convenience.replace_nodes_and_values(graph, node, [node], tape.nodes, node.outputs, [attended])
    return shares


def _ints(tape: Tape, *numbers: int) -> ir.Value:
    return tape.op("Constant", [], {"value": ir.tensor(np.array(numbers, np.int64))})


def _number(tape: Tape, number: float) -> ir.Value:
    return tape.op("Constant", [], {"value": ir.tensor(np.array(number, np.float32))})
