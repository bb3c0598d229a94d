"""The graph of an exported model that has none: `braid new-graph` writes it, and the folder is served by it.

Knows what each kind of model is asked; its lines are written in `pipelines.folders`.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.repository.decoder_graph import generation_lines
from pipelines.repository.exports import CONFIGS, MODEL_FILES, TENSOR_FILES, TOKENIZER, Export, find_export
from pipelines.repository.model_task import TEXT, find_purpose, find_tensor_model
from pipelines.repository.pooling_graph import pooling_lines

HEADER = "# Made by `braid new-graph` from the files of this folder; change what you like.\n"


def recognise(folder: Path) -> str | None:
    """`openvino` or `onnx` when the folder holds a model that `new_graph` writes a graph for, else None."""
    export = find_export(folder)
    if export is not None and find_purpose(export.place) is not None:
        return export.kind
    return TENSOR_FILES.get(find_tensor_model(folder) or "")


def new_graph(folder: Path) -> str:
    """The text of a graph.yaml for the export in `folder`: the task is what its files say that it is for.

    A model without a tokenizer is one of tensors, and the task is infer.  Raises ValueError when there is
    no export that Braid recognises, or one that it cannot run.
    """
    export = find_export(folder)
    purpose = find_purpose(export.place) if export else None
    if export is not None and purpose is not None:
        lines = generation_lines(export, folder) if purpose == TEXT else pooling_lines(export, purpose)
        return "\n".join([HEADER + "version: 1", *lines]) + "\n"
    if (model := find_tensor_model(folder)) is not None:
        return _inference(model)
    raise ValueError(_refusal(folder, export))


def _refusal(folder: Path, export: Export | None) -> str:
    if export is not None:
        return (
            f"{export.place}: neither config.json nor modules.json tells what the model is for: text, "
            "embeddings, classes or scores; write a graph.yaml that does (`braid schema`)"
        )
    return (
        f"{folder} holds no exported language model: {' or '.join(MODEL_FILES)} beside {TOKENIZER} and "
        f"{' or '.join(CONFIGS)}; nor one of tensors: {' or '.join(TENSOR_FILES)} without them"
    )


def _inference(model: str) -> str:
    lines = [
        HEADER + "version: 1",
        "task: infer",
        "nodes:",
        "  result:",
        "    type: infer",
        "    from: request",
        "    body:",
        f"      outputs: {{type: tensor_model, from: batch, path: {model}, device: cpu}}",
    ]
    return "\n".join(lines) + "\n"
