"""A GGUF file → a folder that Braid serves: model.onnx in Braid's form, tokenizer, template, settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pipelines.base.load_progress import doing
from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.embedder import embeds, write_embedder
from pipelines.gguf.encoder import write_encoder
from pipelines.gguf.encoder_facts import ENCODERS, BertFacts
from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import FLOAT_SUMS, INT8_SUMS
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.parts import all_parts
from pipelines.gguf.reader import GgufTensor, read_gguf
from pipelines.gguf.text_files import write_text_files
from pipelines.gguf.vision_inputs import VISION, VisionInputs
from pipelines.gguf.vocabulary import read_vocabulary
from pipelines.gguf.write_decoder import write_decoder
from pipelines.gguf.write_vision import check_fits, embeddings_of, write_image_files, write_vision
from pipelines.onnx_format.gguf_source import GgufSource

__all__ = ["FLOAT_SUMS", "INT8_SUMS", "IN_FILE", "convert"]
IN_FILE = None
"""The weights of linear layers of a decoder stay in the file, which may not change from then on; encoders
have weights of their own.
"""

Writer = Callable[[Metadata, Mapping[str, GgufTensor], Path, int], tuple[DecoderFacts | BertFacts, int]]
"""Writes a graph and its weights to a folder; returns what the model is and its vocabulary size."""


def convert(
    source: Path,
    folder: Path,
    accuracy_level: int | None = INT8_SUMS,
    projector: Path | None = None,
    vision_inputs: VisionInputs | None = None,
) -> None:
    """Write the model of the file `source` to `folder`, a new folder; `accuracy_level` as of `LinearLayers`.
    It reads images, with the vision model of the mmproj file `projector`, or as `vision_inputs` says.

    Weights keep their bits: none is quantized again.  Raises `GgufError`, which names the file, and OSError.
    """
    folder.mkdir(parents=True)
    level, vision = INT8_SUMS if accuracy_level is None else accuracy_level, folder / VISION
    with _naming(source):
        origin, file = GgufSource.of(all_parts(source)), read_gguf(source)
        metadata = Metadata(file.fields)
    if projector is not None:
        with _naming(projector):
            seen, vision_inputs = write_vision(read_gguf(projector), vision, level, embeddings_of(file))
    with _naming(source):
        write = _writer(metadata)
        facts: DecoderFacts | BertFacts
        if write is write_decoder:
            facts, embeddings = write_decoder(metadata, file.tensors, folder, accuracy_level, vision_inputs)
            if accuracy_level is IN_FILE:
                origin.write(folder)
        else:
            facts, embeddings = write(metadata, file.tensors, folder, level)
        write_text_files(metadata, facts, embeddings, folder)
    if projector is not None:
        with _naming(projector):
            check_fits(seen, facts)
            write_image_files(seen, read_vocabulary(metadata, embeddings), projector, vision)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """The body converts this file.  Raises `GgufError` that names it, where it is at fault."""
    try:
        with doing(f"converting {file.name}"):
            yield
    except GgufError as error:
        raise GgufError(f"{file.name} {_one_line(str(error))}") from error


def _writer(metadata: Metadata) -> Writer:
    """What writes the graph of a file."""
    if metadata.architecture in ENCODERS:
        return write_encoder
    return write_embedder if embeds(metadata) else write_decoder


def _one_line(text: str) -> str:
    """`text` for a log: names that a file holds may contain anything."""
    return "".join(each if each.isprintable() else "�" for each in text)
