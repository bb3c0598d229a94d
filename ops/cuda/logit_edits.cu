// Changes single logits and rows of logits.  References: ops/masking.py and ops/penalties.py.
// `at`: row * vocab + id, int64[count]; one thread each.

extern "C" __global__ void __launch_bounds__(256)
    add_bias(float* logits, const i64* at, const float* bias, i64 count) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) logits[at[i]] += bias[i];
}

extern "C" __global__ void __launch_bounds__(256) ban(float* logits, const i64* at, i64 count) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) logits[at[i]] = -INFINITE;
}

extern "C" __global__ void __launch_bounds__(256)
    penalise_repetition(float* logits, const i64* at, const float* penalty, i64 count) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float seen = logits[at[i]];
    logits[at[i]] = seen > 0.0f ? seen / penalty[i] : seen * penalty[i];
}

extern "C" __global__ void __launch_bounds__(256)
    penalise_presence_and_frequency(float* logits, const i64* at, const float* counts, const float* presence,
                                    const float* frequency, i64 count) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float less = logits[at[i]] - counts[i] * frequency[i];
    logits[at[i]] = less - (counts[i] > 0.0f ? presence[i] : 0.0f);
}

// saved[i] = logits[at[i]], and back.
extern "C" __global__ void __launch_bounds__(256)
    save_entries(const float* logits, const i64* at, float* saved, i64 count) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) saved[i] = logits[at[i]];
}

extern "C" __global__ void __launch_bounds__(256)
    restore_entries(float* logits, const i64* at, const float* saved, i64 count) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) logits[at[i]] = saved[i];
}

// One block per (row of `rows`, chunk), here and below.
extern "C" __global__ void __launch_bounds__(256)
    ban_rows(float* logits, int vocab, int chunks, const i64* rows) {
    Place place = place_of(blockIdx.x, chunks);
    float* row = logits + rows[place.row] * vocab;
    int end = chunk_end(place.part, vocab);
    for (int i = place.part * CHUNK + (int)threadIdx.x; i < end; i += blockDim.x) row[i] = -INFINITE;
}

extern "C" __global__ void __launch_bounds__(256)
    apply_bitmask(float* logits, int vocab, int chunks, const i64* rows, const u32* bits, int words) {
    Place place = place_of(blockIdx.x, chunks);
    float* row = logits + rows[place.row] * vocab;
    const u32* allowed = bits + place.row * words;
    int end = chunk_end(place.part, vocab);
    for (int i = place.part * CHUNK + (int)threadIdx.x; i < end; i += blockDim.x)
        if (!(allowed[i / 32] >> (i % 32) & 1u)) row[i] = -INFINITE;
}

extern "C" __global__ void __launch_bounds__(256)
    take_rows(const float* logits, int vocab, int chunks, const i64* rows, float* taken) {
    Place place = place_of(blockIdx.x, chunks);
    float* to = taken + place.row * vocab;
    for_each(logits + rows[place.row] * vocab, place.part * CHUNK, chunk_end(place.part, vocab),
             [&](int i, float value) { to[i] = value; });
}
