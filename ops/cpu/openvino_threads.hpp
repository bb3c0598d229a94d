// How OpenVINO's operators share their work among the threads of an inference.
#pragma once

#include <algorithm>

#define OV_THREAD OV_THREAD_TBB  // the wheel's own libtbb, and with it the arena of the inference
#include "block_linear.h"
#include "openvino/core/parallel.hpp"
#include "openvino/core/type/element_type.hpp"

namespace braid {

// Calls part(begin, end) for ranges that cover [0, count), on the threads of the arena.  Isolated: while this
// thread waits it does not begin another evaluation, which could need what it holds.
template <class Part>
void in_parallel(size_t count, const Part& part) {
    const size_t threads = std::min<size_t>(parallel_get_max_threads(), count);
    if (threads < 2) return part(0, count);
    tbb::this_task_arena::isolate([&] {
        const auto one = [&](size_t t) { part(count * t / threads, count * (t + 1) / threads); };
        tbb::parallel_for(size_t(0), threads, one, tbb::static_partitioner());
    });
}

inline int type_of(const ov::element::Type& type) {
    return type == ov::element::f32 ? BL_F32 : type == ov::element::f16 ? BL_F16 : BL_BF16;
}

}  // namespace braid
