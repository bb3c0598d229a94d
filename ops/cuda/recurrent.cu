// Recurrent layers over rows of states: short convolutions, gated delta nets, Mamba 2.  What each computes is
// in pipelines/onnx_format/recurrent_format.py.  Values of tokens have the model's type; states, sums and results
// are float32.
//
// A step has a record of `width` integers for each sequence: its first token, the token after its last, how
// many tokens precede the first one since the last multiple of its interval, its interval, the row of the state
// that it reads (-1: zeros), and the rows that it writes: after every interval and after the last token.
// A sequence may write the row that it reads; no row is read by one sequence and written by another.

#define FIRST_TOKEN 0
#define LAST_TOKEN 1
#define REACHED 2
#define INTERVAL 3
#define READ_ROW 4  // WRITTEN_ROWS, and the sizes of states: state_sizes.h

#define NARROW (STATE_NARROW / WARP)  // numbers of a row in each lane
#define WIDE (STATE_WIDEST / WARP)

// The row in which the state after a token is stored; -1: none.
__device__ inline int row_after(const int* sequence, int token) {
    int reached = sequence[REACHED] + token - sequence[FIRST_TOKEN] + 1, interval = sequence[INTERVAL];
    if (token + 1 != sequence[LAST_TOKEN] && reached % interval) return -1;
    return sequence[WRITTEN_ROWS + (reached - 1) / interval];
}

// The first token from `token` on after which a state is stored; at least the sequence's end where there is none.
__device__ inline int next_written(const int* sequence, int token) {
    int end = sequence[LAST_TOKEN], interval = sequence[INTERVAL];
    int reached = sequence[REACHED] + token - sequence[FIRST_TOKEN];
    i64 found = (i64)token + interval - 1 - reached % interval;
    return found < end - 1 || token >= end ? (int)found : end - 1;
}

// The record of the sequence of a token: the last one that begins at or before it.
__device__ inline const int* sequence_of(i64 token, const int* steps, int width, int num_seqs) {
    int low = 0, high = num_seqs - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (steps[(i64)middle * width + FIRST_TOKEN] <= token)
            low = middle;
        else
            high = middle - 1;
    }
    return steps + (i64)low * width;
}

// Row `token` of one channel, which may lie before the sequence: then in the state that it reads.
struct Channel {
    Values rows;
    const float* before;  // null: zeros
    int channel, channels, kernel, first;

    __device__ float at(int token) const {
        if (token >= first) return rows.at((i64)token * channels + channel);
        return before ? before[kernel + token - first] : 0.0f;
    }
};

// Writes the state of a channel after a token.  In rising order, so that a row may be the one that is read.
__device__ inline void store_channel(float* state, const Channel& given, int token) {
    for (int k = 0; k < given.kernel; k++) state[k] = given.at(token - (given.kernel - 1) + k);
}

// [num_tokens, channels], one thread each.  A state is [channels, kernel]: the last rows, the newest one last.
// The thread of a sequence's first token computes all tokens that read the state before them, and then writes
// the states, that in the row that was read at last: no other thread knows when it was read.
extern "C" __global__ void __launch_bounds__(256)
    short_convolution(const void* rows, int type, const float* weight, const float* bias, const int* steps,
                      int width, int num_seqs, int channels, int kernel, i64 total, float* states, float* mixed) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int token = (int)(i / channels), channel = (int)(i - (i64)token * channels);
    const int* sequence = sequence_of(token, steps, width, num_seqs);
    int first = sequence[FIRST_TOKEN], end = sequence[LAST_TOKEN], read = sequence[READ_ROW];
    bool is_first = token == first;
    if (!is_first && token < first + kernel - 1) return;
    i64 size = (i64)channels * kernel, place = (i64)channel * kernel;
    const float* before = read < 0 ? nullptr : states + read * size + place;
    Channel given = {{rows, type}, before, channel, channels, kernel, first};
    int until = is_first && first + kernel - 1 < end ? first + kernel - 1 : is_first ? end : token + 1;
    if (until <= token) until = token + 1;  // of a kernel of 1
    for (int t = token; t < until; t++) {
        float sum = 0.0f;
        for (int k = 0; k < kernel; k++) sum += weight[place + k] * given.at(t - (kernel - 1) + k);
        mixed[(i64)t * channels + channel] = sum + bias[channel];
    }
    if (!is_first) return;
    int at_last = -1;
    for (int t = next_written(sequence, first); t < end; t = next_written(sequence, t + 1)) {
        int row = row_after(sequence, t);
        if (row == read)
            at_last = t;
        else
            store_channel(states + row * size + place, given, t);
    }
    if (at_last >= 0) store_channel(states + read * size + place, given, at_last);
}

