"""Reads a `model.onnx` of any accepted kind as a decoder in Braid's format.

Braid's own exports are in the format; exports of optimum and onnxruntime-genai are converted to it.  The
graph is read and the sizes of its data files are checked; weights stay in their files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import onnx_ir as ir

from pipelines.inference.backends.declared_attention import check_num_layers, exact_context, first_chunk
from pipelines.inference.backends.model_config import CONTEXT_FIELDS, read_config
from pipelines.inference.backends.onnx.decoder_model import DecoderModel
from pipelines.inference.backends.onnx.experts import check_experts
from pipelines.inference.backends.onnx.format_checks import (
    check_inputs,
    find_vocab_size,
    read_encoder_hidden_size,
    read_images,
    read_layers,
)
from pipelines.inference.backends.onnx.genai import is_genai, rewrite_genai
from pipelines.inference.backends.onnx.head import compute_head_in_float32
from pipelines.inference.backends.onnx.optimum import is_optimum, rewrite_optimum
from pipelines.inference.backends.onnx.own_weights import with_own_weights
from pipelines.inference.backends.onnx.recurrent import find_recurrent
from pipelines.inference.contracts.device_errors import EXPORT_ADVICE, ModelError
from pipelines.onnx_format.decoder_format import ATTENTION, DOMAIN

ELEMENT_TYPES = {ir.DataType.FLOAT: "f32", ir.DataType.FLOAT16: "f16", ir.DataType.BFLOAT16: "bf16"}
CONFIG, GENAI_CONFIG = "config.json", "genai_config.json"
SUBFOLDER = "onnx"
"""Where exports for browsers store their graphs; config.json and the tokenizer are one folder above."""
SNAPSHOTS, BLOBS = "snapshots", "blobs"
"""Folders of a model in the Hub's cache."""
SMALL_BYTES = 1024
"""Tensors up to this size are read into the graph; onnx itself stores them there too."""
EMBEDDINGS = "inputs_embeds"
"""What the decoder of a vision model reads instead of token ids."""
READS = (
    "Braid reads its own exports (braid::PagedAttention), optimum's (past_key_values.*) and "
    "onnxruntime-genai's (com.microsoft::PagedAttention or GroupQueryAttention)."
)


def read_decoder(path: Path, from_gguf: bool = False) -> DecoderModel:
    """Read the decoder at `path`, a model.onnx with its data files and config.json beside it.

    `from_gguf`: weights may be in a GGUF file.  Raises `ModelError` when a file is wrong or of a kind that
    Braid does not read.
    """
    path = path if from_gguf else with_own_weights(path)
    try:
        model, fields = _load(path), read_fields(path.parent)
        folder = _follow_links(model, path.parent)
        _check_data(model, folder)
        _take_small(model)
        max_context = first_chunk(fields, _max_context(fields))
        if not _is_in_form(model):
            _bring_into_form(model, fields)
            max_context = exact_context(fields, max_context)
        check_inputs(model.graph)
        compute_head_in_float32(model.graph)
        layers = read_layers(model.graph)
        check_experts(model.graph)
        find_recurrent(model.graph)
        check_num_layers(len(layers), fields)
        vocabulary = find_vocab_size(model.graph, fields)
        encoder_hidden_size, element_type = (
            read_encoder_hidden_size(model.graph, layers),
            _element_type(model.graph),
        )
        max_frames = _max_frames(fields, max_context) if encoder_hidden_size else 0
        return DecoderModel(
            model=model,
            folder=folder,
            layers=layers,
            vocab_size=vocabulary,
            max_context=max_context,
            element_type=element_type,
            encoder_hidden_size=encoder_hidden_size,
            max_frames=max_frames,
            images=read_images(model.graph),
        )
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def _is_in_form(model: ir.Model) -> bool:
    return any((node.domain, node.op_type) == (DOMAIN, ATTENTION) for node in model.graph)


def _bring_into_form(model: ir.Model, fields: Mapping[str, Any]) -> None:
    if any(value.name == EMBEDDINGS for value in model.graph.inputs):
        raise ModelError(
            f"reads {EMBEDDINGS}: it is a part of a vision model, which is served from OpenVINO IR alone; "
            "braid export HF_FOLDER --name NAME writes that, and with --task text its language model as ONNX."
        )
    if is_genai(model.graph):
        rewrite_genai(model, fields)
    elif is_optimum(model.graph):
        rewrite_optimum(model, fields)
    else:
        raise ModelError(f"No decoder with a cache. {READS} {EXPORT_ADVICE}")


def _max_frames(fields: Mapping[str, Any], max_context: int) -> int:
    """An encoder without a bound of its own reads as many tokens as the decoder."""
    return int(fields.get("max_source_positions") or max_context)


# Files


