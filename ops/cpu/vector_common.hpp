// What the kernels of all instruction sets read numbers with.
#pragma once

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

}  // namespace
}  // namespace braid
