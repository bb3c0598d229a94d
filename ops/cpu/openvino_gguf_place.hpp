// Where in a GGUF file a weight of OpenVINO's operators is, and how they write it as attributes.
#pragma once

#include <string>
#include <vector>

#include "gguf_weight.h"
#include "openvino/core/attribute_visitor.hpp"

namespace braid {

// Attributes: file, its path; size and time, what the file has to have: bytes, and ns of its last change; type,
// ggml's number; k; and runs, three numbers for each run of rows (gguf_weight.h).
struct GgufPlace {
    std::string file;
    int64_t size = 0, time = 0, type = 0, k = 0;
    std::vector<int64_t> runs{0};  // not empty, as lists in OpenVINO's files must not be

    // `prefix` is before the names of the attributes.
    void visit(ov::AttributeVisitor& visitor, const std::string& prefix) {
        visitor.on_attribute(prefix + "file", file);
        visitor.on_attribute(prefix + "size", size);
        visitor.on_attribute(prefix + "time", time);
        visitor.on_attribute(prefix + "type", type);
        visitor.on_attribute(prefix + "k", k);
        visitor.on_attribute(prefix + "runs", runs);
    }

    bool is_known() const {
        bl_format found;
        return bl_gguf_format(int(type), &found) && k > 0;
    }

    bl_format format() const {
        bl_format found;
        bl_gguf_format(int(type), &found);
        return found;
    }

    // Of a type that is known; throws std::runtime_error.
    GgufWeight weight() const { return GgufWeight(int(type), size_t(k), runs); }
    SourceFile open() const { return SourceFile(file, size, time, "GGUF"); }
};

}  // namespace braid