// The rows of a head's state that a warp computes.
struct WarpRows {
    const int* sequence;
    i64 num_rows;  // of the states of all heads
    int head, first, count, lane;
};

// Blocks are those of (sequence, head, tile of rows); `count` is 0 for a warp behind the last row.
__device__ inline WarpRows rows_of_warp(const int* steps, int width, int heads, int rows_of_head, int tiles) {
    Place tile = place_of(blockIdx.x, tiles), head = place_of(tile.row, heads);
    int first = (tile.part * STATE_WARPS + (int)(threadIdx.x / WARP)) * STATE_ROWS, rest = rows_of_head - first;
    return {steps + head.row * width,
            (i64)heads * rows_of_head,
            head.part,
            first,
            rest < 0 ? 0 : rest < STATE_ROWS ? rest : STATE_ROWS,
            (int)(threadIdx.x % WARP)};
}

// The rows of a warp in its registers: lane l has the numbers l, l + 32, ... of each.
template <int PARTS>
struct State {
    float rows[STATE_ROWS][PARTS];

    __device__ void load(const float* from, int count, int size, int lane) {
#pragma unroll
        for (int r = 0; r < STATE_ROWS; r++)
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                int column = lane + p * WARP;
                rows[r][p] = from && r < count && column < size ? from[r * size + column] : 0.0f;
            }
    }

    __device__ void store(float* to, int count, int size, int lane) const {
#pragma unroll
        for (int r = 0; r < STATE_ROWS; r++)
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                int column = lane + p * WARP;
                if (r < count && column < size) to[r * size + column] = rows[r][p];
            }
    }
};

template <int PARTS>
__device__ inline void load_row(float* row, const Values& from, i64 first, int size, int lane) {
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        int column = lane + p * WARP;
        row[p] = column < size ? from.at(first + column) : 0.0f;
    }
}

template <int PARTS>
__device__ inline float squares_of(const float* row) {
    float sum = 0.0f;
#pragma unroll
    for (int p = 0; p < PARTS; p++) sum += row[p] * row[p];
    return sum;
}

// Runs a warp's rows over the tokens of their sequence.  `cell.load(token, token_values)` reads what a token
// gives, one token ahead of its use, and `cell.step(state, token_values, token)` computes it.
template <int PARTS, class Cell>
__device__ inline void run_rows(const Cell& cell, const WarpRows& place, int size, float* states) {
    if (!place.count) return;
    State<PARTS> state;
    int first = place.sequence[FIRST_TOKEN], end = place.sequence[LAST_TOKEN], read = place.sequence[READ_ROW];
    i64 row = (i64)place.head * cell.rows_of_head + place.first;
    const float* before = read < 0 ? nullptr : states + (read * place.num_rows + row) * size;
    state.load(before, place.count, size, place.lane);
    typename Cell::Token next;
    cell.load(first, next);
    for (int token = first; token < end; token++) {
        typename Cell::Token now = next;
        if (token + 1 < end) cell.load(token + 1, next);
        cell.step(state, now, token);
        int written = row_after(place.sequence, token);
        if (written >= 0)
            state.store(states + (written * place.num_rows + row) * size, place.count, size, place.lane);
    }
}

// The result of row r of a warp, which its lanes have in parts.
__device__ inline void write_mixed(float* mixed, const WarpRows& place, int r, float sum, i64 token, int heads,
                                   int rows_of_head) {
    float whole = warp_sum(sum);
    if (place.lane == 0 && r < place.count)
        mixed[(token * heads + place.head) * rows_of_head + place.first + r] = whole;
}

template <int PARTS>
struct DeltaNet {
    struct Token {
        float query[PARTS], key[PARTS], value[STATE_ROWS], decay, beta;
    };

    Values query, key, value, decay, beta;
    WarpRows place;
    int key_heads, key_size, heads, rows_of_head;
    float epsilon;
    float* mixed;

    __device__ void load(i64 token, Token& to) const {
        i64 row = (token * key_heads + place.head / (heads / key_heads)) * key_size;
        i64 head = token * heads + place.head;
        load_row<PARTS>(to.query, query, row, key_size, place.lane);
        load_row<PARTS>(to.key, key, row, key_size, place.lane);
#pragma unroll
        for (int r = 0; r < STATE_ROWS; r++)
            to.value[r] = r < place.count ? value.at(head * rows_of_head + place.first + r) : 0.0f;
        to.decay = decay.at(head);
        to.beta = beta.at(head);
    }

