// Chooses one token per row: the likeliest, or a sampled one.
// References: ops/sampling.py `choose`, ops/random.py `uniforms`.
//
// A weight is exp((logit - peak) / temperature) as a float32, at most 1; weights are ordered by their bits.
// Sums are of masses, which are weights times 2**43 rounded down to integers: their sum is the same in any
// order, so a row's token depends neither on its batch nor on the scheduling of threads, and atomics may be
// used.  Rounding loses at most 2**-43 per id: 1e-7 of the total for the largest vocabulary, 2e-8
// for a common one.
//
// Kernels, in this order: find_peaks; where not all rows are greedy clear_bins and weigh_rows; pick_tokens.
// Reads per row: once each, and in pick_tokens two more for top_k, two for top_p, one for the remaining ids.

#define GREEDY -2   // slots: the row takes its likeliest id
#define NO_BINS -1  // ... is sampled without top_k and top_p; else the index of its bins
#define FRACTION_BITS 43
#define FIRST_LOW_BITS 19  // of a weight's 30 bits the first level resolves 11, the second 10, the third 9
#define SECOND_LOW_BITS 9
#define ONE_BITS 0x3F800000u

// numpy's argmax: NaN is above everything, and among equals the lowest id wins.
__device__ inline bool wins(float value, int id, float other, int other_id) {
    bool nan = value != value, other_nan = other != other;
    if (nan || other_nan) return nan && (!other_nan || id < other_id);
    return value > other || (value == other && id < other_id);
}

struct Best {
    float value;
    int id;
};

__device__ inline Best best_of_warp(Best best) {
    for (int by = WARP / 2; by > 0; by /= 2) {
        float value = __shfl_xor_sync(ALL_LANES, best.value, by);
        int id = __shfl_xor_sync(ALL_LANES, best.id, by);
        if (wins(value, id, best.value, best.id)) {
            best.value = value;
            best.id = id;
        }
    }
    return best;
}

__device__ inline Best best_of_chunks(const float* values, const int* ids, int chunks) {
    Best best = {values[0], ids[0]};
    for (int i = 1; i < chunks; i++)
        if (wins(values[i], ids[i], best.value, best.id)) {
            best.value = values[i];
            best.id = ids[i];
        }
    return best;
}

// The largest value and its id in each chunk: peak_values, peak_ids [num_rows, chunks].
extern "C" __global__ void __launch_bounds__(256)
    find_peaks(const float* logits, int vocab, int chunks, float* peak_values, int* peak_ids) {
    __shared__ float values[MAX_WARPS];
    __shared__ int ids[MAX_WARPS];
    Place place = place_of(blockIdx.x, chunks);
    Best best = {-INFINITE, NO_ID};
    for_each(logits + place.row * vocab, place.part * CHUNK, chunk_end(place.part, vocab),
             [&](int i, float value) {
                 if (wins(value, i, best.value, best.id)) {
                     best.value = value;
                     best.id = i;
                 }
             });
    best = best_of_warp(best);
    if (threadIdx.x % WARP == 0) {
        values[threadIdx.x / WARP] = best.value;
        ids[threadIdx.x / WARP] = best.id;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        best = best_of_chunks(values, ids, blockDim.x / WARP);
        peak_values[blockIdx.x] = best.value;
        peak_ids[blockIdx.x] = best.id;
    }
}

// The data from which a row's weights are computed.  A NaN weight counts as 0.
struct Row {
    const float* values;
    int vocab;
    float peak, temperature;

    __device__ u32 weight_bits(float value) const {
        float weight = 0.0f;
        if (is_finite(peak))
            weight = expf((value - peak) / temperature);
        else if (value == peak || value != value)
            weight = 1.0f;
        if (!(weight > 0.0f)) return 0;
        u32 bits = __float_as_uint(weight);
        return bits < ONE_BITS ? bits : ONE_BITS;
    }

