// Shapes of constants, as OpenVINO's operators check them.
#pragma once

#include "openvino/core/shape.hpp"

namespace braid {

// Whether a shape has the axes of `wanted`, and behind them only axes of one number.
inline bool has_axes(ov::Shape shape, ov::Shape wanted) {
    for (ov::Shape* one : {&shape, &wanted})
        while (!one->empty() && one->back() == 1) one->pop_back();
    return shape == wanted;
}

}  // namespace braid
