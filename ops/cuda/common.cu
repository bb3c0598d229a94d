// Shared by all kernels: types, comparisons, sums and scans over a block.  Needs no headers of CUDA.
// Every block has a multiple of 32 threads; functions that take `scratch` are called by all of its threads.
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

#define ALL_LANES 0xFFFFFFFFu
#define WARP 32
#define MAX_WARPS 32
#define UNROLL 8    // loads in flight per thread
#define CHUNK 8192  // values of a row in one unit of work; the place of a sum does not depend on the batch
#define MAX_CHUNKS 128  // so that a vocabulary has at most 2**20 ids
#define MAX_BINS 2048
#define INFINITE __uint_as_float(0x7F800000u)
#define NO_ID 0x7FFFFFFF

// Row-major places of a grid of (row, part) that is launched in one dimension.
struct Place {
    i64 row;
    int part;
};

__device__ inline Place place_of(i64 block, int parts) {
    Place place;
    place.row = block / parts;
    place.part = (int)(block - place.row * parts);
    return place;
}

__device__ inline int chunk_end(int chunk, int vocab) {
    int end = (chunk + 1) * CHUNK;
    return end < vocab ? end : vocab;
}

__device__ inline bool is_finite(float value) {
    return (__float_as_uint(value) & 0x7F800000u) != 0x7F800000u;
}

// Calls visit(i, values[i]) for first <= i < end, spread over the block; in rising order for each thread.
template <class Visit>
__device__ inline void for_each(const float* values, int first, int end, Visit visit) {
    int stride = (int)blockDim.x;
    for (int start = first + (int)threadIdx.x; start < end; start += UNROLL * stride) {
        float loaded[UNROLL];
#pragma unroll
        for (int j = 0; j < UNROLL; j++)
            loaded[j] = start + j * stride < end ? values[start + j * stride] : 0.0f;
#pragma unroll
        for (int j = 0; j < UNROLL; j++)
            if (start + j * stride < end) visit(start + j * stride, loaded[j]);
    }
}

template <class T>
__device__ inline T warp_sum(T value) {
    for (int by = WARP / 2; by > 0; by /= 2) value += __shfl_xor_sync(ALL_LANES, value, by);
    return value;
}

// The sum over the block, for every thread, always added in the same order.
template <class T>
__device__ inline T block_sum(T value, T* scratch) {
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
    __syncthreads();
    T total = 0;
    for (int warp = 0; warp < (int)(blockDim.x / WARP); warp++) total += scratch[warp];
    __syncthreads();
    return total;
}

// The sum of the values of all threads before this one.
__device__ inline u64 block_sum_before(u64 value, u64* scratch) {
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u64 sum = value;
    for (int by = 1; by < WARP; by *= 2) {
        u64 other = __shfl_up_sync(ALL_LANES, sum, by);
        if (lane >= by) sum += other;
    }
    if (lane == WARP - 1) scratch[warp] = sum;
    __syncthreads();
    u64 before = 0;
    for (int i = 0; i < warp; i++) before += scratch[i];
    __syncthreads();
    return before + sum - value;
}

// A bin, and the count and mass of the bins above it.
struct Edge {
    int bin;
    u64 count, mass;
};

// From the highest of MAX_BINS bins down, the one in which the count (or the mass) reaches `wanted`, which is
// at least 1 and at most the total.  A block of 1024 threads: thread t passes the content of bins 2047 - 2t and
// 2046 - 2t.
__device__ inline Edge locate(u64 wanted, bool by_mass, const u64* count, const u64* mass, Edge* shared,
                              u64* scratch) {
    u64 counted = block_sum_before(count[0] + count[1], scratch);
    u64 weighed = block_sum_before(mass[0] + mass[1], scratch);
    for (int j = 0; j < 2; j++) {
        u64 before = by_mass ? weighed : counted, here = by_mass ? mass[j] : count[j];
        if (before < wanted && wanted <= before + here) {
            shared->bin = MAX_BINS - 1 - 2 * (int)threadIdx.x - j;
            shared->count = counted;
            shared->mass = weighed;
        }
        counted += count[j];
        weighed += mass[j];
    }
    __syncthreads();
    Edge found = *shared;
    __syncthreads();
    return found;
}
