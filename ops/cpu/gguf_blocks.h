/* Weights as blocks of GGUF files, packed for the kernels of block_linear.h without a detour.
 *
 * A weight is packed from its rows as they are in the file, each at an address of its own: so rows may come
 * from several tensors, and in any order.  Nothing is rounded: what the kernels compute with are the codes,
 * scales and minimums of the file.
 */
#ifndef BRAID_GGUF_BLOCKS_H
#define BRAID_GGUF_BLOCKS_H

#include "block_linear.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Types of tensors, by their numbers in files. */
enum {
    BL_Q4_0 = 2, BL_Q4_1 = 3, BL_Q5_0 = 6, BL_Q5_1 = 7, BL_Q8_0 = 8, BL_Q4_K = 12, BL_Q5_K = 13, BL_Q6_K = 14,
    BL_MXFP4 = 39
};

/* The packed format of a type; 0: there is no such type here. */
int bl_gguf_format(int type, bl_format* format);

/* Bytes of a row of k weights; 0: k is not a multiple of the weights of a block. */
size_t bl_gguf_row_bytes(int type, size_t k);

/* Pack blocks [begin, end) of 16 channels; rows[n] are the rows of the channels, `packed` is the beginning of
 * the whole weight.  The same bytes as those of bl_pack. */
void bl_gguf_pack(int type, size_t n, size_t k, const void* const* rows, size_t begin, size_t end, void* packed);

/* Whether the scales of k weights are finite, which are whole blocks one after the other; 1 or 0. */
int bl_gguf_is_finite(int type, size_t k, const void* blocks);

/* The k weights of a row. */
void bl_gguf_unpack(int type, size_t k, const void* row, float* weights);

#ifdef __cplusplus
}
#endif
#endif
