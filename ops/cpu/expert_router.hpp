// How a router chooses a token's experts and weights them, by its scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace braid {

// What is made of a router's outputs before experts are chosen by them.
enum Scores : int64_t { PLAIN = 0, SOFTMAX = 1, SIGMOID = 2 };

struct Router {
    int64_t used = 0;  // experts of a token; 0: there is no router
    int64_t scores = PLAIN;
    int64_t of_chosen = 0;    // 1: the weights are the softmax of the scores that are chosen
    int64_t sums_to_one = 0;  // 1: weights are divided by their sum, which is at least `least`, and by `more` more
    float least = 0, more = 0;
    float factor = 1;  // of all weights

    // Of a token's `outputs` [experts], which become its scores; a correction is added to these to choose by, null:
    // none.  The first of two equal experts is the better one, and NaN the worst.
    void choose(size_t experts, float* outputs, const float* correction, int64_t* chosen, float* weights) const {
        if (scores == SOFTMAX) softmax(experts, outputs);
        if (scores == SIGMOID)
            for (size_t e = 0; e < experts; e++) outputs[e] = 1.0f / (1.0f + std::exp(-outputs[e]));
        const size_t count = size_t(used);
        for (size_t e = 0, held = 0; e < experts; e++) {  // `weights` are what the chosen ones are ranked by here
            const float rank = correction ? outputs[e] + correction[e] : outputs[e];
            if (held == count && !is_better(rank, weights[count - 1])) continue;
            size_t at = held < count ? held++ : count - 1;
            for (; at && is_better(rank, weights[at - 1]); at--)
                weights[at] = weights[at - 1], chosen[at] = chosen[at - 1];
            weights[at] = rank, chosen[at] = int64_t(e);
        }
        for (size_t i = 0; i < count; i++) weights[i] = outputs[chosen[i]];
        weigh(count, weights);
    }

private:
    static bool is_better(float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); }

    static void softmax(size_t count, float* values) {
        const float most = *std::max_element(values, values + count);
        float sum = 0;
        for (size_t i = 0; i < count; i++) sum += values[i] = std::exp(values[i] - most);
        for (size_t i = 0; i < count; i++) values[i] /= sum;
    }

    void weigh(size_t count, float* weights) const {
        if (of_chosen) softmax(count, weights);
        if (sums_to_one) {
            float sum = 0;
            for (size_t i = 0; i < count; i++) sum += weights[i];
            sum = std::max(sum, least) + more;
            for (size_t i = 0; i < count; i++) weights[i] /= sum;
        }
        if (factor != 1)
            for (size_t i = 0; i < count; i++) weights[i] *= factor;
    }
};

}  // namespace braid
