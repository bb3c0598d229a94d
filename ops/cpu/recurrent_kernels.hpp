// The kernels of recurrent layers for one instruction set.
//
// A delta net goes token by token, as "Gated Delta Networks" (Yang et al. 2024) states it:
//     S' = exp(decay) * S,   S = S' + beta * (value - S' k) k^T,   mixed = S q
// Each row of S needs nothing of the others, so 16 rows stay in the first cache while all tokens pass: no state is
// read or written between them, and the sums of 16 rows are added up together.  The same paper's form in chunks has
// more products, 3 * key + 2 * chunk of a row and token in place of 4 * key; it pays where only products of matrices
// are fast, or where states would go through memory.  Token by token, a prompt has the same bits however it is cut.
#pragma once

#include <math.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "recurrent_steps.hpp"

namespace braid {
namespace {  // not shared between sources: a linker must not give one source the instructions of another

constexpr size_t LANES = 16, TILE = 16;  // numbers of a vector, rows of a state that are computed together
constexpr size_t TOKENS = 16;            // whose keys are prepared at once, so that they stay in the first cache
constexpr size_t CHANNELS = 64;          // of a convolution that are computed together

inline size_t lesser(size_t a, size_t b) { return a < b ? a : b; }

// Copies up to LANES numbers: all of them in one piece, for pieces that are stored are not soon read as a whole.
inline void copy_numbers(float* to, const float* from, size_t count) {
    if (count == LANES)
        std::memcpy(to, from, LANES * sizeof(float));
    else
        for (size_t i = 0; i < count; i++) to[i] = from[i];
}

// A row of a state for a token: state = fading * state + added * key, mixed = state . query.
struct Token {
    const float *key, *query;  // `width` numbers, a multiple of LANES, of which those beyond the row's are 0
    float fading;
};

// Rows of a tile lie beside one another: [width / LANES][TILE][LANES].  So all that is read and written follows what
// was before it, and no two rows meet in the low bits of their addresses.
template <class V>
void multiply_rows(const float* state, size_t width, const float* x, float* sums) {
    for (size_t first = 0; first < TILE; first += V::ROWS) {
        typename V::Float sum[V::ROWS];
#pragma GCC unroll 16
        for (size_t r = 0; r < V::ROWS; r++) sum[r] = V::zero();
        for (size_t i = 0; i < width; i += LANES) {
            const auto numbers = V::load(x + i);
#pragma GCC unroll 16
            for (size_t r = 0; r < V::ROWS; r++)
                sum[r] = V::add_product(V::load(state + i * TILE + (first + r) * LANES), numbers, sum[r]);
        }
        V::add_up(sum, sums + first);
    }
}

template <class V>
void advance_rows(float* state, size_t width, const Token& token, const float* added, float* mixed) {
    const auto fading = V::broadcast(token.fading);
    for (size_t first = 0; first < TILE; first += V::ROWS) {
        typename V::Float sum[V::ROWS];
#pragma GCC unroll 16
        for (size_t r = 0; r < V::ROWS; r++) sum[r] = V::zero();
        for (size_t i = 0; i < width; i += LANES) {
            const auto key = V::load(token.key + i), query = V::load(token.query + i);
#pragma GCC unroll 16
            for (size_t r = 0; r < V::ROWS; r++) {
                float* at = state + i * TILE + (first + r) * LANES;
                const auto faded = V::multiply(fading, V::load(at));
                const auto now = V::add_product(V::broadcast(added[first + r]), key, faded);
                V::store(at, now);
                sum[r] = V::add_product(now, query, sum[r]);
            }
        }
        V::add_up(sum, mixed + first);
    }
}

// What a layer gives the rows of one head, token by token.
struct DeltaNetTokens {
    const rl_delta_net& layer;
    size_t head;

    static constexpr bool CORRECTS = true;  // by what the state says of the key already
    size_t size() const { return layer.key_size; }
    size_t rows() const { return layer.value_size; }
    const float* value(size_t token) const { return layer.value + (token * layer.heads + head) * rows(); }
    float* mixed(size_t token) const { return layer.mixed + (token * layer.heads + head) * rows(); }
    float* state(size_t row) const { return layer.states + (row * layer.heads + head) * rows() * size(); }
    float fading(size_t token) const { return expf(layer.decay[token * layer.heads + head]); }
    float share(size_t token) const { return layer.beta[token * layer.heads + head]; }

    void prepare(size_t token, float* key, float* query) const {
        const size_t at = (token * layer.key_heads + head / (layer.heads / layer.key_heads)) * size();
        scale(layer.key + at, 1.0f, key);
        scale(layer.query + at, sqrtf(float(size())), query);
    }

