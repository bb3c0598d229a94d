"""The node of a layer's routed experts in Braid's ONNX format, beside attention the only abstract one.

The router before it is plain ONNX, and so are experts that every token uses: engines do not differ there.

    node      mixed[1, num_tokens, width] = braid::Experts(
                  hidden_states[1, num_tokens, width],
                  chosen int64[1, num_tokens, used], weights[1, num_tokens, used],
                  up, up_scales, up_zeros, up_bias, down, down_scales, down_zeros, down_bias,
                  gate, gate_scales, gate_zeros, gate_bias)

mixed[t] = Σ_j weights[t, j] · down_e(activation(gate_e(x), up_e(x))),  x = hidden_states[t], e = chosen[t, j]

where up_e(x) = up[e] · x + up_bias[e], and gate_e and down_e alike.  An expert that is chosen twice counts
twice; weights may be any numbers, 0 and negative ones too; chosen is in [0, experts).  hidden_states, weights
and mixed are of one type: float32, float16 or bfloat16.

All inputs from `up` on are initializers, and those that are absent are empty or left out at the end.  `rows`
is inner for up and gate, and width for down:

    up, gate, down   uint8[experts, rows, blocks, block · bits / 8], MatMulNBits' B with one axis before; or
                     floats[experts, rows, columns], with bits 0 and without scales and zeros
    *_scales         float32 or float16[experts, rows, blocks]
    *_zeros          a weight is (code - zero) · scale; absent: 2^(bits - 1); float32[experts, rows, blocks];
                     or uint8[experts, rows, ⌈blocks · bits / 8⌉], codes packed as MatMulNBits has them
    *_bias           float32[experts, rows], or absent
    gate             absent: a network without gate, activation(up_e(x))

The weights of a layer's experts may all stay in a GGUF file, as those of linear layers (`decoder_format.py`):

    node      mixed[1, num_tokens, width] = braid::GgufExperts(
                  hidden_states, chosen, weights, up_bias, down_bias, gate_bias)

Biases are float32[experts, rows], and scalars where they are absent.

    silu       gate · sigmoid(gate) · up                 relu2      max(gate, 0)² · up
    gelu       gelu(gate) · up, by erf                   gelu_tanh  gelu(gate) · up, by tanh
    clamped    g · sigmoid(alpha · g) · (clamp(up, -limit, limit) + 1),  g = min(gate, limit)
"""

from __future__ import annotations

EXPERTS, GGUF_EXPERTS = "Experts", "GgufExperts"
HIDDEN_STATES, CHOSEN, WEIGHTS = 0, 1, 2
"""Places of the first inputs."""
NETWORK = ("up", "down", "gate")
PARTS = ("", "_scales", "_zeros", "_bias")
"""Suffixes of the inputs of one weight."""
INPUTS = ("hidden_states", "chosen", "weights", *(f"{name}{part}" for name in NETWORK for part in PARTS))
SIZES = tuple(f"{name}_{size}" for name in NETWORK for size in ("bits", "block"))
"""Attributes: the bits of a weight's codes, 2, 4 or 8, and how many weights share a scale; 0 for floats."""
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu2", "clamped")
TABLES = ("linear", "e2m1")
"""What a code of four bits stands for: itself, or a number with an exponent of two bits (MXFP4), without
zeros.  Codes of other bits stand for themselves.
"""
EXPERT_ATTRIBUTES = ("layer", "activation", "table", *SIZES)
"""Attributes of every node of experts.  `layer` is the number of its layer, which rises from node to node."""
GGUF_PLACE = ("type", "K", "file", "runs")
"""Attributes of a weight of GgufExperts behind its name, as `gate_type`, with the meaning that they have for
GgufLinear; those of an absent gate are left out.  The rows of an expert are behind those of the one before.
Others: `experts`, how many there are, `layer`, `activation`, `alpha` and `limit`.
"""
OPTIONAL_ATTRIBUTES = ("alpha", "limit", "accuracy_level")
"""`alpha`, `limit`: floats of the clamped activation.  `accuracy_level` is MatMulNBits': 4 lets an engine
round activations; 0, the default, does not.
"""