    // A lower bound of the logits whose weight has at least these bits (margins cover rounding): it saves the
    // exponential of smaller logits.
    __device__ float at_least(u32 bits) const {
        if (bits < 0x00800000u || !is_finite(peak)) return -INFINITE;
        float bound = peak + temperature * (logf(__uint_as_float(bits)) - 1e-4f);
        return bound - fabsf(bound) * 1e-6f;
    }

    __device__ float at_most(u32 bits) const {
        if (bits >= ONE_BITS || !is_finite(peak)) return INFINITE;
        if (bits < 0x00800000u) bits = 0x00800000u;
        float bound = peak + temperature * (logf(__uint_as_float(bits)) + 1e-4f);
        return bound + fabsf(bound) * 1e-6f;
    }
};

// How far a mantissa is shifted left to be a mass; negative: right.
__device__ inline int mass_shift(u32 bits) { return (int)(bits >> 23) - (150 - FRACTION_BITS); }

__device__ inline u64 shifted(u64 mantissa, int shift) {
    if (shift >= 0) return mantissa << shift;
    return shift > -64 ? mantissa >> -shift : 0;
}

// Subnormal weights have none.
__device__ inline u64 mantissa_of(u32 bits) { return bits >> 23 ? (bits & 0x7FFFFFu) | 0x800000u : 0; }

__device__ inline u64 mass_of(u32 bits) { return shifted(mantissa_of(bits), mass_shift(bits)); }

// The mass of `count` weights that differ only in their lowest bits: exactly the sum of theirs.  `rests` is
// the sum of `rest_of`, in 32 bits, for which there are fast atomics in shared memory.  Proof for a right
// shift by s of mantissas B * 2**n + r, r < 2**n: nothing is carried from r, be s <= n (B * 2**n loses
// nothing) or s > n (r is lost whole, with what B loses).
__device__ inline u64 mass_of_bin(u32 first_bits, u32 count, u32 rests) {
    int shift = mass_shift(first_bits);
    u64 base = mantissa_of(first_bits);
    if (base == 0) return 0;
    return shift >= 0 ? (count * base + rests) << shift : count * shifted(base, shift) + rests;
}

__device__ inline u32 rest_of(u32 bits, int low_bits) {
    int right = -mass_shift(bits);
    u32 rest = bits & ((1u << low_bits) - 1);
    return right <= 0 ? rest : right < 32 ? rest >> right : 0;
}

// The least bits of a weight that min_p leaves; a weight of 0 never stays.
__device__ inline u32 least_bits(float min_p) {
    if (!(min_p > 0.0f)) return 1;
    u32 bits = __float_as_uint(min_p);
    return bits < ONE_BITS ? bits : ONE_BITS;
}

__device__ inline Row row_of(const float* logits, i64 row, int vocab, int chunks, const float* temperature,
                             const float* peak_values) {
    Row found = {logits + row * vocab, vocab, peak_values[row * chunks], temperature[row]};
    for (int i = 1; i < chunks; i++) {
        float value = peak_values[row * chunks + i];
        if (wins(value, 1, found.peak, 0)) found.peak = value;
    }
    return found;
}

extern "C" __global__ void __launch_bounds__(256) clear_bins(u32* counts, u64* masses, i64 count) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    counts[i] = 0;
    masses[i] = 0;
}

