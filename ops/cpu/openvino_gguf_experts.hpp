// OpenVINO's operator braid.GgufExperts: the routed experts of a layer, whose weights are rows of a GGUF file.
//
// Inputs after those of ExpertNetwork: biases of up, down and gate, f32 [experts, rows], of which those that are absent
// have less than two axes; or none of them, since devices copy each constant at each evaluation.  Weights are read from
// the file and packed at the first evaluation, after which the file is not needed any more.  The process of a first run
// packs few (`braid_pack_few`).
//
// Attributes beside those of ExpertNetwork: experts, how many have equal shares of the rows of a weight; and those of
// GgufPlace of each weight, with up_, down_ or gate_ before their names; gate_k 0: there is no gate.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "huge_pages.h"
#include "openvino_expert_network.hpp"
#include "openvino_gguf_place.hpp"

namespace braid {

// Whether this process tries a model: then experts are packed that a token alone chooses, and stand for the others.
inline std::atomic<bool> packs_few{false};

class GgufExperts : public ExpertNetwork {
public:
    OPENVINO_OP("GgufExperts", "braid");

    GgufExperts() = default;

    void validate_and_infer_types() override {
        NODE_VALIDATION_CHECK(this, get_input_size() == ROUTED + PARTS || get_input_size() == ROUTED,
                              get_input_size(), " inputs");
        if (!m_is_checked) check_weights();
        m_is_checked = true;
        infer_mixed(sizes());
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<GgufExperts>();
        made->set_arguments(inputs);
        copy_settings(*made);
        made->m_experts = m_experts, made->m_places = m_places;
        made->m_packed = m_packed;
        made->validate_and_infer_types();
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visit_settings(visitor);
        visitor.on_attribute("experts", m_experts);
        for (size_t part = 0; part < PARTS; part++) place_of(part).visit(visitor, NAMES[part]);
        return true;
    }

protected:
    Sizes sizes() const override {
        const size_t width = size_t(place_of(UP).k), inner = size_t(place_of(DOWN).k);
        return {size_t(m_experts), width, inner, place_of(GATE).k > 0};
    }

    void prepare(const ov::TensorVector& inputs, const std::vector<bl_expert_rows>& list) const override {
        const std::lock_guard<std::mutex> lock(m_packed->mutex);
        const Sizes all = sizes();
        if (m_packed->held.empty()) {
            m_packed->held.resize(all.experts);
            for (std::vector<bl_weight>& each : m_packed->weights) each.resize(all.experts);
        }
        if (packs_few) return prepare_few(all, list, inputs[0].get_size() == all.width);
        std::vector<size_t> missing;
        for (size_t expert = 0; expert < all.experts && !m_packed->has_all; expert++)
            if (m_packed->held[expert].empty()) missing.push_back(expert);
        if (!missing.empty()) pack(all, missing);
        m_packed->has_all = true;
    }

    const bl_weight* weights(size_t part) const override { return m_packed->weights[part].data(); }

    const float* biases(size_t part, const ov::TensorVector& inputs) const override {
        if (inputs.size() == ROUTED) return nullptr;
        const ov::Tensor& bias = inputs[ROUTED + part];
        return bias.get_shape().size() > 1 ? static_cast<const float*>(bias.data()) : nullptr;
    }

private:
    static constexpr const char* NAMES[PARTS] = {"up_", "down_", "gate_"};
    static constexpr size_t CHANNELS = 16;  // that are packed together

    using Memory = std::vector<std::shared_ptr<void>>;

    void check_weights() const {
        NODE_VALIDATION_CHECK(this, m_experts > 0, m_experts, " experts");
        const Sizes all = sizes();
        for (size_t part = 0; part < all.parts(); part++) {
            const GgufPlace& place = place_of(part);
            NODE_VALIDATION_CHECK(this, place.is_known(), "type is ", place.type);
            const GgufWeight weight = place.weight();
            const bl_format format = place.format();
            NODE_VALIDATION_CHECK(this, weight.n() == all.experts * all.rows(part) && size_t(place.k) == all.columns(part),
                                  NAMES[part], "has ", weight.n(), " rows of ", place.k);
            const char* problem = bl_check(&format, all.rows(part), all.columns(part));
            NODE_VALIDATION_CHECK(this, !problem, problem ? problem : "");
            if (get_input_size() > ROUTED) has_bias(ROUTED + part, all.experts, all.rows(part));
        }
    }

    GgufPlace& place_of(size_t part) const { return (*m_places)[part]; }

    // What all copies of a node share that a device makes; `held` and `weights` are by expert.
    struct PackedExperts {
        std::mutex mutex;
        bool has_all = false, has_some = false;
        size_t last = 0;  // that was packed
        std::vector<Memory> held;
        std::array<std::vector<bl_weight>, PARTS> weights;
    };

    void prepare_few(const Sizes& all, const std::vector<bl_expert_rows>& list, bool is_alone) const {
        std::vector<size_t> missing;
        for (const bl_expert_rows& rows : list)
            if (!m_packed->weights[UP][rows.expert].packed) missing.push_back(rows.expert);
        if (missing.empty()) return;
        if (is_alone || !m_packed->has_some) return pack(all, missing);
        for (const size_t expert : missing)
            for (std::vector<bl_weight>& each : m_packed->weights) each[expert] = each[m_packed->last];
    }

    // All threads share the blocks of all experts.  Throws what keeps the file from being read.
    void pack(const Sizes& all, const std::vector<size_t>& experts) const {
        std::vector<Memory> taken(experts.size());
        for (size_t part = 0; part < all.parts(); part++) {
            const GgufWeight weight = place_of(part).weight();
            const SourceFile file = place_of(part).open();
            const bl_format format = place_of(part).format();
            const size_t n = all.rows(part), blocks = (n + CHANNELS - 1) / CHANNELS;
            for (Memory& each : taken) each.push_back(HugePages::take(bl_packed_bytes(&format, n, all.columns(part))));
            in_parallel(experts.size() * blocks, [&](size_t begin, size_t end) {
                for (size_t at = begin; at < end;) {
                    const size_t number = at / blocks, first = at % blocks, last = std::min(blocks, first + end - at);
                    weight.pack(file, experts[number] * n, n, first, last, taken[number][part].get());
                    at += last - first;
                }
            });
            file.check();
        }
        for (size_t number = 0; number < experts.size(); number++) keep(experts[number], taken[number]);
    }

    void keep(size_t expert, Memory& taken) const {
        for (size_t part = 0; part < taken.size(); part++)
            m_packed->weights[part][expert] = {place_of(part).format(), taken[part].get()};
        m_packed->held[expert].swap(taken);
        m_packed->has_some = true;
        m_packed->last = expert;
    }

    int64_t m_experts = 0;
    std::shared_ptr<std::array<GgufPlace, PARTS>> m_places = std::make_shared<std::array<GgufPlace, PARTS>>();
    std::shared_ptr<PackedExperts> m_packed = std::make_shared<PackedExperts>();
};

}  // namespace braid
