// Pooling, normalization, dense layers and activations of an encoder's output, and the masks of its inputs.
// References: ops/pooling.py, ops/activations.py.  Values have the model's type, everything is computed in
// float32.
//
// A text is summed in an order that depends only on its own length, so the batch does not change the result.

#define FLOAT32 0  // types of values
#define FLOAT16 1
#define BFLOAT16 2

#define FIRST 0  // poolings
#define LAST 1
#define LARGEST 2
#define MEAN 3
#define MEAN_SQRT_LEN 4
#define WEIGHTED_MEAN 5

#define IDENTITY 0  // activations
#define TANH 1
#define RELU 2
#define GELU 3
#define SIGMOID 4
#define SILU 5

#define POOL_WARPS 8  // of a block of 256
#define TILE 32
#define LEAST_LENGTH 1e-12f

typedef unsigned short u16;

// A half as a float, by arithmetic: a subnormal half is no subnormal float, which would count as 0.
__device__ inline float widened(u16 half) {
    u32 sign = (u32)(half & 0x8000u) << 16, rest = half & 0x7FFFu;
    float value = (float)rest * 5.9604644775390625e-8f;  // 2**-24
    if (rest >= 0x7C00u)
        value = __uint_as_float(0x7F800000u | (rest & 0x3FFu) << 13);
    else if (rest >= 0x400u)
        value = __uint_as_float((rest << 13) + ((127 - 15) << 23));
    return __uint_as_float(__float_as_uint(value) | sign);
}

struct Values {
    const void* first;
    int type;

    __device__ float at(i64 i) const {
        if (type == FLOAT32) return ((const float*)first)[i];
        u16 half = ((const u16*)first)[i];
        return type == FLOAT16 ? widened(half) : __uint_as_float((u32)half << 16);
    }
};

__device__ inline float sigmoid_of(float value) { return 1.0f / (1.0f + expf(-value)); }

// NaN is the largest, as in numpy.
__device__ inline float larger(float one, float other) { return other > one || other != other ? other : one; }

// [num_texts, width] of 32 or 64 bits, one thread each: 1 for a token and 0 after a text's end;
// without lengths 0, 1, 2 ... in each row.
extern "C" __global__ void __launch_bounds__(256)
    fill_integers(const int* lengths, int width, int bits, i64 count, void* out) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Place place = place_of(i, width);
    int number = lengths ? place.part < lengths[place.row] : place.part;
    if (bits == 64)
        ((i64*)out)[i] = number;
    else
        ((int*)out)[i] = number;
}

// The factor of a text's sum.
__device__ inline float share_of(int how, int length) {
    if (how == MEAN) return 1.0f / (float)length;
    if (how == MEAN_SQRT_LEN) return 1.0f / sqrtf((float)length);
    if (how == WEIGHTED_MEAN) return 1.0f / ((float)length * ((float)length + 1.0f) * 0.5f);
    return 1.0f;
}

// [num_texts, width, size] -> [num_texts, size].  A block has 32 columns of a text, each of its warps every
// eighth token of them.  The first and the last token are sums of one.
extern "C" __global__ void __launch_bounds__(256)
    pool_texts(const void* values, int type, const int* lengths, int how, int width, int size, int parts,
               float* out) {
    __shared__ float found[POOL_WARPS][WARP];
    Place place = place_of(blockIdx.x, parts);
    Values given = {values, type};
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, column = place.part * WARP + lane;
    int length = lengths[place.row];
    int end = how == FIRST ? 1 : length;
    float result = how == LARGEST ? -INFINITE : 0.0f;
    if (column < size) {
        i64 base = place.row * width * size + column;
#pragma unroll 4
        for (int token = (how == LAST ? length - 1 : 0) + warp; token < end; token += POOL_WARPS) {
            float value = given.at(base + (i64)token * size);
            if (how == LARGEST)
                result = larger(result, value);
            else
                result += how == WEIGHTED_MEAN ? value * (float)(token + 1) : value;
        }
    }
    found[warp][lane] = result;
    __syncthreads();
    if (warp != 0 || column >= size) return;
    for (int i = 1; i < POOL_WARPS; i++)
        result = how == LARGEST ? larger(result, found[i][lane]) : result + found[i][lane];
    out[place.row * size + column] = how == LARGEST ? result : result * share_of(how, length);
}

// A warp processes a row of `size`; a text has `per_text` rows.  `where` null: all texts.
struct TextRow {
    Values given;
    i64 first;
    int size, lane;
    bool changed;
};

