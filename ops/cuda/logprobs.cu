// Log-probabilities of chosen tokens and of the likeliest.  Reference: ops/logprobs.py `gather_logprobs`.

#define MAX_TOP 64
#define ID_BITS 20
#define LAST_ID ((1u << ID_BITS) - 1)

// One number per (value, id), larger for earlier entries of the list: by value, NaN last, then the lowest id.
__device__ inline u64 list_key(float value, int id) {
    u32 bits = __float_as_uint(value == 0.0f ? 0.0f : value);
    u32 order = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (u64)(value != value ? 0 : order) << ID_BITS | (LAST_ID - (u32)id);
}

// The result of the first pass over a row.  `floor`: at least MAX_TOP values (or all of fewer) reach it.
struct Peaks {
    float peak, floor;
};

// A block of 1024 threads: the values are divided into MAX_TOP groups, and each group has its largest one.
__device__ inline Peaks find_extremes(const float* values, int vocab, float* groups, u32* nans) {
    if (threadIdx.x == 0) *nans = 0;
    __syncthreads();
    float largest = -INFINITE;
    u32 odd = 0;
    for_each(values, 0, vocab, [&](int, float value) {
        if (value > largest) largest = value;
        if (value != value) odd = 1;
    });
    for (int by = WARP / 4; by > 0; by /= 2) {
        float other = __shfl_xor_sync(ALL_LANES, largest, by);
        if (other > largest) largest = other;
    }
    if (odd) atomicMax(nans, 1u);
    if (threadIdx.x % (WARP / 2) == 0) groups[threadIdx.x / (WARP / 2)] = largest;
    __syncthreads();
    Peaks found = {groups[0], groups[0]};
    for (int i = 1; i < MAX_TOP; i++) {
        if (groups[i] > found.peak) found.peak = groups[i];
        if (groups[i] < found.floor) found.floor = groups[i];
    }
    if (*nans) found.peak = __uint_as_float(0x7FC00000u);
    __syncthreads();
    return found;
}

// The key of the k-th of the list; k <= vocab.
__device__ inline u64 find_last_key(const float* values, int vocab, float floor, u64 k, u32* counts,
                                    Edge* edge, u64* scratch) {
    u64 prefix = 0;
    int low_bits = 32 + ID_BITS;
    while (low_bits > 0) {
        int num_bits = low_bits > 30 ? 11 : 10;  // 11 + 11 + 10 of the value, 10 + 10 of the id
        int above = low_bits;
        low_bits -= num_bits;
        for (int i = threadIdx.x; i < MAX_BINS; i += blockDim.x) counts[i] = 0;
        __syncthreads();
        for_each(values, 0, vocab, [&](int i, float value) {
            if (value < floor) return;
            u64 key = list_key(value, i);
            if ((key ^ prefix) >> above) return;
            atomicAdd(&counts[(key >> low_bits) & ((1u << num_bits) - 1)], 1u);
        });
        __syncthreads();
        int bin = MAX_BINS - 1 - 2 * (int)threadIdx.x;
        u64 count[2] = {counts[bin], counts[bin - 1]}, none[2] = {0, 0};
        Edge found = locate(k, false, count, none, edge, scratch);
        k -= found.count;
        prefix |= (u64)found.bin << low_bits;
        if (counts[found.bin] == k) break;  // the whole bin: the rest of its keys does not matter
        __syncthreads();
    }
    __syncthreads();
    return prefix;
}

__device__ inline float logprob(float value, float peak, float scale) {
    return is_finite(peak) ? value - scale : -INFINITE;
}

// One block per row of `rows`; chosen, ranks [num], top_ids, top [num, k], k <= MAX_TOP, k <= vocab.
extern "C" __global__ void __launch_bounds__(1024)
    gather_logprobs(const float* logits, int vocab, const i64* rows, const i64* tokens, int k, float* chosen,
                    i64* ranks, i64* top_ids, float* top) {
    __shared__ float groups[MAX_TOP];
    __shared__ double sums[MAX_WARPS];
    __shared__ u64 scratch[MAX_WARPS], list[MAX_TOP];
    __shared__ u32 counts[MAX_BINS], number;
    __shared__ Edge edge;
    i64 at = blockIdx.x;
    const float* values = logits + rows[at] * vocab;
    int token = (int)tokens[at];
    float value = values[token];
    Peaks peaks = find_extremes(values, vocab, groups, &number);
    double sum = 0;
    u64 before = 0;
    for_each(values, 0, vocab, [&](int i, float other) {
        sum += expf(other - peaks.peak);
        if (other > value || (other == value && i < token)) before++;
    });
    sum = block_sum(sum, sums);
    before = block_sum(before, scratch);
    float scale = peaks.peak + (float)log(sum);
    if (threadIdx.x == 0) {
        chosen[at] = logprob(value, peaks.peak, scale);
        ranks[at] = (i64)before + 1;
        number = 0;
    }
    if (k == 0) return;
    u64 last = find_last_key(values, vocab, peaks.floor, k, counts, &edge, scratch);
    for_each(values, 0, vocab, [&](int i, float other) {
        if (other < peaks.floor) return;
        u64 key = list_key(other, i);
        if (key >= last) list[atomicAdd(&number, 1u) % MAX_TOP] = key;
    });
    __syncthreads();
    if ((int)threadIdx.x >= k) return;
    int place = 0;
    for (int i = 0; i < k; i++) place += list[i] > list[threadIdx.x];
    int id = (int)(LAST_ID - (list[threadIdx.x] & LAST_ID));
    top_ids[at * k + place] = id;
    top[at * k + place] = logprob(values[id], peaks.peak, scale);
}