    // x / (|x| * by)
    void scale(const float* x, float by, float* scaled) const {
        float sums[LANES] = {};
        size_t first = 0;
        for (; first + LANES <= size(); first += LANES)
            for (size_t i = 0; i < LANES; i++) sums[i] += x[first + i] * x[first + i];
        for (size_t i = 0; first + i < size(); i++) sums[i] += x[first + i] * x[first + i];
        for (size_t half = LANES / 2; half; half /= 2)
            for (size_t i = 0; i < half; i++) sums[i] += sums[i + half];
        const float times = 1.0f / (sqrtf(sums[0] + layer.epsilon) * by);
        for (size_t i = 0; i < size(); i++) scaled[i] = x[i] * times;
    }
};

struct Mamba2Tokens {
    const rl_mamba2& layer;
    size_t head;

    static constexpr bool CORRECTS = false;
    size_t size() const { return layer.state_size; }
    size_t rows() const { return layer.head_size; }
    const float* value(size_t token) const { return layer.values + (token * layer.heads + head) * rows(); }
    float* mixed(size_t token) const { return layer.mixed + (token * layer.heads + head) * rows(); }
    float* state(size_t row) const { return layer.states + (row * layer.heads + head) * rows() * size(); }
    float fading(size_t token) const { return expf(layer.decay[head] * share(token)); }
    float share(size_t token) const { return layer.steps[token * layer.heads + head]; }

    void prepare(size_t token, float* key, float* query) const {
        const size_t at = (token * layer.groups + head / (layer.heads / layer.groups)) * size();
        std::memcpy(key, layer.written + at, size() * sizeof(float));
        std::memcpy(query, layer.read + at, size() * sizeof(float));
    }
};

// Memory of a thread, which grows to what is asked for.
class Scratch {
public:
    ~Scratch() { std::free(m_numbers); }

    float* of(size_t count) {
        if (count <= m_count) return m_numbers;
        std::free(m_numbers);
        m_count = 0;
        m_numbers = static_cast<float*>(std::aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64));
        if (!m_numbers) throw std::bad_alloc();
        m_count = count;
        return m_numbers;
    }

private:
    float* m_numbers = nullptr;
    size_t m_count = 0;
};

// Tiles [first, last) of the rows of one head, over the tokens of a sequence.
template <class V, class Tokens>
struct HeadRows {
    const Tokens& tokens;
    const Sequence& sequence;
    size_t width, first, last;
    float* scratch;

    // Numbers of the scratch: tiles, keys and queries.
    static size_t scratch_size(size_t tiles, size_t width) { return (tiles * TILE + 2 * TOKENS) * width; }

    void run() const {
        for (size_t tile = first; tile < last; tile++) copy<false>(tile, sequence.read());
        float* keys = state(last);
        for (size_t begin = sequence.begin; begin < sequence.end; begin += TOKENS) {
            const size_t end = lesser(sequence.end, begin + TOKENS);
            Token prepared[TOKENS];
            for (size_t token = begin; token < end; token++) {
                float *key = keys + 2 * (token - begin) * width, *query = key + width;
                tokens.prepare(token, key, query);
                clear_rest(key);
                clear_rest(query);
                prepared[token - begin] = {key, query, tokens.fading(token)};
            }
            for (size_t tile = first; tile < last; tile++)
                for (size_t token = begin; token < end; token++) step(tile, token, prepared[token - begin]);
        }
    }

private:
    float* state(size_t tile) const { return scratch + (tile - first) * TILE * width; }
    size_t count(size_t tile) const { return lesser(TILE, tokens.rows() - tile * TILE); }

    void clear_rest(float* row) const {
        for (size_t i = tokens.size(); i < width; i++) row[i] = 0.0f;
    }

    void step(size_t tile, size_t token, const Token& given) const {
        float added[TILE] = {}, mixed[TILE], known[TILE];
        copy_numbers(added, tokens.value(token) + tile * TILE, count(tile));
        const float share = tokens.share(token);
        if (Tokens::CORRECTS) {
            multiply_rows<V>(state(tile), width, given.key, known);
            for (size_t r = 0; r < TILE; r++) added[r] -= given.fading * known[r];
        }
        for (size_t r = 0; r < TILE; r++) added[r] *= share;
        advance_rows<V>(state(tile), width, given, added, mixed);
        copy_numbers(tokens.mixed(token) + tile * TILE, mixed, count(tile));
        const int64_t row = sequence.row_after(token);
        if (row >= 0) copy<true>(tile, size_t(row));
    }

