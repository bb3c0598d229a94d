// The interface of recurrent layers, and the choice of an instruction set, which is that of linear layers (bl_isa).
#include "recurrent_steps.hpp"

#if defined(__x86_64__)
#include <cstring>

#include "block_linear.h"

namespace braid {
namespace {

const RecurrentKernels& in_use() {
    return std::strcmp(bl_isa(), "avx512vnni") ? AVX2_RECURRENT : AVX512_RECURRENT;
}

}  // namespace
}  // namespace braid

#else
#include "recurrent_kernels.hpp"

namespace braid {
namespace {

struct Plain {  // of which the compiler makes vectors
    static constexpr size_t ROWS = 4;
    struct Float {
        float at[LANES];
    };

    static Float zero() { return {}; }
    static Float load(const float* at) {
        Float value;
        std::memcpy(&value, at, sizeof(value));
        return value;
    }
    static void store(float* at, const Float& value) { std::memcpy(at, &value, sizeof(value)); }
    static Float broadcast(float value) {
        Float all;
        for (float& number : all.at) number = value;
        return all;
    }
    static Float multiply(Float a, const Float& b) {
        for (size_t i = 0; i < LANES; i++) a.at[i] *= b.at[i];
        return a;
    }
    static Float add_product(Float a, const Float& b, const Float& c) {
        for (size_t i = 0; i < LANES; i++) a.at[i] = std::fma(a.at[i], b.at[i], c.at[i]);
        return a;
    }
    static void add_up(Float (&rows)[ROWS], float* sums) {
        for (size_t r = 0; r < ROWS; r++) {
            for (size_t half = LANES / 2; half; half /= 2)
                for (size_t i = 0; i < half; i++) rows[r].at[i] += rows[r].at[i + half];
            sums[r] = rows[r].at[0];
        }
    }
};

const RecurrentKernels& in_use() {
    static constexpr RecurrentKernels kernels = recurrent_kernels_of<Plain>();
    return kernels;
}

}  // namespace
}  // namespace braid
#endif

extern "C" {

using namespace braid;

const char* rl_check(const rl_step* step, size_t tokens, size_t num_rows, size_t num_indices) {
    for (size_t s = 0; s < step->sequences; s++) {
        if (step->begins[s] < 0 || step->begins[s + 1] < step->begins[s] || size_t(step->begins[s + 1]) > tokens)
            return "tokens of sequences";
        if (step->past[s] < 0) return "tokens before a sequence";
        if (step->row_begins[s] < 0 || step->row_begins[s + 1] < step->row_begins[s] ||
            size_t(step->row_begins[s + 1]) > num_indices)
            return "rows of sequences";
        const Sequence sequence = sequence_of(*step, s);
        const size_t named = size_t(step->row_begins[s + 1] - step->row_begins[s]), written = num_written(sequence);
        if (written && named < 1 + written) return "too few rows of states";
        for (size_t i = 0; i < named; i++)
            if (sequence.rows[i] < 0 || size_t(sequence.rows[i]) >= num_rows) return "no such row of states";
    }
    return nullptr;
}

void rl_convolve(const rl_short_conv* layer, const rl_step* step, size_t part, size_t parts) {
    in_use().convolve(*layer, *step, part, parts);
}

void rl_run_delta_net(const rl_delta_net* layer, const rl_step* step, size_t part, size_t parts) {
    in_use().delta_net(*layer, *step, part, parts);
}

void rl_run_mamba2(const rl_mamba2* layer, const rl_step* step, size_t part, size_t parts) {
    in_use().mamba2(*layer, *step, part, parts);
}
}
