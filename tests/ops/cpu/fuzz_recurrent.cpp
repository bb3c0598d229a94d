// Random sizes and steps through the kernels of recurrent layers: all instruction sets and numbers of parts must give
// the same bits.  Behind each array is a page that may not be touched, or what a sanitizer watches.
// Usage: fuzz_recurrent SEED CASES
#include <cstdio>
#include <cstring>
#include <vector>

#include "block_linear.h"
#include "random_bytes.hpp"
#include "recurrent.h"

namespace {

constexpr size_t ROWS = 24;

// Numbers from -1 to 1.
struct Floats : Bytes {
    explicit Floats(size_t count) : Bytes(count * sizeof(float)) {
        for (size_t i = 0; i < count; i++) {
            const float number = float(generator() % 2001) / 1000 - 1;
            std::memcpy(at + i * sizeof(float), &number, sizeof(float));
        }
    }
    float* numbers() const { return reinterpret_cast<float*>(at); }
};

struct Ints : Bytes {
    explicit Ints(const std::vector<int32_t>& values) : Bytes(values.size() * sizeof(int32_t)) {
        if (size) std::memcpy(at, values.data(), size);
    }
    const int32_t* numbers() const { return reinterpret_cast<int32_t*>(at); }
};

// Sequences that each have rows of their own.
struct Steps {
    std::vector<int32_t> begins{0}, rows, row_begins{0}, past, interval;

    Steps() {
        for (size_t s = upto(3), row = 0; s; s--) {
            const size_t tokens = upto(40), every = one_of<size_t>({0, 0, 1 << 30, 16 + upto(9)});
            past.push_back(int32_t(upto(50)));
            interval.push_back(int32_t(every));
            const size_t written = every ? (size_t(past.back()) % every + tokens + every - 1) / every : 1;
            for (size_t i = 0; i <= written; i++) rows.push_back(int32_t(row + i - (i == 1 && upto(1))));
            row += written + 1;
            begins.push_back(begins.back() + int32_t(tokens));
            row_begins.push_back(int32_t(rows.size()));
        }
    }
};

// Runs one layer with all instruction sets; `run` computes a part, with states and results that it is given.
template <class Run>
bool agrees(const Steps& steps, size_t state, size_t mixed, const Run& run) {
    const Ints begins(steps.begins), rows(steps.rows), row_begins(steps.row_begins), past(steps.past),
        interval(steps.interval);
    const rl_step step{steps.past.size(), begins.numbers(), rows.numbers(), row_begins.numbers(), past.numbers(),
                       interval.numbers()};
    const size_t tokens = size_t(steps.begins.back());
    if (const char* problem = rl_check(&step, tokens, ROWS, steps.rows.size())) {
        std::printf("%s\n", problem);
        return false;
    }
    const Floats first(ROWS * state);
    std::vector<uint8_t> wanted;
    for (const char* name : {"avx512vnni", "avxvnni", "avx2", "neon"}) {
        if (!bl_set_isa(name)) continue;
        const Floats states(ROWS * state), results(tokens * mixed);
        std::memcpy(states.at, first.at, first.size);
        std::memset(results.at, 0, results.size);
        const size_t parts = 1 + upto(9);
        for (size_t part = 0; part < parts; part++) run(step, states.numbers(), results.numbers(), part, parts);
        std::vector<uint8_t> got(states.at, states.at + states.size);
        got.insert(got.end(), results.at, results.at + results.size);
        if (!wanted.empty() && got != wanted) return false;
        wanted = got;
    }
    return true;
}

bool try_conv(const Steps& steps) {
    const size_t channels = 1 + upto(150), kernel = 1 + upto(5), tokens = size_t(steps.begins.back());
    const Floats rows(tokens * channels), weight(channels * kernel), bias(channels);
    const float* added = upto(1) ? bias.numbers() : nullptr;
    return agrees(steps, channels * kernel, channels, [&](const rl_step& step, float* states, float* mixed, size_t part, size_t parts) {
        const rl_short_conv layer{channels, kernel, rows.numbers(), weight.numbers(), added, states, mixed};
        rl_convolve(&layer, &step, part, parts);
    });
}

bool try_net(const Steps& steps) {
    const size_t keys = 1 + upto(2), size = 1 + upto(139), heads = keys * (1 + upto(2)), values = 1 + upto(69);
    const size_t tokens = size_t(steps.begins.back());
    const Floats query(tokens * keys * size), key(tokens * keys * size), value(tokens * heads * values);
    const Floats decay(tokens * heads), beta(tokens * heads);
    return agrees(steps, heads * values * size, heads * values, [&](const rl_step& step, float* states, float* mixed, size_t part, size_t parts) {
        const rl_delta_net layer{keys,          size,            heads,           values,         1e-6f, query.numbers(),
                                 key.numbers(), value.numbers(), decay.numbers(), beta.numbers(), states, mixed};
        rl_run_delta_net(&layer, &step, part, parts);
    });
}

bool try_mamba(const Steps& steps) {
    const size_t groups = 1 + upto(2), size = 1 + upto(139), heads = groups * (1 + upto(2)), values = 1 + upto(69);
    const size_t tokens = size_t(steps.begins.back());
    const Floats x(tokens * heads * values), dt(tokens * heads), written(tokens * groups * size);
    const Floats read(tokens * groups * size), decay(heads);
    return agrees(steps, heads * values * size, heads * values, [&](const rl_step& step, float* states, float* mixed, size_t part, size_t parts) {
        const rl_mamba2 layer{groups,       size,              heads,          values,          x.numbers(),
                              dt.numbers(), written.numbers(), read.numbers(), decay.numbers(), states, mixed};
        rl_run_mamba2(&layer, &step, part, parts);
    });
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return 2;
    generator.seed(unsigned(std::atoi(arguments[1])));
    const int cases = std::atoi(arguments[2]);
    for (int i = 0; i < cases; i++) {
        const Steps steps;
        if (!(i % 3 == 0 ? try_conv(steps) : i % 3 == 1 ? try_net(steps) : try_mamba(steps))) {
            std::printf("case %d differs\n", i);
            return 1;
        }
    }
    std::printf("%d cases agree\n", cases);
}
