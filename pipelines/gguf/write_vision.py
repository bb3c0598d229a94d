"""An mmproj file → a folder with its vision model in ONNX, and files that say how images are read."""

from __future__ import annotations

import json
from pathlib import Path

from pipelines.gguf.decoder import EMBEDDING
from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.encoder_facts import BertFacts
from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.patch_graph import EmbeddingOf, PatchGraph
from pipelines.gguf.pixel_graph import PixelGraph
from pipelines.gguf.reader import GgufFile
from pipelines.gguf.tensor_types import Floats
from pipelines.gguf.vision_facts import CLIP, OF_SOUND, SEES, UNREAD, VisionFacts, read_vision
from pipelines.gguf.vision_files import config_of
from pipelines.gguf.vision_inputs import VisionInputs
from pipelines.gguf.vocabulary import GgufVocabulary
from pipelines.gguf.weights import read_any
from pipelines.onnx_format.onnx_writer import OnnxWriter
from pipelines.onnx_format.patch_inputs import FILE, PIXEL_FILE

PARTS = ("v.", "mm.", "model.")
"""What the names of tensors of a vision model begin with."""
SOUND = "mm.a."
"""What those begin with that project what an encoder of sound gives, which is left out."""


def no_embedding(token: str) -> Floats:
    """The embedding of a token where there is no decoder.  Raises `GgufError`."""
    raise GgufError(f"is for a model with a token {token}")


def write_vision(
    file: GgufFile, folder: Path, accuracy_level: int, embedding_of: EmbeddingOf = no_embedding
) -> tuple[VisionFacts, VisionInputs]:
    """Write the graph of an mmproj file to `folder`, a new folder; return what it is, and how a decoder reads
    what it gives.  `embedding_of` knows the decoder's tokens.  Raises `GgufError`, also for tensors and
    metadata that the graph would leave out.
    """
    metadata = Metadata(file.fields)
    if metadata.architecture != CLIP:
        raise GgufError(f"is of architecture {metadata.architecture or '(none)'}, not {CLIP}: no mmproj file")
    facts = read_vision(metadata, file.tensors)
    metadata.flag(SEES)
    folder.mkdir()
    name = FILE if facts.kind.has_grids else PIXEL_FILE
    with OnnxWriter(folder, Path(name).stem) as writer:
        linears = LinearLayers(writer, file.tensors, accuracy_level)
        graph: PatchGraph | PixelGraph
        if facts.kind.has_grids:
            graph = PatchGraph(facts, linears, writer, embedding_of)
        else:
            graph = PixelGraph(facts, linears, writer)
        graph.write()
        metadata.refuse_unread(UNREAD | {key for key in file.fields if key.startswith(OF_SOUND)})
        unused = sorted(name for name in linears.unused() if name.startswith(PARTS))
        if unused := [name for name in unused if not name.startswith(SOUND)]:
            raise GgufError(f"has {', '.join(unused[:5])}, which is not served for {facts.name}")
        linears.write_weights()
    vision_inputs = VisionInputs(graph.num_deep, facts.kind.whole_images)
    vision_inputs.write(folder)
    return facts, vision_inputs


def embeddings_of(decoder: GgufFile) -> EmbeddingOf:
    """The embeddings of a decoder's tokens."""

    def embedding_of(token: str) -> Floats:
        table = decoder.tensors.get(EMBEDDING)
        tokens = Metadata(decoder.fields).texts("tokenizer.ggml.tokens")
        if table is None or token not in tokens[: table.rows]:
            raise GgufError(f"is for a model with a token {token}; the file beside it has no embedding of it")
        at = tokens.index(token)
        row: Floats = read_any(table, slice(at, at + 1))[0]
        return row

    return embedding_of


def check_fits(facts: VisionFacts, decoder: DecoderFacts | BertFacts) -> None:
    """Raise `GgufError` unless images of a vision model are read by this decoder."""
    if not isinstance(decoder, DecoderFacts):
        raise GgufError(f"is for images, which {decoder.name} does not read")
    if facts.size != decoder.width:
        raise GgufError(
            f"gives embeddings of {facts.size} numbers, and those of the model beside it have {decoder.width}"
        )
    whole = VisionInputs(whole_images=facts.kind.whole_images).layers_of(decoder.layer_size)
    if whole and -1 < decoder.window < facts.tokens:
        raise GgufError(
            f"makes {facts.tokens} tokens of an image, which attend to one another; layers of the model "
            f"beside it attend to {decoder.window}"
        )
    if facts.kind.has_axes != (decoder.kind.axes is not None):
        raise GgufError(f"has a projector of type {facts.name}, which is not that of {decoder.name}")


def write_image_files(facts: VisionFacts, vocabulary: GgufVocabulary, projector: Path, folder: Path) -> None:
    """Write config.json, which names the mmproj file, and preprocessor_config.json.  Raises `GgufError`."""
    numbers = vocabulary.numbers()

    def id_of(token: str) -> int:
        if token not in numbers:
            raise GgufError(f"has no token {token}, which stands for an image with {facts.name}")
        return numbers[token]

    config, pixels = config_of(facts, id_of)
    config |= {"mmproj": f"{projector.name} ({facts.name})"}
    for name, fields in (("config.json", config), ("preprocessor_config.json", pixels)):
        (folder / name).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
