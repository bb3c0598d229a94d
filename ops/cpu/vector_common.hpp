// What the kernels of all instruction sets read numbers with.
#pragma once

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in the compiler's own header
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include <cstring>

#include "block_kernels.hpp"
#include "block_layout.hpp"

namespace braid {
namespace {  // not shared between sources: a linker must not give one source the instructions of another

template <class T>
inline T read(const void* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}

inline void halves_to_floats(const uint8_t* halves, size_t count, float* out) {
    for (size_t i = 0; i < count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(read<__m128i>(halves + 2 * i)));
}

}  // namespace
}  // namespace braid
