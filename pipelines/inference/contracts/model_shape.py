"""What engines, caches and checks know of a loaded decoder: its numbers, as one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers that a decoder's files and its cache fix.

    They are known once the model is loaded, never change, and stay after it is closed.
    """

    vocab_size: int
    """Tokens: the columns of the logits."""
    max_context: int
    """Tokens of a sequence, output included, as config.json says."""
    block_tokens: int
    """Tokens in a block of the cache."""
    block_bytes: int = 0
    """Bytes of one block over all layers: keys, values and quantization scales together, as read from the
    compiled model.
    """
    state_bytes: int = 0
    """Bytes of the recurrent state of one sequence over all layers; 0 for a model of attention alone."""
    encoder_hidden_size: int = 0
    """Numbers of each hidden state of the encoder that the decoder attends to (cross-attention); 0 for a
    decoder without an encoder.
    """
    max_encoder_states: int = 0
    """Most hidden states that the encoder gives for one input, as config.json says."""
    inputs_embeds_size: int = 0
    """Numbers of each embedding that the decoder reads in place of an image's token; 0 for a decoder that
    reads token ids alone.
    """
    mrope_axes: int = 1
    """Numbers of each token's position: 1, or 3 with M-RoPE (time, row, column)."""
    whole_images: bool = False
    """Whether the tokens of an image attend to each other, so that a step computes all of them or none."""
