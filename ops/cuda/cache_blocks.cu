// Copies whole blocks between pools on the device or in pinned host memory.
// Reference: ops/cache_blocks.py `copy_blocks`.

// One CUDA block per (pool, pair); pairs: (source, target).  No target of a launch is one of its sources.
extern "C" __global__ void __launch_bounds__(256)
    move_blocks(const u64* sources, const u64* targets, const i64* block_bytes, const int* pairs,
                int num_pairs) {
    Place place = place_of(blockIdx.x, num_pairs);
    i64 size = block_bytes[place.row];
    const char* from = (const char*)sources[place.row] + pairs[2 * place.part] * size;
    char* to = (char*)targets[place.row] + pairs[2 * place.part + 1] * size;
    if (((u64)from | (u64)to | (u64)size) % sizeof(uint4) == 0) {
        const uint4* wide = (const uint4*)from;
        uint4* wide_to = (uint4*)to;
        for (i64 i = threadIdx.x; i < size / (i64)sizeof(uint4); i += blockDim.x) wide_to[i] = wide[i];
    } else {
        for (i64 i = threadIdx.x; i < size; i += blockDim.x) to[i] = from[i];
    }
}
