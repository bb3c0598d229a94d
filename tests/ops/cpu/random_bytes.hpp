// Random numbers and bytes of programs that try kernels with random cases.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>

namespace {

std::mt19937 generator;

size_t upto(size_t most) { return generator() % (most + 1); }

template <class T>
T one_of(std::initializer_list<T> values) {
    return values.begin()[upto(values.size() - 1)];
}

// Random bytes, not one more than asked for.
class Bytes {
public:
    explicit Bytes(size_t count) : size(count) {
#ifdef __SANITIZE_ADDRESS__
        at = m_mapped = static_cast<uint8_t*>(std::malloc(count));
#else
        m_bytes = (count + PAGE - 1) / PAGE * PAGE + PAGE;
        m_mapped = static_cast<uint8_t*>(
            mmap(nullptr, m_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(m_mapped + m_bytes - PAGE, PAGE, PROT_NONE);
        at = m_mapped + m_bytes - PAGE - count;
#endif
        for (size_t i = 0; i < count; i++) at[i] = uint8_t(generator());
    }
    ~Bytes() {
#ifdef __SANITIZE_ADDRESS__
        std::free(m_mapped);
#else
        munmap(m_mapped, m_bytes);
#endif
    }
    Bytes(const Bytes&) = delete;

    const size_t size;
    uint8_t* at;

private:
    static constexpr size_t PAGE = 4096;
    uint8_t* m_mapped;
    size_t m_bytes = 0;
};

}  // namespace
