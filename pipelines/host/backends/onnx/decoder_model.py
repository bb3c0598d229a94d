"""A decoder in Braid's ONNX form, with the facts that its lowerings need.

Knows the form; reads no file and knows no engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from pipelines.host.backends.onnx.decoder_format import AttentionLayer


@dataclass
class DecoderModel:
    """`model` is in the form; its external data lies in `folder`.

    `layers[i]` is the node whose attribute `layer` is i.  `element_type` is that of queries, keys and
    values: "f32", "f16" or "bf16".  A lowering changes `model` in place, so a Decoder is lowered once.
    """

    model: ir.Model
    folder: Path
    layers: list[AttentionLayer]
    vocab_size: int
    max_context: int
    element_type: str