    __device__ void step(State<PARTS>& state, Token& given, int token) const {
        float of_query = sqrtf(warp_sum(squares_of<PARTS>(given.query)) + epsilon) * sqrtf((float)key_size);
        float of_key = sqrtf(warp_sum(squares_of<PARTS>(given.key)) + epsilon), fading = expf(given.decay);
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            given.query[p] /= of_query;
            given.key[p] /= of_key;
        }
#pragma unroll
        for (int r = 0; r < STATE_ROWS; r++) {
            float known = 0.0f, sum = 0.0f;
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                state.rows[r][p] *= fading;
                known += state.rows[r][p] * given.key[p];
            }
            float added = given.beta * (given.value[r] - warp_sum(known));
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                state.rows[r][p] += added * given.key[p];
                sum += state.rows[r][p] * given.query[p];
            }
            write_mixed(mixed, place, r, sum, token, heads, rows_of_head);
        }
    }
};

template <int PARTS>
struct StateSpace {
    struct Token {
        float written[PARTS], read[PARTS], value[STATE_ROWS], step;
    };

    Values values, steps, written, read;
    float decay;
    WarpRows place;
    int groups, state_size, heads, rows_of_head;
    float* mixed;

    __device__ void load(i64 token, Token& to) const {
        i64 row = (token * groups + place.head / (heads / groups)) * state_size;
        i64 head = token * heads + place.head;
        load_row<PARTS>(to.written, written, row, state_size, place.lane);
        load_row<PARTS>(to.read, read, row, state_size, place.lane);
#pragma unroll
        for (int r = 0; r < STATE_ROWS; r++)
            to.value[r] = r < place.count ? values.at(head * rows_of_head + place.first + r) : 0.0f;
        to.step = steps.at(head);
    }

    __device__ void step(State<PARTS>& state, Token& given, int token) const {
        float fading = expf(decay * given.step);
#pragma unroll
        for (int r = 0; r < STATE_ROWS; r++) {
            float added = given.step * given.value[r], sum = 0.0f;
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                state.rows[r][p] = fading * state.rows[r][p] + added * given.written[p];
                sum += state.rows[r][p] * given.read[p];
            }
            write_mixed(mixed, place, r, sum, token, heads, rows_of_head);
        }
    }
};

// [num_tokens, value_heads, value_size].  A state is [value_heads, value_size, key_size].
extern "C" __global__ void __launch_bounds__(256)
    gated_delta_net(const void* query, const void* key, const void* value, const void* decay, const void* beta,
                    int type, const int* steps, int width, int key_heads, int key_size, int value_heads,
                    int value_size, int tiles, float epsilon, float* states, float* mixed) {
    WarpRows place = rows_of_warp(steps, width, value_heads, value_size, tiles);
    DeltaNet<NARROW> cell = {{query, type}, {key, type}, {value, type}, {decay, type}, {beta, type}, place,
                             key_heads,     key_size,    value_heads,   value_size,    epsilon,      mixed};
    run_rows<NARROW>(cell, place, key_size, states);
}

extern "C" __global__ void __launch_bounds__(256)
    gated_delta_net_wide(const void* query, const void* key, const void* value, const void* decay,
                         const void* beta, int type, const int* steps, int width, int key_heads, int key_size,
                         int value_heads, int value_size, int tiles, float epsilon, float* states, float* mixed) {
    WarpRows place = rows_of_warp(steps, width, value_heads, value_size, tiles);
    DeltaNet<WIDE> cell = {{query, type}, {key, type}, {value, type}, {decay, type}, {beta, type}, place,
                           key_heads,     key_size,    value_heads,   value_size,    epsilon,      mixed};
    run_rows<WIDE>(cell, place, key_size, states);
}

// [num_tokens, heads, head_size].  A state is [heads, head_size, state_size].
extern "C" __global__ void __launch_bounds__(256)
    mamba2(const void* values, const void* step_sizes, const void* written, const void* read, int type,
           const float* decay, const int* steps, int width, int heads, int head_size, int groups, int state_size,
           int tiles, float* states, float* mixed) {
    WarpRows place = rows_of_warp(steps, width, heads, head_size, tiles);
    StateSpace<NARROW> cell = {{values, type},    {step_sizes, type}, {written, type}, {read, type},
                               decay[place.head], place,              groups,          state_size,
                               heads,             head_size,          mixed};
    run_rows<NARROW>(cell, place, state_size, states);
}

extern "C" __global__ void __launch_bounds__(256)
    mamba2_wide(const void* values, const void* step_sizes, const void* written, const void* read, int type,
                const float* decay, const int* steps, int width, int heads, int head_size, int groups,
                int state_size, int tiles, float* states, float* mixed) {
    WarpRows place = rows_of_warp(steps, width, heads, head_size, tiles);
    StateSpace<WIDE> cell = {{values, type},    {step_sizes, type}, {written, type}, {read, type},
                             decay[place.head], place,              groups,          state_size,
                             heads,             head_size,          mixed};
    run_rows<WIDE>(cell, place, state_size, states);
}
