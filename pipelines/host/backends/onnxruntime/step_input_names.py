"""What a lowered decoder reads of a step, by name: the packed step over ONNX Runtime, on every device.

    input_ids, position_ids int64[T] · logits_indices int64[N] · cumulative_sequence_length int32[B + 1]
    past_seqlens int32[B] · block_table int32[B, W], all blocks · slot_mapping int32[T], -1: not stored
    attention_metadata int32[3], on a GPU alone and in host memory · key_cache.{i}, value_cache.{i}
    [num_blocks, block_tokens, num_kv_heads, head_size]

The names are those of contrib PagedAttention and of `form`.  Knows names alone.
"""

from __future__ import annotations

CUMULATIVE, PAST, TABLE, SLOTS = "cumulative_sequence_length", "past_seqlens", "block_table", "slot_mapping"
METADATA = "attention_metadata"
