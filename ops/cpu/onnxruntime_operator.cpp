// ONNX Runtime's operator braid.BlockLinear: y = x · Wᵀ by the kernels of block_linear.h.
//
// Its inputs and attributes are those of com.microsoft.MatMulNBits: x [..., K], float; codes [N, K / block_size,
// bytes], uint8; scales [N, K / block_size], float; and zero points, uint8 as the codes or float.  A further
// attribute, levels, is the number of int8 numbers that stand for an activation, 1 or 2.  All but x are
// initializers, and K / block_size is even where zero points have 4 bits.  The weight is packed at the first
// step.
//
// Only the C interface of ONNX Runtime is used, which later releases have too.
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "block_linear.h"
#include "huge_pages.h"
#include "onnxruntime_values.hpp"
#include "state_operators.hpp"
#include "stored_weight.h"

namespace {

using namespace braid;

constexpr size_t CHANNELS = 16, ROWS = 16;     // of a block of the kernels, and of a tile
constexpr size_t MOST_PARTS = 32;              // of a loop, which the threads of the session share
constexpr size_t PART_BYTES = 32 * 1024;       // of weights: less is not worth a second thread
constexpr size_t ROUNDED_BY_ONE = 32 * 1024;   // numbers that one thread rounds sooner than several would
constexpr size_t X = 0, CODES = 1, SCALES = 2, ZEROS = 3, INPUTS = 4;

// Calls part(begin, end) for ranges that cover [0, count), in at most `parts`, by the threads of the session.
template <class Part>
void in_parallel(OrtKernelContext* context, size_t count, size_t parts, const Part& part) {
    parts = std::min({parts, count, MOST_PARTS});
    if (parts < 2) return part(0, count);
    struct Given {
        const Part& part;
        size_t count, parts;
    } given{part, count, parts};
    const auto one = [](void* data, size_t t) {
        const Given& it = *static_cast<Given*>(data);
        it.part(it.count * t / it.parts, it.count * (t + 1) / it.parts);
    };
    check(api->KernelContext_ParallelFor(context, one, parts, 0, &given));
}

class Kernel {
public:
    explicit Kernel(const OrtKernelInfo* info) {
        m_weight.n = attribute(info, "N");
        m_weight.k = attribute(info, "K");
        m_weight.group = attribute(info, "block_size");
        m_weight.bits = int(attribute(info, "bits"));
        m_levels = int(attribute(info, "levels"));
        const size_t n = m_weight.n, k = m_weight.k, group = m_weight.group;
        require(m_levels == 1 || m_levels == 2, "levels");
        require(group && k && n && k % group == 0 && (m_weight.bits == 4 || m_weight.bits == 8), "attributes");
        require(std::string(bl_isa()) != "none", "processor");
        size_t count = 0;
        check(api->KernelInfo_GetInputCount(info, &count));
        const OrtValue* given[INPUTS] = {};
        for (size_t input = CODES; input < std::min(count, INPUTS); input++) given[input] = constant(info, input);
        require(given[CODES] && given[SCALES], "constants");
        m_weight.codes = bytes(given[CODES], n * k * size_t(m_weight.bits) / 8);
        require(shaped(given[SCALES]).type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "scales");
        require(size_of(shaped(given[SCALES])) == n * m_weight.groups(), "scales");
        m_weight.scales = data_of(given[SCALES]);
        if (given[ZEROS]) read_zeros(given[ZEROS]);
        const bl_format format = m_weight.widest();
        if (const char* problem = bl_check(&format, n, k)) throw Failure(problem);
    }

    void compute(OrtKernelContext* context) {
        const OrtValue* value = nullptr;
        check(api->KernelContext_GetInput(context, X, &value));
        const Shaped rows = shaped(value);
        const size_t k = m_weight.k, n = m_weight.n, m = size_of(rows) / k;
        require(!rows.shape.empty() && size_t(rows.shape.back()) == k, "K");
        std::vector<int64_t> shape = rows.shape;
        shape.back() = int64_t(n);
        OrtValue* output = nullptr;
        check(api->KernelContext_GetOutput(context, 0, shape.data(), shape.size(), &output));
        std::call_once(m_once, [&] { pack(context); });
        if (m) multiply(context, m, data_of(value), data_of(output));
    }

private:
    // The initializer of an input; null where it is left out.
    static const OrtValue* constant(const OrtKernelInfo* info, size_t input) {
        int is_constant = 0;
        const OrtValue* value = nullptr;
        check(api->KernelInfoGetConstantInput_tensor(info, input, &is_constant, &value));
        return is_constant ? value : nullptr;
    }

    static const uint8_t* bytes(const OrtValue* value, size_t size) {
        const Shaped given = shaped(value);
        require(given.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 && size_of(given) == size, "bytes");
        return static_cast<const uint8_t*>(data_of(value));
    }

