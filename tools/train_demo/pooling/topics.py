"""Trains `braid-topics`: a small head that classifies the topic of a text from its embedding of
`braid-embed`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

from ..split import Draw
from .corpus.topics import LABELS, topic_text
from .serving import Served
from .sizes import SIZE

TEXTS = 6000
STEPS = 300
RATE = 0.05
DECAY = 1e-3  # of the squares of the weights, in the loss
OPSET, IR_VERSION = 17, 10
GRAPH = """\
# The embedded topics demo: a head on the embeddings of another model, trained by tools/train_demo/pooling.
version: 1
task: classify
description: Topics of short texts, classified from the embeddings of braid-embed
nodes:
  vectors: {type: graph, graph: braid-embed, from: request}
  logits:
    type: infer
    from: vectors
    body:
      head: {type: tensor_model, from: batch, path: head.onnx, inputs: {x: embeddings}}
  classes: {type: label, from: logits, labels: labels.json}
"""


def train(seed: int, repository: Path) -> None:
    """Writes head.onnx, labels.json and graph.yaml into the repository's braid-topics."""
    torch.manual_seed(seed)
    draw = Draw(seed)
    examples = [topic_text(draw) for _ in range(TEXTS)]
    with Served(repository, {"braid-embed"}) as served:
        vectors = served.vectors("braid-embed", [example.text for example in examples])
    wanted = torch.tensor([LABELS.index(example.label) for example in examples])
    head = _fitted(torch.from_numpy(vectors), wanted)
    folder = repository / "braid-topics"
    folder.mkdir(exist_ok=True)
    weights = {"weight": head.weight.T.contiguous().detach().numpy(), "bias": head.bias.detach().numpy()}
    onnx.save(_model(weights), folder / "head.onnx")
    (folder / "graph.yaml").write_text(GRAPH)
    (folder / "labels.json").write_text(json.dumps(list(LABELS)) + "\n")


def _fitted(vectors: torch.Tensor, wanted: torch.Tensor) -> torch.nn.Linear:
    """Multinomial logistic regression with a little decay."""
    head = torch.nn.Linear(SIZE, len(LABELS))
    optimizer = torch.optim.Adam(head.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = functional.cross_entropy(head(vectors), wanted) + DECAY * head.weight.square().sum()
        loss.backward()
        optimizer.step()
    return head


def _model(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """x: float32[n, SIZE] of any length → logits and probabilities: float32[n, labels]."""
    rows: list[str | int] = ["n", SIZE]
    wide: list[str | int] = ["n", len(LABELS)]
    values = helper.make_tensor_value_info
    nodes = [
        helper.make_node("LpNormalization", ["x"], ["unit"], axis=1, p=2),
        helper.make_node("Gemm", ["unit", "weight", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "topics",
        [values("x", TensorProto.FLOAT, rows)],
        [values(name, TensorProto.FLOAT, wide) for name in ("logits", "probabilities")],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return model
