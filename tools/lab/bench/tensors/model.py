"""The model that is measured, Braid's graph around it, and the bare call."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset8 as ops

NAME = "layers"
MODEL_FILE = "model.xml"
INPUT, OUTPUT = "x", "y"
SIZES = (512, 1024, 1024, 1024, 128)
"""Numbers of a row, and after each layer: 15 MB of weights."""
GRAPH = f"""version: 1
task: infer
nodes:
  result:
    type: infer
    from: request
    max_batch: {{max_batch}}
    body:
      found: {{{{type: tensor_model, from: batch, path: {MODEL_FILE}}}}}
"""

Rows = NDArray[np.float32]


def make_repository(models: Path, max_batch: int) -> Path:
    """A repository with the model, of random weights.  Gives the model's file."""
    folder = models / NAME
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / MODEL_FILE).exists():
        ov.save_model(_layers(), folder / MODEL_FILE, compress_to_fp16=False)
    (folder / "graph.yaml").write_text(GRAPH.format(max_batch=max_batch))
    return folder / MODEL_FILE


def bare_call(file: Path) -> Callable[[Rows], Rows]:
    """The model called in this process, compiled as Braid compiles it."""
    request = ov.Core().compile_model(file, "CPU", {"PERFORMANCE_HINT": "LATENCY"}).create_infer_request()

    def run(rows: Rows) -> Rows:
        request.infer([rows], share_inputs=True)
        return np.array(request.get_output_tensor(0).data)

    return run


def _layers() -> ov.Model:
    draw = np.random.default_rng(0)
    first = value = ops.parameter([-1, SIZES[0]], np.float32, name=INPUT)
    for size, width in pairwise(SIZES):
        weights = draw.standard_normal((size, width), np.float32) / np.float32(size**0.5)
        value = ops.relu(ops.matmul(value, ops.constant(weights), False, False))
    first.output(0).get_tensor().set_names({INPUT})
    value.output(0).get_tensor().set_names({OUTPUT})
    return ov.Model([value], [first], NAME)
