"""Names of a lowered decoder's inputs on ONNX Runtime, the same for every device.

    input_ids, position_ids int64[T] · logits_indices int64[N] · cumulative_sequence_length int32[B + 1]
    past_seqlens int32[B] · block_table int32[B, W], all blocks · slot_mapping int32[T], -1: not stored
    attention_metadata int32[3], on a GPU only and in host memory · key_cache.{i}, value_cache.{i}
    [num_blocks, block_tokens, num_kv_heads, head_size]

The names are those of contrib PagedAttention and of `decoder_format`.
"""

from __future__ import annotations

CUMULATIVE, PAST, TABLE, SLOTS = "cumulative_sequence_length", "past_seqlens", "block_table", "slot_mapping"
METADATA = "attention_metadata"
FRAME_TABLE, NUM_FRAMES, FRAME_SLOTS = "frame_table", "num_frames", "frame_slots"
"""Inputs of a decoder with cross-attention: int32[B, W'], int32[B], int32[C]; see `contracts.step`."""
IMAGE_ENDS = "image_ends"
"""Input of a decoder whose tokens of an image attend to one another, int64[T]: to which position of its
sequence each token attends, that of the last token of its image, or its own.
"""
STATE_STEPS, STATE_KERNELS = "state_steps", "state_kernels"
"""Inputs of a decoder with recurrent states on a GPU: int32[B, W], and int32[1] in host memory; see
`cuda.recurrent`.
"""
ADAPTER_ROWS, ROW_OWNERS, TOKEN_OWNERS = "adapters.rows", "adapters.row_owners", "adapters.token_owners"
"""Inputs of a decoder with adapters on a GPU: int32[R], int32[1, R], int32[T, 1]; see `lora_linears`."""


def state_name(number: int) -> str:
    """The input of the rows of a recurrent state."""
    return f"state.{number}"
