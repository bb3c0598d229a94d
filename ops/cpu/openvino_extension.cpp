// OpenVINO's operator braid.BlockLinear: y = x · Wᵀ by the kernels of block_linear.h.
//
// Inputs: x [..., k], f32, bf16 or f16; codes [n, k] or [n, groups, group], u4, i4, u8 or i8; scales, f32 or
// f16, one for each group; and zero points, whole numbers of the type of the codes or f32, one for each group.
// Without them the zero point of u4 and u8 is the middle, 8 or 128, that of i4 and i8 is 0.  The last three are
// the constants of the model as they are, read in place: the weight is packed at the first evaluation, by the
// threads of the inference, and shared by all copies of the node that a device makes.
//
// Attributes: levels, of int8 numbers that stand for an activation, 1 or 2; codes, the name of their type, by
// which a device is found out that widens constants.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "block_linear.h"
#include "huge_pages.h"
#include "openvino/core/op_extension.hpp"
#include "openvino/op/op.hpp"
#include "openvino_experts.hpp"
#include "openvino_threads.hpp"
#include "stored_weight.h"

namespace {

using braid::in_parallel;
using braid::StoredWeight;
using braid::type_of;

constexpr size_t CHANNELS = 16, ROWS = 16;     // of a block of the kernels, and of a tile
constexpr size_t ROUNDED_BY_ONE = 32 * 1024;   // numbers that one thread rounds sooner than several would

struct Packed {
    std::once_flag once;
    bl_format format;
    std::shared_ptr<void> bytes;
};

class BlockLinear : public ov::op::Op {
public:
    OPENVINO_OP("BlockLinear", "braid");

    BlockLinear() = default;
    BlockLinear(const ov::OutputVector& inputs, int64_t levels, const std::string& codes)
        : Op(inputs), m_levels(levels), m_codes(codes) {
        constructor_validate_and_infer_types();
    }

    void validate_and_infer_types() override {
        NODE_VALIDATION_CHECK(this, m_levels == 1 || m_levels == 2, "levels is ", m_levels);
        NODE_VALIDATION_CHECK(this, get_input_size() == 3 || get_input_size() == 4);
        for (size_t input = 1; input < get_input_size(); input++)
            NODE_VALIDATION_CHECK(this, get_input_partial_shape(input).is_static(), "no fixed shape");
        const ov::element::Type rows = get_input_element_type(0);
        NODE_VALIDATION_CHECK(
            this, rows == ov::element::f32 || rows == ov::element::bf16 || rows == ov::element::f16, rows);
        const StoredWeight weight = described();
        m_codes = get_input_element_type(1).get_type_name();
        ov::PartialShape shape = get_input_partial_shape(0);
        NODE_VALIDATION_CHECK(this, shape.rank().is_static() && shape.size(), "x has an unknown rank");
        const ov::Dimension inner = shape[shape.size() - 1];
        NODE_VALIDATION_CHECK(this, inner.is_static() && size_t(inner.get_length()) == weight.k,
                              "x and the weight differ in k: ", inner, " and ", weight.k);
        const bl_format format = weight.widest();
        const char* problem = bl_check(&format, weight.n, weight.k);
        NODE_VALIDATION_CHECK(this, !problem, problem ? problem : "");
        shape[shape.size() - 1] = weight.n;
        set_output_type(0, rows, shape);
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        auto made = std::make_shared<BlockLinear>(inputs, m_levels, m_codes);
        made->m_packed = m_packed;
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("levels", m_levels);
        visitor.on_attribute("codes", m_codes);
        return true;
    }