__device__ inline TextRow row_of_warp(const void* values, int type, const int* where, i64 row, int per_text,
                                    int size) {
    TextRow found = {{values, type}, row * size, size, (int)(threadIdx.x % WARP), true};
    if (where) found.changed = where[row / per_text] != 0;
    return found;
}

template <class Change>
__device__ inline void write_row(const TextRow& row, float* out, Change change) {
    for (int i = row.lane; i < row.size; i += WARP) out[row.first + i] = change(row.given.at(row.first + i));
}

extern "C" __global__ void __launch_bounds__(256)
    normalize_rows(const void* values, int type, const int* where, i64 num_rows, int per_text, int size,
                   float* out) {
    i64 number = (i64)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (number >= num_rows) return;
    TextRow row = row_of_warp(values, type, where, number, per_text, size);
    float squares = 0.0f;
    for (int i = row.lane; i < size; i += WARP) {
        float value = row.given.at(row.first + i);
        squares += value * value;
    }
    float norm = sqrtf(warp_sum(squares));
    float length = norm < LEAST_LENGTH ? LEAST_LENGTH : norm;
    write_row(row, out, [&](float value) { return row.changed ? value / length : value; });
}

extern "C" __global__ void __launch_bounds__(256)
    softmax_rows(const void* values, int type, const int* where, i64 num_rows, int per_text, int size,
                 float* out) {
    i64 number = (i64)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (number >= num_rows) return;
    TextRow row = row_of_warp(values, type, where, number, per_text, size);
    float peak = -INFINITE;
    for (int i = row.lane; i < size; i += WARP) peak = larger(peak, row.given.at(row.first + i));
    for (int by = WARP / 2; by > 0; by /= 2) peak = larger(peak, __shfl_xor_sync(ALL_LANES, peak, by));
    float sum = 0.0f;
    for (int i = row.lane; i < size; i += WARP) sum += expf(row.given.at(row.first + i) - peak);
    sum = warp_sum(sum);
    write_row(row, out, [&](float value) { return row.changed ? expf(value - peak) / sum : value; });
}

extern "C" __global__ void __launch_bounds__(256)
    sigmoid_rows(const void* values, int type, const int* where, i64 num_rows, int per_text, int size,
                 float* out) {
    i64 number = (i64)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (number >= num_rows) return;
    TextRow row = row_of_warp(values, type, where, number, per_text, size);
    write_row(row, out, [&](float value) { return row.changed ? sigmoid_of(value) : value; });
}

__device__ inline float activated(float value, int activation) {
    if (activation == TANH) return tanhf(value);
    if (activation == RELU) return larger(0.0f, value);
    if (activation == GELU) return 0.5f * value * (1.0f + erff(value * 0.70710678f));
    if (activation == SIGMOID) return sigmoid_of(value);
    if (activation == SILU) return value * sigmoid_of(value);
    return value;
}

// activation(values [num_rows, num_in] @ weight [num_out, num_in].T + bias): a block has TILE x TILE of the
// results, a thread four of them, one below the other.
extern "C" __global__ void __launch_bounds__(256)
    dense_rows(const void* values, int type, const float* weight, const float* bias, int activation,
               i64 num_rows, int num_in, int num_out, int parts, float* out) {
    __shared__ float rows[TILE][TILE + 1], weights[TILE][TILE + 1];
    Place place = place_of(blockIdx.x, parts);
    Values given = {values, type};
    int lane = threadIdx.x % TILE, group = threadIdx.x / TILE, groups = blockDim.x / TILE;
    i64 first_row = place.row * TILE;
    int first_out = place.part * TILE, column = first_out + lane;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int start = 0; start < num_in; start += TILE) {
        bool inside = start + lane < num_in;
        for (int i = group; i < TILE; i += groups) {
            i64 row = first_row + i;
            bool real = inside && row < num_rows, used = inside && first_out + i < num_out;
            rows[i][lane] = real ? given.at(row * num_in + start + lane) : 0.0f;
            weights[i][lane] = used ? weight[(i64)(first_out + i) * num_in + start + lane] : 0.0f;
        }
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            for (int j = 0; j < 4; j++) sums[j] += rows[group + j * groups][i] * weights[lane][i];
        __syncthreads();
    }
    if (column >= num_out) return;
    for (int j = 0; j < 4; j++) {
        i64 row = first_row + group + j * groups;
        float sum = sums[j] + (bias ? bias[column] : 0.0f);
        if (row < num_rows) out[row * num_out + column] = activated(sum, activation);
    }
}
