// Memory in huge pages, where the system has them, for what is written once and read at every step.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>

namespace braid {

constexpr size_t HUGE_PAGE = size_t(2) << 20;

// A mapping that begins at a huge page.  Pages are taken from the system as they are written.
class Region {
public:
    // Throws std::bad_alloc.
    explicit Region(size_t bytes) : size((bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE) {
        m_mapped = mmap(nullptr, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m_mapped == MAP_FAILED) throw std::bad_alloc();
        const size_t address = reinterpret_cast<size_t>(m_mapped);
        m_begin = static_cast<char*>(m_mapped) + (HUGE_PAGE - address % HUGE_PAGE) % HUGE_PAGE;
        madvise(m_begin, size, MADV_HUGEPAGE);
    }
    ~Region() { munmap(m_mapped, size + HUGE_PAGE); }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    char* at(size_t offset) const { return m_begin + offset; }

    const size_t size;

private:
    void* m_mapped;
    char* m_begin;
};

// Small pieces share regions, so that no weight of a few hundred kilobytes takes a huge page of its own.  A
// region is given back when the last piece in it is.
class HugePages {
public:
    // `bytes` of zeros, aligned to 64, behind which SLACK more can be read.  Throws std::bad_alloc.
    static std::shared_ptr<void> take(size_t bytes) {
        static HugePages all;
        const std::lock_guard<std::mutex> lock(all.m_mutex);
        std::shared_ptr<Region> region = all.m_last.lock();
        if (!region || all.m_used + bytes + SLACK > region->size) {
            region = std::make_shared<Region>(std::max(bytes + SLACK, LEAST));
            all.m_last = region;
            all.m_used = 0;
        }
        char* piece = region->at(all.m_used);
        all.m_used += (bytes + 63) / 64 * 64;
        return std::shared_ptr<void>(region, piece);
    }

private:
    static constexpr size_t LEAST = 8 * HUGE_PAGE, SLACK = 8192;  // kernels prefetch beyond the end

    std::mutex m_mutex;
    std::weak_ptr<Region> m_last;
    size_t m_used = 0;
};

}  // namespace braid