    // The rows of a tile from a row of states, or to it.  What a tile has beyond the last row is computed, and not read.
    template <bool WRITES>
    void copy(size_t tile, size_t row) const {
        const size_t size = tokens.size();
        for (size_t r = 0; r < count(tile); r++)
            for (size_t i = 0; i < size; i += LANES) {
                float* stored = tokens.state(row) + (tile * TILE + r) * size + i;
                float* here = state(tile) + i * TILE + r * LANES;
                const size_t numbers = lesser(LANES, size - i);
                copy_numbers(WRITES ? stored : here, WRITES ? here : stored, numbers);
                for (size_t rest = numbers; !WRITES && rest < LANES; rest++) here[rest] = 0.0f;
            }
    }
};

template <class V, class Tokens, class Layer>
void run_heads(const Layer& layer, const rl_step& step, size_t part, size_t parts) {
    static thread_local Scratch scratch;
    const Tokens any{layer, 0};
    const size_t tiles = (any.rows() + TILE - 1) / TILE, width = (any.size() + LANES - 1) / LANES * LANES;
    each_sequence(step, layer.heads * tiles, part, parts, [&](const Sequence& sequence, size_t begin, size_t end) {
        for (size_t at = begin; at < end;) {
            const size_t head = at / tiles, last = lesser(end - head * tiles, tiles), first = at - head * tiles;
            using Rows = HeadRows<V, Tokens>;
            const Tokens tokens{layer, head};
            Rows{tokens, sequence, width, first, last, scratch.of(Rows::scratch_size(last - first, width))}.run();
            at = head * tiles + last;
        }
    });
}

// Channels [first, first + count) of a convolution: the constants, and the rows before the sequence, of channels that
// lie beside one another.
struct ConvChannels {
    const rl_short_conv& layer;
    const Sequence& sequence;
    size_t first, count;
    float* scratch;

    void run() const {
        const size_t taps = layer.kernel;
        float *weight = scratch, *before = weight + taps * CHANNELS;
        const float* state = layer.states + sequence.read() * layer.channels * taps + first * taps;
        for (size_t k = 0; k < taps; k++)
            for (size_t c = 0; c < count; c++) {
                weight[k * CHANNELS + c] = layer.weight[(first + c) * taps + k];
                before[k * CHANNELS + c] = state[c * taps + k];
            }
        for (size_t token = sequence.begin; token < sequence.end; token++) {
            float sums[CHANNELS] = {};
            for (size_t k = 0; k < taps; k++) add(weight + k * CHANNELS, row(token, k, before), sums);
            float* mixed = layer.mixed + token * layer.channels + first;
            for (size_t c = 0; c < count; c++) mixed[c] = layer.bias ? sums[c] + layer.bias[first + c] : sums[c];
            if (sequence.row_after(token) >= 0) store(token, size_t(sequence.row_after(token)), before);
        }
    }

private:
    void add(const float* weight, const float* row, float* sums) const {
        if (count == CHANNELS)
            for (size_t c = 0; c < CHANNELS; c++) sums[c] += weight[c] * row[c];
        else
            for (size_t c = 0; c < count; c++) sums[c] += weight[c] * row[c];
    }

    // What the k-th weight is multiplied by.
    const float* row(size_t token, size_t k, const float* before) const {
        const size_t reached = token - sequence.begin + k + 1;  // counted from the rows before, which are `kernel`
        if (reached < layer.kernel) return before + reached * CHANNELS;
        return layer.rows + (sequence.begin + reached - layer.kernel) * layer.channels + first;
    }

    void store(size_t token, size_t row_of_state, const float* before) const {
        float* state = layer.states + row_of_state * layer.channels * layer.kernel + first * layer.kernel;
        for (size_t k = 0; k < layer.kernel; k++) {
            const float* from = row(token, k, before);
            for (size_t c = 0; c < count; c++) state[c * layer.kernel + k] = from[c];
        }
    }
};

void convolve(const rl_short_conv& layer, const rl_step& step, size_t part, size_t parts) {
    static thread_local Scratch scratch;
    const size_t blocks = (layer.channels + CHANNELS - 1) / CHANNELS;
    each_sequence(step, blocks, part, parts, [&](const Sequence& sequence, size_t begin, size_t end) {
        for (size_t block = begin; block < end; block++) {
            const size_t first = block * CHANNELS, count = lesser(CHANNELS, layer.channels - first);
            ConvChannels{layer, sequence, first, count, scratch.of(2 * layer.kernel * CHANNELS)}.run();
        }
    });
}

template <class V>
constexpr RecurrentKernels recurrent_kernels_of() {
    return {convolve, run_heads<V, DeltaNetTokens, rl_delta_net>, run_heads<V, Mamba2Tokens, rl_mamba2>};
}

}  // namespace
}  // namespace braid
