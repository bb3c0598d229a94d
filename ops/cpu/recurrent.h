/* Recurrent layers over rows of states: short convolutions, gated delta nets, Mamba 2.  What each computes is in
 * pipelines/onnx_format/recurrent_format.py.  All numbers are float32.
 *
 * A C interface without threads of its own: a caller calls each function for all of `parts` parts of its work, which
 * are even and independent of one another.  A sequence's results are the same to the last bit beside any others, for
 * any number of parts, wherever its tokens are cut into steps, and on each instruction set. */
#ifndef BRAID_RECURRENT_H
#define BRAID_RECURRENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The sequences of a step.  Sequence s has the tokens from begins[s] to begins[s + 1], behind past[s] others.  It
 * reads the state in row rows[row_begins[s]], and writes states to the rows after that: after every interval[s]
 * tokens, counted from its beginning, and after the last one.  With an interval below 1, after the last alone.
 * It may write the row that it reads; no row is read by one sequence and written by another. */
typedef struct {
    size_t sequences;
    const int32_t *begins, *rows, *row_begins, *past, *interval;
} rl_step;

/* NULL, or why this is no step of `tokens` tokens and `num_rows` rows of states, of which `num_indices` are named. */
const char* rl_check(const rl_step* step, size_t tokens, size_t num_rows, size_t num_indices);

/* rows, mixed: [tokens, channels]; weight, states: [channels, kernel], [rows, channels, kernel]; bias: [channels],
 * or NULL. */
typedef struct {
    size_t channels, kernel;
    const float *rows, *weight, *bias;
    float *states, *mixed;
} rl_short_conv;

void rl_convolve(const rl_short_conv* layer, const rl_step* step, size_t part, size_t parts);

/* query, key: [tokens, key_heads, key_size]; value, mixed: [tokens, heads, value_size]; decay, beta: [tokens, heads];
 * states: [rows, heads, value_size, key_size]. */
typedef struct {
    size_t key_heads, key_size, heads, value_size;
    float epsilon;
    const float *query, *key, *value, *decay, *beta;
    float *states, *mixed;
} rl_delta_net;

void rl_run_delta_net(const rl_delta_net* layer, const rl_step* step, size_t part, size_t parts);

/* values, mixed: [tokens, heads, head_size]; steps: [tokens, heads]; written, read: [tokens, groups, state_size];
 * decay: [heads]; states: [rows, heads, head_size, state_size]. */
typedef struct {
    size_t groups, state_size, heads, head_size;
    const float *values, *steps, *written, *read, *decay;
    float *states, *mixed;
} rl_mamba2;

void rl_run_mamba2(const rl_mamba2* layer, const rl_step* step, size_t part, size_t parts);

#ifdef __cplusplus
}
#endif
#endif
