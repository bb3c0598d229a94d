/* Linear layers whose weights have few bits: y[m, n] = x[m, k] . W[n, k]^T.
 *
 * Weights are integer codes of 2, 4, 6 or 8 bits with a scale for each group of them along k, as files of
 * quantized models have them.  A C interface without threads of its own: a caller splits blocks of 16 channels
 * (n), and tiles of 16 rows (m), among its threads.
 *
 * What is computed.  Along k, each 32 activations of a row are a segment, with one float32 scale s:
 *     levels 1:  s = largest / 127,    x ~ s * q, q = an int8
 *     levels 2:  s = largest / 32639,  x ~ s * q, q = an int16
 * For each segment, or each half of one where a group has 16 weights, in ascending order:
 *     y = fma(float(sum of (code - zero) * q), scale * s, y)           the sum is exact, in int32
 *     y = fma(minimum, s * float(sum of q), y)                         BL_MINIMUM
 * where zero is 0 for BL_MINIMUM and 2^(bits-1) for BL_MIDDLE; all in float32, so that results are the same to the last
 * bit for each instruction set, however many rows and threads there are.  A segment whose numbers are all below
 * 2^-100 counts as zeros.  A row with an infinity or a NaN gives NaN in all channels.
 */
#ifndef BRAID_BLOCK_LINEAR_H
#define BRAID_BLOCK_LINEAR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the packed layout: the same codes and scales are the same bytes on each instruction set. */
enum { BL_LAYOUT = 1 };

/* Types of activations and results (the first three), and of scales. */
enum {
    BL_F32 = 0,
    BL_BF16 = 1,     /* not of scales */
    BL_F16 = 2,
    BL_E8M0 = 3,     /* 2^(byte - 127), as in MXFP4 */
    BL_TWO_LEVEL = 4 /* an int8 for each group times a float16 for 256 weights, as in Q4_K and Q6_K */
};

/* What a weight is, for a code c. */
enum {
    BL_MIDDLE = 0,  /* scale * (c - 2^(bits-1)) */
    BL_INTEGER = 1, /* scale * (c - zero), with a zero for each group */
    BL_MINIMUM = 2  /* scale * c + minimum, with a minimum of the scales' type for each group */
};

/* What a code stands for: itself, or a number of 4 bits with an exponent of 2 (the zeros are BL_MIDDLE). */
enum { BL_LINEAR = 0, BL_E2M1 = 1 };

typedef struct {
    int32_t bits;   /* of a code: 2, 4, 6, 8 */
    int32_t group;  /* weights along k that share a scale: 16, 32, 64, 128; 0: all of a channel */
    int32_t scales; /* BL_F32, BL_F16, BL_E8M0, BL_TWO_LEVEL */
    int32_t zeros;  /* BL_MIDDLE, BL_INTEGER, BL_MINIMUM */
    int32_t table;  /* BL_LINEAR, BL_E2M1 */
} bl_format;

/* NULL, or why there is no such weight; the other functions take only what this one accepts. */
const char* bl_check(const bl_format* format, size_t n, size_t k);

/* Bytes of a packed weight.  It is best aligned to 64, in huge pages. */
size_t bl_packed_bytes(const bl_format* format, size_t n, size_t k);

/* Pack blocks [begin, end) of 16 channels; `packed` is the beginning of the whole weight.
 *     codes   [n][k], unsigned; of 4 bits two in a byte, of 2 bits four, the lowest bits first; else one
 *     scales  [n][groups] of the type of the scales; of BL_TWO_LEVEL int8 [n][groups], then float16 [n][k / 256]
 *     zeros   BL_INTEGER: uint8 [n][groups]; BL_MINIMUM: as the scales; else not read */
void bl_pack(const bl_format* format, size_t n, size_t k, const void* codes, const void* scales,
             const void* zeros, size_t begin, size_t end, void* packed);

/* Bytes of the rounded activations of m rows.  They are to be multiplied by the same instruction set. */
size_t bl_rounded_bytes(int levels, size_t m, size_t k);

/* Round tiles [begin, end) of 16 rows of x, which has a stride of `stride` elements; `levels` is 1 or 2, `type`
 * BL_F32, BL_BF16 or BL_F16; x and `rounded` are the beginning of all rows. */
