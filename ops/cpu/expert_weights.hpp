// The weights of a layer's experts, each packed when it is first used.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "block_linear.h"
#include "huge_pages.h"
#include "stored_weight.h"

namespace braid {

// Whether an address is in a mapped file.
inline bool is_in_file(const void* address) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "r"), std::fclose);
    char line[512];
    while (maps && std::fgets(line, sizeof line, maps.get())) {
        size_t begin, end;
        unsigned long inode;
        if (std::sscanf(line, "%zx-%zx %*s %*s %*s %lu", &begin, &end, &inode) != 3) continue;
        const size_t at = reinterpret_cast<size_t>(address);
        if (begin <= at && at < end) return inode != 0;
    }
    return false;
}

// Gives the pages back that are wholly within a range of a file, which are read again when they are needed.
inline void give_back(const void* begin, size_t bytes) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE)), at = reinterpret_cast<size_t>(begin);
    const size_t first = (at + page - 1) / page * page, last = (at + bytes) / page * page;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

class ExpertWeights {
public:
    ExpertWeights() = default;

    // `first` is the weight of expert 0, behind which are those of the others.
    ExpertWeights(const StoredWeight& first, size_t experts) : m_first(first), m_held(experts), m_packed(experts) {
        m_are_mapped = is_in_file(first.codes);
    }

    const bl_weight* packed() const { return m_packed.data(); }

    bool has(size_t expert) const { return m_packed[expert].packed; }

    // Packs the weight of an expert, by threads as `in_parallel` has them.  Throws std::bad_alloc.
    template <class InParallel>
    void pack(size_t expert, const InParallel& in_parallel) {
        const StoredWeight weight = of(expert);
        StoredWeight::Narrow is;
        in_parallel(weight.n, [&](size_t begin, size_t end) { weight.examine(begin, end, is); });
        const bl_format format = weight.narrowed(is);
        const std::shared_ptr<void> bytes = HugePages::take(bl_packed_bytes(&format, weight.n, weight.k));
        in_parallel((weight.n + CHANNELS - 1) / CHANNELS, [&](size_t begin, size_t end) {
            weight.pack(format, begin, end, bytes.get());
        });
        m_held[expert] = bytes;
        m_packed[expert] = {format, bytes.get()};
        if (m_are_mapped) {
            give_back(weight.codes, code_bytes());
            give_back(weight.scales, scale_bytes());
            if (weight.zero_points) give_back(weight.zero_points, zero_bytes());
        }
    }

private:
    static constexpr size_t CHANNELS = 16;

    size_t code_bytes() const { return m_first.n * m_first.k * size_t(m_first.bits) / 8; }
    size_t scale_bytes() const { return m_first.n * m_first.groups() * (m_first.half_scales ? 2 : 4); }
    size_t zero_bytes() const {
        const size_t count = m_first.n * m_first.groups();
        return m_first.zeros == Zeros::FLOATS ? 4 * count : count * size_t(m_first.bits) / 8;
    }

    StoredWeight of(size_t expert) const {
        StoredWeight weight = m_first;
        weight.codes += expert * code_bytes();
        weight.scales = static_cast<const char*>(weight.scales) + expert * scale_bytes();
        if (weight.zero_points)
            weight.zero_points = static_cast<const char*>(weight.zero_points) + expert * zero_bytes();
        return weight;
    }

    StoredWeight m_first{};
    bool m_are_mapped = false;
    std::vector<std::shared_ptr<void>> m_held;
    std::vector<bl_weight> m_packed;
};

}  // namespace braid