// The mass of each chunk [num_rows, chunks], and of each slot the weights by their first 11 bits [slots,
// MAX_BINS]: how many and their mass, without those that min_p drops.
extern "C" __global__ void __launch_bounds__(256)
    weigh_rows(const float* logits, int vocab, int chunks, const int* slots, const float* temperature,
               const float* min_p, const float* peak_values, u64* chunk_masses, u32* bin_counts,
               u64* bin_masses) {
    __shared__ u32 counts[MAX_BINS], rests[MAX_BINS];
    __shared__ u64 scratch[MAX_WARPS];
    Place place = place_of(blockIdx.x, chunks);
    int slot = slots[place.row];
    if (slot == GREEDY) return;
    Row row = row_of(logits, place.row, vocab, chunks, temperature, peak_values);
    u32 least = least_bits(min_p[place.row]);
    for (int i = threadIdx.x; i < MAX_BINS; i += blockDim.x) counts[i] = rests[i] = 0;
    __syncthreads();
    u64 mass = 0;
    for_each(row.values, place.part * CHUNK, chunk_end(place.part, vocab), [&](int, float value) {
        u32 bits = row.weight_bits(value);
        mass += mass_of(bits);
        if (slot >= 0 && bits >= least) {
            atomicAdd(&counts[bits >> FIRST_LOW_BITS], 1u);
            atomicAdd(&rests[bits >> FIRST_LOW_BITS], rest_of(bits, FIRST_LOW_BITS));  // 8192 * 2**19 fit
        }
    });
    mass = block_sum(mass, scratch);
    if (threadIdx.x == 0) chunk_masses[blockIdx.x] = mass;
    if (slot < 0) return;
    for (int i = threadIdx.x; i < MAX_BINS; i += blockDim.x)
        if (counts[i]) {
            i64 at = (i64)slot * MAX_BINS + i;
            atomicAdd(&bin_counts[at], counts[i]);
            atomicAdd(&bin_masses[at], mass_of_bin((u32)i << FIRST_LOW_BITS, counts[i], rests[i]));
        }
}

// The part of a row that stays: weights whose bits are above `bits`, and the first `ties` of those equal to it.
struct Remaining {
    u32 bits;
    u64 ties, mass;
};

struct Work {
    u32 *counts, *rests;  // [MAX_BINS / 2]
    Edge* edge;
    u64* scratch;
};

// The count and rests of weights that begin as `prefix`, by the next `num_bits` bits, above `low_bits`.
__device__ inline void count_bins(const Row& row, u32 prefix, int low_bits, int num_bits, Work work) {
    u32 num_bins = 1u << num_bits;
    for (u32 i = threadIdx.x; i < num_bins; i += blockDim.x) work.counts[i] = work.rests[i] = 0;
    __syncthreads();
    float low = row.at_least(prefix), high = row.at_most(prefix | ((num_bins << low_bits) - 1));
    for_each(row.values, 0, row.vocab, [&](int, float value) {
        if (value < low || value > high) return;
        u32 bits = row.weight_bits(value);
        if ((bits ^ prefix) >> (low_bits + num_bits)) return;
        u32 bin = (bits >> low_bits) & (num_bins - 1);
        atomicAdd(&work.counts[bin], 1u);
        if (low_bits) atomicAdd(&work.rests[bin], rest_of(bits, low_bits));  // 2**20 * 2**9 fit
    });
    __syncthreads();
}

// The shortest run of first ids whose count (or mass) reaches `wanted`; counts and masses: the thread's two
// bins of the first level.  The bins contain only what min_p leaves, so the run ends above what it drops.
__device__ inline Remaining shortest(const Row& row, u64 wanted, bool by_mass, const u64* counts,
                                const u64* masses, Work work) {
    Edge edge = locate(wanted, by_mass, counts, masses, work.edge, work.scratch);
    Remaining remaining = {(u32)edge.bin << FIRST_LOW_BITS, 0, edge.mass};
    wanted -= by_mass ? edge.mass : edge.count;
    int low_bits = SECOND_LOW_BITS, num_bits = FIRST_LOW_BITS - SECOND_LOW_BITS;
    for (int level = 0; level < 2; level++) {
        count_bins(row, remaining.bits, low_bits, num_bits, work);
        u64 count[2], mass[2];
        for (int j = 0; j < 2; j++) {
            int bin = MAX_BINS - 1 - 2 * (int)threadIdx.x - j;
            bool real = bin < 1 << num_bits;
            count[j] = real ? work.counts[bin] : 0;
            mass[j] =
                real ? mass_of_bin(remaining.bits | (u32)bin << low_bits, work.counts[bin], work.rests[bin]) : 0;
        }
        edge = locate(wanted, by_mass, count, mass, work.edge, work.scratch);
        remaining.bits |= (u32)edge.bin << low_bits;
        remaining.mass += edge.mass;
        wanted -= by_mass ? edge.mass : edge.count;
        num_bits = low_bits;
        low_bits = 0;
    }
    u64 each = mass_of(remaining.bits);
    remaining.ties = by_mass ? (wanted + each - 1) / each : wanted;
    remaining.mass += remaining.ties * each;
    return remaining;
}

