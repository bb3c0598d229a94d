// How the sequences of a step are divided, and what an instruction set gives for recurrent layers.
#pragma once

#include "recurrent.h"

namespace braid {

struct RecurrentKernels {
    void (*convolve)(const rl_short_conv& layer, const rl_step& step, size_t part, size_t parts);
    void (*delta_net)(const rl_delta_net& layer, const rl_step& step, size_t part, size_t parts);
    void (*mamba2)(const rl_mamba2& layer, const rl_step& step, size_t part, size_t parts);
};

extern const RecurrentKernels AVX512_RECURRENT, AVX2_RECURRENT;

namespace {  // not shared between sources: a linker must not give one source the instructions of another

constexpr size_t STATE_COST = 2;  // reading and writing a state takes as long as so many tokens, about

struct Sequence {
    size_t begin, end;  // tokens
    const int32_t* rows;
    size_t reached, interval;  // tokens since the last multiple of the interval, which is 0 where there is none

    size_t read() const { return size_t(rows[0]); }

    // The row in which the state after a token is stored; -1: none.
    int64_t row_after(size_t token) const {
        const size_t tokens = reached + token - begin + 1;
        if (token + 1 < end && (!interval || tokens % interval)) return -1;
        return rows[interval ? 1 + (tokens - 1) / interval : 1];
    }
};

inline Sequence sequence_of(const rl_step& step, size_t s) {
    const size_t interval = step.interval[s] > 0 ? size_t(step.interval[s]) : 0;
    return {size_t(step.begins[s]), size_t(step.begins[s + 1]), step.rows + step.row_begins[s],
            interval ? size_t(step.past[s]) % interval : 0, interval};
}

// Rows of states that a sequence writes.
inline size_t num_written(const Sequence& sequence) {
    const size_t tokens = sequence.end - sequence.begin;
    if (!tokens) return 0;
    return sequence.interval ? (sequence.reached + tokens - 1) / sequence.interval + 1 : 1;
}

// Calls each(sequence, begin, end) for the units of each sequence that are in a part; each sequence has `units`.
template <class Each>
void each_sequence(const rl_step& step, size_t units, size_t part, size_t parts, const Each& each) {
    const auto cost_of = [&](size_t s) {
        const size_t tokens = size_t(step.begins[s + 1] - step.begins[s]);
        return tokens ? tokens + STATE_COST : 0;
    };
    size_t all = 0, before = 0;
    for (size_t s = 0; s < step.sequences; s++) all += units * cost_of(s);
    const size_t first = all * part / parts, last = all * (part + 1) / parts;
    for (size_t s = 0; s < step.sequences; s++) {
        const size_t cost = cost_of(s);
        if (!cost) continue;
        const auto within = [&](size_t limit) {  // units of this sequence that begin before `limit`
            const size_t count = limit <= before ? 0 : (limit - before + cost - 1) / cost;
            return count < units ? count : units;
        };
        if (within(first) < within(last)) each(sequence_of(step, s), within(first), within(last));
        before += units * cost;
    }
}

}  // namespace
}  // namespace braid