void bl_round(int levels, int type, size_t m, size_t k, const void* x, size_t stride, size_t begin, size_t end,
              void* rounded);

/* Blocks [begin, end) of 16 channels of all m rows of y, which has a stride of `stride` elements of `type`. */
void bl_multiply(const bl_format* format, int levels, int type, size_t m, size_t n, size_t k,
                 const void* rounded, const void* packed, size_t begin, size_t end, void* y, size_t stride);

/* Rows that are routed to experts: rows [begin, end) of the sorted rows are multiplied by the weight of `expert`.
 * The list is in the order of its rows, which it covers from 0 on; an expert may occur in it more than once. */
typedef struct {
    size_t expert, begin, end;
} bl_expert_rows;

/* Part `part` of `parts`, which are even, of rounding all rows of the list.  Sorted row r is row tokens[r] of x,
 * or row r where `tokens` is NULL.  `rounded` has bl_rounded_bytes of all sorted rows. */
void bl_round_experts(const bl_expert_rows* list, size_t count, int levels, int type, size_t k, const void* x,
                      size_t stride, const int64_t* tokens, size_t part, size_t parts, void* rounded);

/* A packed weight [n][k]. */
typedef struct {
    bl_format format;
    const void* packed;
} bl_weight;

/* What is between the linear layers of a network: activation(gate) * up, or activation(up) without a gate.
 *     BL_SILU     x * sigmoid(x)                 BL_RELU2   max(x, 0)^2
 *     BL_GELU     gelu(x), by erf                BL_GELU_TANH   gelu(x), by tanh
 *     BL_CLAMPED  x * sigmoid(alpha * x) with x = min(gate, limit), times clamp(up, -limit, limit) + 1
 * The results are the same to the last bit for each instruction set, but for BL_GELU, which is the C library's. */
enum { BL_SILU = 0, BL_GELU = 1, BL_GELU_TANH = 2, BL_RELU2 = 3, BL_CLAMPED = 4 };

typedef struct {
    int32_t kind;
    float alpha, limit; /* of BL_CLAMPED */
} bl_activation;

/* out may be gate or up; gate is NULL where there is none. */
void bl_activate(const bl_activation* activation, size_t count, const float* gate, const float* up, float* out);

/* The hidden layer of a network: bl_activate of gate . x + gate_bias and up . x + up_bias. */
typedef struct {
    bl_activation activation;
    const bl_weight *gate, *up;        /* [n][k]; gate is NULL where there is none; of experts by number */
    const float *gate_bias, *up_bias;  /* [n], of experts [experts][n], or NULL */
} bl_hidden;

/* Blocks [begin, end) of 16 channels of all m rows of y, the numbers of a hidden layer, which has a stride of `stride`
 * elements. */
void bl_multiply_hidden(const bl_hidden* layer, int levels, size_t m, size_t n, size_t k, const void* rounded,
                        size_t begin, size_t end, float* y, size_t stride);

/* Part `part` of `parts`, which are even, of the products of all rows of the list; y has the sorted rows.
 * `weights` are those of the experts, by number. */
void bl_multiply_experts(const bl_weight* weights, const bl_expert_rows* list, size_t count, int levels, int type,
                         size_t n, size_t k, const void* rounded, size_t part, size_t parts, void* y,
                         size_t stride);

/* As bl_multiply_experts, of the hidden layers of experts. */
void bl_multiply_hidden_experts(const bl_hidden* layers, const bl_expert_rows* list, size_t count, int levels, size_t n,
                                size_t k, const void* rounded, size_t part, size_t parts, float* y, size_t stride);

/* Blocks [begin, end) of 16 columns of y[m][n] = x[m][k] . weight[k][n] in float32, where n is a multiple of 16; x has
 * a stride of `stride` elements.  A sum is in the same order for each instruction set, however many rows there are. */
void bl_multiply_floats(size_t m, size_t n, size_t k, const float* x, size_t stride, const float* weight, size_t begin,
                        size_t end, float* y);

/* The instruction set in use: "avx512vnni", "avxvnni", "avx2", "neon" (with dot products), or "none", with which nothing may be rounded or
 * multiplied.  Another one is set for tests; 0: this processor does not have it. */
const char* bl_isa(void);
int bl_set_isa(const char* name);

#ifdef __cplusplus
}
#endif
#endif
