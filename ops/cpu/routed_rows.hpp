// The rows of tokens that are routed to experts, sorted by expert; the rows of an expert are in the order of
// their tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "block_linear.h"

namespace braid {

struct RoutedRows {
    // `chosen` [tokens][used] are numbers below `experts`, by which `expert_of` gives them; false where one is not.
    template <class ExpertOf>
    bool sort(size_t tokens, size_t used, size_t experts, const ExpertOf& expert_of) {
        const size_t count = tokens * used;
        begins.assign(experts + 1, 0);
        for (size_t i = 0; i < count; i++) {
            if (expert_of(i) >= experts) return false;
            begins[expert_of(i) + 1]++;
        }
        for (size_t e = 0; e < experts; e++) begins[e + 1] += begins[e];
        list.clear();
        for (size_t e = 0; e < experts; e++)
            if (begins[e] < begins[e + 1]) list.push_back({e, begins[e], begins[e + 1]});
        places.resize(count);
        token_of.resize(count);
        for (size_t i = 0; i < count; i++) {
            places[i] = begins[expert_of(i)]++;
            token_of[places[i]] = int64_t(i / used);
        }
        return true;
    }

    size_t count() const { return token_of.size(); }

    // Calls each(expert, row) for the rows that bl_round_experts rounds in part `part` of `parts`.
    template <class Each>
    void of_part(size_t part, size_t parts, const Each& each) const {
        const size_t first = count() * part / parts, last = count() * (part + 1) / parts;
        for (const bl_expert_rows& rows : list)
            for (size_t tile = rows.begin; tile < rows.end; tile += TILE)
                for (size_t row = tile; row < rows.end && row < tile + TILE && tile >= first && tile < last; row++)
                    each(rows.expert, row);
    }

    std::vector<bl_expert_rows> list;  // of the experts that are used
    std::vector<size_t> places;        // sorted row of each token's chosen experts
    std::vector<int64_t> token_of;     // of each sorted row

private:
    static constexpr size_t TILE = 16;  // a tile belongs to the part in which it begins

    std::vector<size_t> begins;
};

}  // namespace braid