    void read_zeros(const OrtValue* value) {
        const size_t size = m_weight.n * m_weight.groups();
        const bool are_floats = shaped(value).type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
        m_weight.zeros = are_floats ? braid::Zeros::FLOATS : braid::Zeros::INTEGERS;
        require(are_floats || m_weight.bits == 8 || m_weight.groups() % 2 == 0, "zero points");
        require(!are_floats || size_of(shaped(value)) == size, "zero points");
        m_weight.zero_points = are_floats ? data_of(value) : bytes(value, size * size_t(m_weight.bits) / 8);
    }

    void pack(OrtKernelContext* context) {
        braid::StoredWeight::Narrow is;
        in_parallel(context, m_weight.n, MOST_PARTS,
                    [&](size_t begin, size_t end) { m_weight.examine(begin, end, is); });
        m_format = m_weight.narrowed(is);
        m_packed = braid::HugePages::take(bl_packed_bytes(&m_format, m_weight.n, m_weight.k));
        in_parallel(context, blocks(), MOST_PARTS,
                    [&](size_t begin, size_t end) { m_weight.pack(m_format, begin, end, m_packed.get()); });
    }

    void multiply(OrtKernelContext* context, size_t m, const void* x, void* y) const {
        const size_t k = m_weight.k, n = m_weight.n, tiles = (m + ROWS - 1) / ROWS;
        static thread_local std::vector<uint64_t> scratch;
        const size_t size = (bl_rounded_bytes(m_levels, m, k) + 64) / 8;
        if (scratch.size() < size) scratch.resize(size);
        void* rounded = reinterpret_cast<void*>((reinterpret_cast<size_t>(scratch.data()) + 63) / 64 * 64);
        in_parallel(context, tiles, m * k > ROUNDED_BY_ONE ? tiles : 1, [&](size_t begin, size_t end) {
            bl_round(m_levels, BL_F32, m, k, x, k, begin, end, rounded);
        });
        const size_t parts = bl_packed_bytes(&m_format, n, k) * m / PART_BYTES;
        in_parallel(context, blocks(), parts, [&](size_t begin, size_t end) {
            bl_multiply(&m_format, m_levels, BL_F32, m, n, k, rounded, m_packed.get(), begin, end, y, n);
        });
    }

    size_t blocks() const { return (m_weight.n + CHANNELS - 1) / CHANNELS; }

    braid::StoredWeight m_weight{};
    int m_levels = 0;
    std::once_flag m_once;
    bl_format m_format{};
    std::shared_ptr<void> m_packed;
};

struct Operator : OrtCustomOp {
    Operator() : OrtCustomOp{} {
        version = ORT_API_VERSION;
        GetName = [](const OrtCustomOp*) { return "BlockLinear"; };
        GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
        GetInputTypeCount = [](const OrtCustomOp*) { return INPUTS; };
        GetInputType = [](const OrtCustomOp*, size_t input) {
            return input == CODES   ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8
                   : input == ZEROS ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED
                                    : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
        };
        GetInputCharacteristic = [](const OrtCustomOp*, size_t input) {
            return input == ZEROS ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
        };
        GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
        GetOutputTypeCount = [](const OrtCustomOp*) { return size_t(1); };
        GetOutputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; };
        GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
        CreateKernelV2 = [](const OrtCustomOp*, const OrtApi*, const OrtKernelInfo* info, void** kernel) {
            return guarded("braid.BlockLinear", [&] { *kernel = new Kernel(info); });
        };
        KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
            return guarded("braid.BlockLinear", [&] { static_cast<Kernel*>(kernel)->compute(context); });
        };
        KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
    }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(OrtSessionOptions* options,
                                                                               const OrtApiBase* base) {
    static Operator block_linear;
    api = base->GetApi(ORT_API_VERSION);
    if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "ONNX Runtime is older than its header");
    return guarded("braid", [&] {
        static OrtCustomOpDomain* const domain = [] {  // belongs to the process
            OrtCustomOpDomain* made = nullptr;
            check(api->CreateCustomOpDomain("braid", &made));
            check(api->CustomOpDomain_Add(made, &block_linear));
            return made;
        }();
        static OrtCustomOpDomain* const with_states = state_domain();
        check(api->AddCustomOpDomain(options, domain));
        check(api->AddCustomOpDomain(options, with_states));
    });
}

// Adds the kernels of a device, in the order of `Function`; returns the number of the set, or 0 where there are
// not as many as there have to be.
extern "C" __attribute__((visibility("default"))) int braid_add_kernels(void* launch, void* const* functions,
                                                                              int count) {
    if (count != braid::FUNCTIONS || !launch) return 0;
    braid::DeviceKernels kernels{reinterpret_cast<braid::Launch>(launch), {}};
    for (int i = 0; i < count; i++) kernels.functions[size_t(i)] = functions[i];
    return braid::kernel_sets.add(kernels);
}

// Forgets a set, once no session launches its kernels any more.
extern "C" __attribute__((visibility("default"))) void braid_remove_kernels(int number) {
    braid::kernel_sets.remove(number);
}