// Applies min_p, then top_k, then top_p to the remaining ids.
__device__ inline Remaining narrow(const Row& row, u32 least, u64 top_k, float top_p, const u32* bin_counts,
                              const u64* bin_masses, Work work) {
    u64 counts[2], masses[2];
    for (int j = 0; j < 2; j++) {
        int bin = MAX_BINS - 1 - 2 * (int)threadIdx.x - j;
        counts[j] = bin_counts[bin];
        masses[j] = bin_masses[bin];
    }
    Remaining remaining = {least - 1, 0, block_sum(masses[0] + masses[1], work.scratch)};
    u64 possible = block_sum(counts[0] + counts[1], work.scratch);
    if (top_k < possible) remaining = shortest(row, top_k, false, counts, masses, work);
    if (top_p < 1.0f) {
        u64 wanted = (u64)ceil((double)top_p * (double)remaining.mass);
        wanted = wanted < 1 ? 1 : wanted > remaining.mass ? remaining.mass : wanted;
        remaining = shortest(row, wanted, true, counts, masses, work);
    }
    return remaining;
}

// For each chunk the mass above the remaining bits, and the number of weights equal to them.
__device__ inline void weigh_remaining(const Row& row, int chunks, const Remaining& remaining, u64* above, u32* ties) {
    for (int i = threadIdx.x; i < chunks; i += blockDim.x) {
        above[i] = 0;
        ties[i] = 0;
    }
    __syncthreads();
    float low = row.at_least(remaining.bits);
    for (int chunk = 0; chunk < chunks; chunk++) {
        u64 mass = 0;
        u32 equal = 0;
        for_each(row.values, chunk * CHUNK, chunk_end(chunk, row.vocab), [&](int, float value) {
            if (value < low) return;
            u32 bits = row.weight_bits(value);
            if (bits > remaining.bits) mass += mass_of(bits);
            if (bits == remaining.bits) equal++;
        });
        mass = warp_sum(mass);
        equal = warp_sum(equal);
        if (threadIdx.x % WARP == 0 && (mass || equal)) {
            atomicAdd(&above[chunk], mass);
            atomicAdd(&ties[chunk], equal);
        }
    }
    __syncthreads();
}

// The place of the sampled id in a row: its chunk, and the part of the mass and of the ties left in that chunk.
struct Target {
    int chunk;
    u64 mass, ties;
};

__device__ inline Target find_chunk(int chunks, const Remaining& remaining, const u64* above, const u32* ties,
                                    double share) {
    u64 each = mass_of(remaining.bits), total = 0, left = remaining.ties;
    for (int i = 0; i < chunks; i++) {
        u64 some = ties[i] < left ? ties[i] : left;
        total += above[i] + some * each;
        left -= some;
    }
    Target target = {0, (u64)(share * (double)total), remaining.ties};
    for (; target.chunk < chunks - 1; target.chunk++) {
        u64 some = ties[target.chunk] < target.ties ? ties[target.chunk] : target.ties;
        u64 mass = above[target.chunk] + some * each;
        if (mass > target.mass) break;
        target.mass -= mass;
        target.ties -= some;
    }
    return target;
}

