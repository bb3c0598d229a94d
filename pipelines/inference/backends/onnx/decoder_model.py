"""A decoder in Braid's ONNX format, with the properties that its lowerings need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import onnx_ir as ir

from pipelines.onnx_format.decoder_format import AttentionLayer


class ReadsImages(NamedTuple):
    """How a decoder reads images: the numbers of a given row, 0 where it reads none; on how many axes its
    positions are; whether the tokens of an image attend to one another.
    """

    embeds_size: int = 0
    mrope_axes: int = 1
    whole_images: bool = False


READS_NONE = ReadsImages()


@dataclass
class DecoderModel:
    """`model` is in Braid's format; its external data is in `folder`.

    `layers[i]` is the node whose attribute `layer` is i.  `element_type` is that of queries, keys and values:
    "f32", "f16" or "bf16".  `encoder_hidden_size` is the length of the frames that it attends to, 0 for a
    decoder
    without them; `max_frames` is how many its encoder gives at most.  A lowering may change `model` in place,
    so a DecoderModel is lowered once.
    """

    model: ir.Model
    folder: Path
    layers: list[AttentionLayer]
    vocab_size: int
    max_context: int
    element_type: str
    encoder_hidden_size: int = 0
    max_frames: int = 0
    images: ReadsImages = READS_NONE