def _load(path: Path) -> ir.Model:
    try:
        model = ir.load(path)
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}") from error
    except Exception as error:  # protobuf and onnx_ir raise classes of their own, and KeyErrors within
        raise ModelError(f"is no ONNX file that can be read: {error}") from error
    if not len(model.graph):
        raise ModelError("is empty, or no ONNX file.")
    return model


def _follow_links(model: ir.Model, folder: Path) -> Path:
    """The folder of the data files: `folder`, or for a snapshot in the Hub's cache the model's tree there.

    In such a tree the tensors are placed in the blobs that the snapshot links to.
    """
    here = folder.resolve()
    trees = (place.parent for place in (here, *here.parents) if place.name == SNAPSHOTS)
    tree = next((tree for tree in trees if (tree / BLOBS).is_dir()), None)
    if tree is None:
        return folder
    for value in model.graph.initializers.values():
        if isinstance(tensor := value.const_value, ir.ExternalTensor):
            blob = (here / str(tensor.location)).resolve()
            place = str(blob.relative_to(tree)) if blob.is_relative_to(tree) else str(blob)
            value.const_value = ir.ExternalTensor(
                place,
                tensor.offset,
                tensor.length,
                tensor.dtype,
                shape=tensor.shape,
                name=tensor.name,
                base_dir=tree,
            )
    return tree


def _check_data(model: ir.Model, folder: Path) -> None:
    """Raise `ModelError` unless every external tensor is inside the folder and complete."""
    sizes: dict[str, int] = {}
    for tensor in _external(model):
        name = str(tensor.location)
        if name not in sizes:
            sizes[name] = _size(folder, name)
        end = (tensor.offset or 0) + tensor.nbytes
        if tensor.length not in (None, tensor.nbytes):
            raise ModelError(
                f"{tensor.name} takes {tensor.nbytes} bytes, but {tensor.length} are given to it."
            )
        if end > sizes[name]:
            raise ModelError(
                f"{tensor.name} ends at byte {end} of {name}, which has {sizes[name]}: the file is cut short "
                "or of another export."
            )


def _take_small(model: ir.Model) -> None:
    """Read small tensors such as shapes: engines infer shapes from them before they open data files."""
    for graph in (model.graph, *model.graph.subgraphs()):
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes <= SMALL_BYTES:
                try:
                    value.const_value = ir.tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name)
                except ValueError as error:  # hard links, which onnx_ir does not follow
                    raise ModelError(str(error)) from error


def _external(model: ir.Model) -> Iterator[ir.ExternalTensor]:
    for graph in (model.graph, *model.graph.subgraphs()):
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                yield value.const_value
    for node in model.graph.all_nodes():
        for attribute in node.attributes.values():
            if isinstance(getattr(attribute, "value", None), ir.ExternalTensor):
                yield attribute.value


def _size(folder: Path, name: str) -> int:
    """Bytes of a data file.  It must be inside the folder: a downloaded model could name any file."""
    there = folder / PurePath(name)
    if not there.resolve().is_relative_to(folder.resolve()):
        raise ModelError(f"its weights are in {name}, which is outside the model's folder.")
    try:
        return there.stat().st_size
    except OSError as error:
        raise ModelError(
            f"its weights should be in {name}, which cannot be read: {error.strerror}."
        ) from error


# Facts


def read_fields(folder: Path) -> dict[str, Any]:
    """The fields of config.json, or those of genai_config.json under the same names.  Raises `ModelError`.

    For a folder named onnx without config.json, the one in the folder above counts.
    """
    places = [folder, folder.parent] if folder.name == SUBFOLDER else [folder]
    for place in places:
        if (place / CONFIG).is_file():
            return read_config(place / CONFIG)
        if (place / GENAI_CONFIG).is_file():
            return _genai_fields(place / GENAI_CONFIG)
    return read_config(folder / CONFIG)  # raises: it is needed


def _genai_fields(file: Path) -> dict[str, Any]:
    try:
        model = json.loads(file.read_text())["model"]
        fields = {name: value for name, value in model.items() if name != "decoder"}
        fields["max_position_embeddings"] = model["context_length"]
        fields["head_dim"] = model.get("decoder", {}).get("head_size")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} cannot be read, and there is no {CONFIG}: {error!r}") from error
    return fields


def _max_context(fields: Mapping[str, Any]) -> int:
    for name in CONTEXT_FIELDS:
        if isinstance(fields.get(name), int):
            return int(fields[name])
    raise ModelError(f"{CONFIG} names no context length; add one of {', '.join(CONTEXT_FIELDS)}.")


def _element_type(graph: ir.Graph) -> str:
    """The type of queries, keys and values, from the first of them that the export declares."""
    for node in graph:
        if (node.domain, node.op_type) == (DOMAIN, ATTENTION):
            for value in (*node.inputs, *node.outputs):
                if value is not None and value.dtype in ELEMENT_TYPES:
                    return ELEMENT_TYPES[value.dtype]
    raise ModelError("does not declare the type in which its attention is computed (no value_info).")