// The first id of the chunk at which the mass of the remaining ids exceeds the target's; one thread writes it.
// A block of CHUNK / UNROLL threads.
__device__ inline void find_id(const Row& row, const Remaining& remaining, const Target& target, u64* scratch,
                               i64* token) {
    int first = target.chunk * CHUNK + (int)threadIdx.x * UNROLL;
    u32 bits[UNROLL];
    u64 equal = 0, mass = 0;
    for (int j = 0; j < UNROLL; j++) {
        bits[j] = first + j < row.vocab ? row.weight_bits(row.values[first + j]) : 0;
        if (bits[j] == remaining.bits) equal++;
    }
    u64 place = block_sum_before(equal, scratch);
    for (int j = 0; j < UNROLL; j++) {
        bool stays = bits[j] > remaining.bits || (bits[j] == remaining.bits && place++ < target.ties);
        if (!stays) bits[j] = 0;
        mass += mass_of(bits[j]);
    }
    u64 before = block_sum_before(mass, scratch);
    if (before > target.mass || target.mass >= before + mass) return;
    for (int j = 0; j < UNROLL; j++) {
        before += mass_of(bits[j]);
        if (before > target.mass) {
            *token = first + j;
            return;
        }
    }
}

// Philox4x32-10 of a key and a counter: the middle of the step that a 24-bit uniform number means.
__device__ inline double uniform_share(u64 key, u64 counter) {
    u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0, k0 = (u32)key, k1 = (u32)(key >> 32);
    for (int round = 0; round < 10; round++) {
        u64 left = (u64)0xD2511F53u * c0, right = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(right >> 32) ^ c1 ^ k0;
        c1 = (u32)right;
        c2 = (u32)(left >> 32) ^ c3 ^ k1;
        c3 = (u32)left;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return ((double)(c0 >> 8) + 0.5) / 16777216.0;
}

// One block per row; threads diverge only in the last function.
extern "C" __global__ void __launch_bounds__(1024)
    pick_tokens(const float* logits, int vocab, int chunks, const int* slots, const float* temperature,
                const float* min_p, const int* top_k, const float* top_p, const u64* keys,
                const u64* counters, const float* peak_values, const int* peak_ids, const u64* chunk_masses,
                const u32* bin_counts, const u64* bin_masses, i64* tokens) {
    __shared__ u32 counts[MAX_BINS / 2], rests[MAX_BINS / 2], ties[MAX_CHUNKS];
    __shared__ u64 scratch[MAX_WARPS], above[MAX_CHUNKS];
    __shared__ Edge edge;
    i64 at = blockIdx.x;
    int slot = slots[at];
    // The likeliest, in case nothing can be sampled; overwritten after a barrier.
    if (threadIdx.x == 0)
        tokens[at] = best_of_chunks(peak_values + at * chunks, peak_ids + at * chunks, chunks).id;
    if (slot == GREEDY) return;
    Row row = row_of(logits, at, vocab, chunks, temperature, peak_values);
    u32 least = least_bits(min_p[at]);
    Remaining remaining = {least - 1, 0, 0};
    Work work = {counts, rests, &edge, scratch};
    if (slot >= 0) {
        i64 bins = (i64)slot * MAX_BINS;
        u64 most = top_k[at] > 0 ? top_k[at] : 1;
        remaining = narrow(row, least, most, top_p[at], bin_counts + bins, bin_masses + bins, work);
    }
    if (remaining.bits == 0) {
        for (int i = threadIdx.x; i < chunks; i += blockDim.x) {
            above[i] = chunk_masses[at * chunks + i];
            ties[i] = 0;
        }
        __syncthreads();
    } else {
        weigh_remaining(row, chunks, remaining, above, ties);
    }
    Target target = find_chunk(chunks, remaining, above, ties, uniform_share(keys[at], counters[at]));
    find_id(row, remaining, target, scratch, tokens + at);
}

// The likeliest id of each row; one thread each.
extern "C" __global__ void __launch_bounds__(256)
    take_peaks(const float* peak_values, const int* peak_ids, int chunks, int num_rows, i64* tokens) {
    i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < num_rows)
        tokens[row] = best_of_chunks(peak_values + row * chunks, peak_ids + row * chunks, chunks).id;
}
