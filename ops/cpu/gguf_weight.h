// A weight whose rows are in a GGUF file: read from there and packed for the kernels, each byte once.
//
// The file is read, not mapped: one that is cut short or replaced meanwhile gives an error, and no signal.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "gguf_blocks.h"
#include "source_file.h"

namespace braid {

// Bytes of files that were packed in this process so far.
inline std::atomic<uint64_t> packed_bytes{0};

// Rows that lie one after the other, or at even distances: where the first one begins, how far the next one is,
// and how many there are.  All rows of a weight are those of its runs, in this order.
struct Run {
    int64_t offset, step, count;
};

class GgufWeight {
public:
    // `runs`: three numbers of each; n() is 0 where there is no such weight.
    GgufWeight(int type, size_t k, const std::vector<int64_t>& runs)
        : m_type(type), m_row_bytes(bl_gguf_row_bytes(type, k)), m_k(k) {
        if (!m_row_bytes || runs.size() % 3) return;
        for (size_t at = 0; at < runs.size(); at += 3) {
            const Run run{runs[at], runs[at + 1], runs[at + 2]};
            if (run.offset < 0 || run.count <= 0 || run.count > int64_t(1) << 28) {
                m_n = 0;
                return;
            }
            m_runs.push_back(run);
            m_first.push_back(m_n);
            m_n += run.count;
        }
    }

    size_t n() const { return m_n; }

    // Packs blocks [begin, end) of 16 channels of the weight of rows [first, first + n), whose beginning is `packed`.
    void pack(const SourceFile& file, size_t first, size_t n, size_t begin, size_t end, void* packed) const {
        bl_format format;
        bl_gguf_format(m_type, &format);
        const size_t block_bytes = bl_packed_bytes(&format, BLOCK, m_k);
        std::vector<uint8_t> bytes(BLOCK * m_row_bytes);
        const void* rows[BLOCK];
        for (size_t row = 0; row < BLOCK; row++) rows[row] = bytes.data() + row * m_row_bytes;
        for (size_t block = begin; block < end; block++) {
            const size_t count = std::min(BLOCK, n - block * BLOCK);
            read_rows(file, first + block * BLOCK, count, bytes.data());
            if (!bl_gguf_is_finite(m_type, count * m_k, bytes.data())) file.fail("holds weights that are not finite");
            bl_gguf_pack(m_type, count, m_k, rows, 0, 1, static_cast<uint8_t*>(packed) + block * block_bytes);
            packed_bytes += count * m_row_bytes;
        }
    }

private:
    static constexpr size_t BLOCK = 16;

    void read_rows(const SourceFile& file, size_t first, size_t count, uint8_t* into) const {
        size_t run = std::upper_bound(m_first.begin(), m_first.end(), first) - m_first.begin() - 1;
        for (; count; run++) {
            const size_t skipped = first - m_first[run], some = std::min(count, m_runs[run].count - skipped);
            read_run(file, m_runs[run], skipped, some, into);
            first += some, count -= some, into += some * m_row_bytes;
        }
    }

    void read_run(const SourceFile& file, const Run& run, size_t skipped, size_t count, uint8_t* into) const {
        const bool is_whole = run.step == int64_t(m_row_bytes);
        const size_t reads = is_whole ? 1 : count, size = is_whole ? count * m_row_bytes : m_row_bytes;
        for (size_t i = 0; i < reads; i++)
            file.read(run.offset + int64_t(skipped + i) * run.step, size, into + i * m_row_bytes);
    }

    int m_type;
    size_t m_row_bytes, m_k, m_n = 0;
    std::vector<Run> m_runs;
    std::vector<size_t> m_first;  // row of each run
};

}  // namespace braid
