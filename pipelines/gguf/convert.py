"""A GGUF file → a folder that Braid serves: model.onnx in Braid's form, tokenizer, template, settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pipelines.gguf.architectures import DecoderFacts
from pipelines.gguf.decoder import write_decoder
from pipelines.gguf.embedder import embeds, write_embedder
from pipelines.gguf.encoder import ENCODERS, BertFacts, write_encoder
from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import GgufTensor, read_gguf
from pipelines.gguf.text_files import write_text_files

INT8_SUMS, FLOAT_SUMS = 4, 0
"""accuracy_level of MatMulNBits: ONNX Runtime may round activations to int8, or computes in float32."""

Writer = Callable[[Metadata, Mapping[str, GgufTensor], Path, int], tuple[DecoderFacts | BertFacts, int]]
"""Writes a graph and its weights to a folder; returns what the model is and its vocabulary size."""


def convert(source: Path, folder: Path, accuracy_level: int = INT8_SUMS) -> None:
    """Write the model of the file `source` to `folder`, a new folder.

    Weights keep their bits: none is quantized again.  Raises `GgufError`, which names the file, and OSError.
    """
    folder.mkdir(parents=True)
    try:
        file = read_gguf(source)
        metadata = Metadata(file.fields)
        facts, embeddings = _writer(metadata)(metadata, file.tensors, folder, accuracy_level)
        write_text_files(metadata, facts, embeddings, folder)
    except GgufError as error:
        raise GgufError(f"{source.name} {_one_line(str(error))}") from error


def _writer(metadata: Metadata) -> Writer:
    """What writes the graph of a file."""
    if metadata.architecture in ENCODERS:
        return write_encoder
    return write_embedder if embeds(metadata) else write_decoder


def _one_line(text: str) -> str:
    """`text` for a log: names that a file holds may contain anything."""
    return "".join(each if each.isprintable() else "�" for each in text)
