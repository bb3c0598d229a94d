// Builds the inputs of a model call from one packed copy of a step.  Reference: ops/cache_blocks.py `slot_mapping`.

// The sequence that owns a token: the last one that starts at or before it.
__device__ inline int owner_of(i64 token, const int* starts, int num_seqs) {
    int low = 0, high = num_seqs - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (starts[middle] <= token)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// One thread per number.  After the step's own sequences come padding sequences: one new token 0 each, no past,
// a table of scratch blocks, nothing stored (slot -1).  No output has more entries than the table.
extern "C" __global__ void __launch_bounds__(256)
    build_step_inputs(const i64* token_ids, const i64* positions, const i64* logit_indices, const int* starts,
              const int* num_past, const int* num_blocks, const int* table, int num_tokens, int num_seqs,
              int num_logits, int columns, int padded_tokens, int padded_seqs, int padded_logits,
              int padded_columns, int block_tokens, int scratch_block, i64 total, i64* input_ids,
              i64* position_ids, int* cumulative, int* past, int* block_table, int* slots,
              i64* logits_indices) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    if (i < padded_tokens) {
        bool real = i < num_tokens;
        i64 position = real ? positions[i] : 0;
        input_ids[i] = real ? token_ids[i] : 0;
        position_ids[i] = position;
        int slot = -1;
        if (real) {
            i64 column = position / block_tokens;
            int row = owner_of(i, starts, num_seqs);
            if (column < columns && column < num_blocks[row])
                slot = table[(i64)row * columns + column] * block_tokens + (int)(position % block_tokens);
        }
        slots[i] = slot;
    }
    if (i <= padded_seqs) cumulative[i] = i <= num_seqs ? starts[i] : starts[num_seqs] + (int)(i - num_seqs);
    if (i < padded_seqs) past[i] = i < num_seqs ? num_past[i] : 0;
    if (i < padded_logits) logits_indices[i] = i < num_logits ? logit_indices[i] : 0;
    if (i < (i64)padded_seqs * padded_columns) {
        i64 row = i / padded_columns;
        int column = (int)(i - row * padded_columns);
        bool real = row < num_seqs && column < columns && column < num_blocks[row];
        block_table[i] = real ? table[row * columns + column] : scratch_block;
    }
}