    bool has_evaluate() const override { return true; }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        std::call_once(m_packed->once, [&] { pack(inputs); });
        const size_t k = inputs[0].get_shape().back(), m = inputs[0].get_size() / k;
        const size_t n = outputs[0].get_shape().back();
        const int levels = int(m_levels), type = type_of(inputs[0].get_element_type());
        static thread_local std::vector<uint64_t> scratch;
        scratch.resize((bl_rounded_bytes(levels, m, k) + 64) / 8);
        void* rounded = reinterpret_cast<void*>((reinterpret_cast<size_t>(scratch.data()) + 63) / 64 * 64);
        const void* x = inputs[0].data();
        void* y = outputs[0].data();
        const auto round = [&](size_t begin, size_t end) {
            bl_round(levels, type, m, k, x, k, begin, end, rounded);
        };
        const size_t tiles = (m + ROWS - 1) / ROWS;
        m * k > ROUNDED_BY_ONE ? in_parallel(tiles, round) : round(0, tiles);
        in_parallel((n + CHANNELS - 1) / CHANNELS, [&](size_t begin, size_t end) {
            bl_multiply(&m_packed->format, levels, type, m, n, k, rounded, m_packed->bytes.get(), begin, end,
                        y, n);
        });
        return true;
    }

private:
    // The weight as its constants say; without their bytes.
    StoredWeight described() const {
        const ov::element::Type codes = get_input_element_type(1), scales = get_input_element_type(2);
        const ov::Shape shape = get_input_shape(1);
        NODE_VALIDATION_CHECK(this, m_codes.empty() || m_codes == codes.get_type_name(), codes, " for ", m_codes);
        const bool is_signed = codes == ov::element::i4 || codes == ov::element::i8;
        const bool is_known = is_signed || codes == ov::element::u4 || codes == ov::element::u8;
        NODE_VALIDATION_CHECK(this, is_known && (shape.size() == 2 || shape.size() == 3), codes, shape);
        NODE_VALIDATION_CHECK(this, scales == ov::element::f32 || scales == ov::element::f16, scales);
        StoredWeight weight{};
        weight.n = shape[0];
        weight.k = shape.size() == 3 ? shape[1] * shape[2] : shape[1];
        weight.group = shape.back();
        weight.bits = int(codes.bitwidth());
        weight.is_signed = is_signed;
        weight.half_scales = scales == ov::element::f16;
        NODE_VALIDATION_CHECK(this, weight.n && weight.k && weight.k * weight.bits % 8 == 0, shape);
        const size_t size = weight.n * weight.groups();
        for (size_t input = 2; input < get_input_size(); input++)
            NODE_VALIDATION_CHECK(this, ov::shape_size(get_input_shape(input)) == size, get_input_shape(input));
        if (get_input_size() == 4) {
            const ov::element::Type zeros = get_input_element_type(3);
            NODE_VALIDATION_CHECK(this, zeros == codes || (zeros == ov::element::f32 && !weight.half_scales),
                                  "zero points of ", zeros);
            weight.zeros = zeros == codes ? braid::Zeros::INTEGERS : braid::Zeros::FLOATS;
        }
        return weight;
    }

    void pack(const ov::TensorVector& inputs) const {
        StoredWeight weight = described();
        weight.codes = static_cast<const uint8_t*>(inputs[1].data());
        weight.scales = inputs[2].data();
        weight.zero_points = inputs.size() > 3 ? inputs[3].data() : nullptr;
        StoredWeight::Narrow is;
        in_parallel(weight.n, [&](size_t begin, size_t end) { weight.examine(begin, end, is); });
        bl_format& format = m_packed->format = weight.narrowed(is);
        m_packed->bytes = braid::HugePages::take(bl_packed_bytes(&format, weight.n, weight.k));
        in_parallel((weight.n + CHANNELS - 1) / CHANNELS, [&](size_t begin, size_t end) {
            weight.pack(format, begin, end, m_packed->bytes.get());
        });
    }

    int64_t m_levels = 0;
    std::string m_codes;
    std::shared_ptr<Packed> m_packed = std::make_shared<Packed>();
};

}  // namespace

OPENVINO_CREATE_EXTENSIONS(
    std::vector<ov::Extension::Ptr>({std::make_shared<ov::OpExtension<BlockLinear>>(),
                                     std::make_shared<ov::OpExtension<braid::Experts>>()}));
