"""Writes the decoder of a GGUF file in Braid's ONNX format, by the writer of its form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipelines.gguf.decoder import Decoder
from pipelines.gguf.decoder_facts import DecoderFacts, read_facts
from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import GgufTensor
from pipelines.gguf.streams_decoder import StreamsDecoder
from pipelines.gguf.vision_inputs import VisionInputs
from pipelines.onnx_format.onnx_writer import OnnxWriter


def write_decoder(
    metadata: Metadata,
    tensors: Mapping[str, GgufTensor],
    folder: Path,
    accuracy_level: int | None,
    vision_inputs: VisionInputs | None = None,
) -> tuple[DecoderFacts, int]:
    """Write model.onnx and its data to `folder`; return what the decoder is and its vocabulary size.  With
    `vision_inputs`, it reads images.

    Raises `GgufError`, also for tensors and metadata that the graph would leave out.
    """
    facts = read_facts(metadata)
    if not facts.kind.is_causal:
        raise GgufError(f"is of architecture {facts.name}, which embeds texts, and has no pooling_type")
    kind = StreamsDecoder if facts.streams else Decoder
    with OnnxWriter(folder) as writer:
        linears = LinearLayers(writer, tensors, accuracy_level)
        vocabulary = kind(facts, metadata, linears, writer, vision_inputs).write()
        linears.write_weights()
    return facts, vocabulary
