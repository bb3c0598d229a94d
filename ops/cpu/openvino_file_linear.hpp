// OpenVINO's operator braid.FileLinear: y = x · Wᵀ as BlockLinear, where the weights are in a model's file.
//
// Input: x [..., k], f32, bf16 or f16.  Devices copy each constant of such an operator at each evaluation, to find
// the shapes of its outputs; here there is none.  The weights are read and packed at the first evaluation, after which
// the file is not needed any more.
//
// Attributes: those of PackedLinear; file, its path; size and time, what the file has to have: bytes, and ns of its
// last change; types, of the codes, scales and zero points of each weight, or "none" in place of the last, all with a
// space between them; and places, six numbers of each: n, groups, weights of a group, and where in the file codes,
// scales and zero points begin.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "openvino/core/attribute_visitor.hpp"
#include "openvino_stored_linear.hpp"
#include "source_file.h"

namespace braid {

struct FilePlace {
    std::string file, types;
    int64_t size = 0, time = 0;
    std::vector<int64_t> places{0};  // not empty, as lists in OpenVINO's files must not be
};

class FileLinear : public StoredLinear {
public:
    OPENVINO_OP("FileLinear", "braid");

    FileLinear() = default;

    void validate_and_infer_types() override {
        NODE_VALIDATION_CHECK(this, get_input_size() == 1);
        if (infer_again()) return;
        const std::vector<StoredWeight> stored = described();
        std::vector<PackedWeight> weights;
        for (const StoredWeight& weight : stored) {
            NODE_VALIDATION_CHECK(this, weight.k == stored[0].k, stored[0].k, " and ", weight.k, " columns");
            weights.push_back({weight.widest(), weight.n, nullptr});
        }
        infer_product(weights, stored[0].k);
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<FileLinear>();
        made->set_arguments(inputs);
        copy_settings(*made);
        made->m_place = m_place;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visit_settings(visitor);
        visitor.on_attribute("file", m_place->file);
        visitor.on_attribute("size", m_place->size);
        visitor.on_attribute("time", m_place->time);
        visitor.on_attribute("types", m_place->types);
        visitor.on_attribute("places", m_place->places);
        return true;
    }

protected:
    void pack(const ov::TensorVector&, Packed& packed) const override {
        const SourceFile file(m_place->file, m_place->size, m_place->time);
        std::vector<StoredWeight> weights = described();
        for (size_t number = 0; number < weights.size(); number++) {
            StoredWeight& weight = weights[number];
            const int64_t* at = &m_place->places[NUMBERS * number + 3];
            const size_t groups = weight.n * weight.groups(), code_bytes = weight.n * weight.k * weight.bits / 8;
            const bool has_zeros = weight.zeros != Zeros::MIDDLE;
            const SourceFile::Mapping codes(file, at[0], code_bytes);
            const SourceFile::Mapping scales(file, at[1], groups * (weight.half_scales ? 2 : 4));
            const SourceFile::Mapping zeros(file, has_zeros ? at[2] : at[1], has_zeros ? zero_bytes(weight) : 1);
            weight.codes = codes.data, weight.scales = scales.data, weight.zero_points = zeros.data;
            pack_stored(weight, packed.weights[number], [&] { codes.release(), scales.release(), zeros.release(); });
        }
        file.check();
    }

private:
    static constexpr size_t NUMBERS = 6;  // of a weight

    static size_t zero_bytes(const StoredWeight& weight) {
        const size_t groups = weight.n * weight.groups();
        return weight.zeros == Zeros::FLOATS ? 4 * groups : (groups * weight.bits + 7) / 8;
    }

    std::vector<StoredWeight> described() const {
        const std::vector<int64_t>& numbers = m_place->places;
        NODE_VALIDATION_CHECK(this, !numbers.empty() && numbers.size() % NUMBERS == 0, numbers.size(),
                              " numbers of places");
        std::istringstream types(m_place->types);
        std::vector<StoredWeight> weights;
        for (size_t at = 0; at < numbers.size(); at += NUMBERS) {
            std::string codes, scales, zeros;
            NODE_VALIDATION_CHECK(this, types >> codes >> scales >> zeros, "types are ", m_place->types);
            for (size_t i = 0; i < 3; i++)
                NODE_VALIDATION_CHECK(this, numbers[at + i] > 0 && numbers[at + i] <= int64_t(1) << 28, "sizes");
            weights.push_back(stored_weight(
                size_t(numbers[at]), size_t(numbers[at + 1]), size_t(numbers[at + 2]), ov::element::Type(codes),
                ov::element::Type(scales), zeros == "none" ? ov::element::dynamic : ov::element::Type(zeros)));
        }
        std::string more;
        NODE_VALIDATION_CHECK(this, !(types >> more), "types are ", m_place->types);
        return weights;
    }

    std::shared_ptr<FilePlace> m_place = std::make_shared<FilePlace>();  // that copies share
};

}  // namespace braid
