// ONNX Runtime's operators braid.cuda.ShortConv, GatedDeltaNet and Mamba2: each launches a kernel of
// ops/cuda/recurrent.cu on the stream on which ONNX Runtime computes, so that a CUDA graph holds it too.
//
// Inputs are those of the nodes of Braid's format (pipelines/onnx_format/recurrent_format.py), a bias always, and
// then: states, float32 [rows, ...], which are read and written in place; records of a step, int32 [sequences,
// width]; and, in host memory, the number of a set of kernels, int32 [1].  `mixed` is float32.
//
// A set is compiled for one device and added from outside: nothing here needs CUDA's headers or libraries.
// On the CPU provider the same operators launch whatever stands in for a GPU.
#pragma once

#include <array>
#include <map>
#include <mutex>

#include "onnxruntime_values.hpp"
#include "state_sizes.h"

namespace braid {

// Has the parameters of cuLaunchKernel: function, blocks, threads, bytes of shared memory, stream, arguments.
using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                       void**);
enum Function { SHORT_CONVOLUTION, GATED_DELTA_NET, GATED_DELTA_NET_WIDE, MAMBA2, MAMBA2_WIDE, FUNCTIONS };

struct DeviceKernels {
    Launch launch;
    std::array<void*, FUNCTIONS> functions;
};

class KernelSets {
public:
    int add(const DeviceKernels& kernels) {
        const std::lock_guard<std::mutex> lock(m_lock);
        m_sets.emplace(++m_last, kernels);
        return m_last;
    }

    void remove(int number) {
        const std::lock_guard<std::mutex> lock(m_lock);
        m_sets.erase(number);
    }

    DeviceKernels get(int number) {
        const std::lock_guard<std::mutex> lock(m_lock);
        const auto found = m_sets.find(number);
        require(found != m_sets.end(), "the number of the kernels");
        return found->second;
    }

private:
    std::mutex m_lock;
    std::map<int, DeviceKernels> m_sets;
    int m_last = 0;
};

inline KernelSets kernel_sets;

constexpr unsigned WARP = 32, THREADS = STATE_WARPS * WARP;
constexpr size_t ROWS_OF_BLOCK = STATE_ROWS * STATE_WARPS, NARROW = STATE_NARROW, WIDEST = STATE_WIDEST;
constexpr size_t LEAST_WIDTH = WRITTEN_ROWS + 1;

struct Tensor {
    const void* data;
    Shaped is;

    int length(size_t axis) const { return int(is.shape.at(axis)); }
};

// One call of an operator: its tensors, checked, and the launch.
class StateCall {
public:
    StateCall(OrtKernelContext* context, bool on_gpu, size_t num_inputs) : m_context(context) {
        for (size_t input = 0; input < num_inputs; input++) {
            const OrtValue* value = nullptr;
            check(api->KernelContext_GetInput(context, input, &value));
            require(value, "inputs");
            m_inputs.push_back({data_of(value), shaped(value)});
        }
        if (on_gpu) check(api->KernelContext_GetGPUComputeStream(context, &m_stream));
        const Tensor& number = m_inputs.back();
        require(number.is.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 && size_of(number.is) == 1, "kernels");
        m_kernels = kernel_sets.get(*static_cast<const int32_t*>(number.data));
        require(steps().is.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "steps");
        require(steps().is.shape.size() == 2 && size_t(steps().length(1)) >= LEAST_WIDTH, "steps");
    }

    const Tensor& operator[](size_t input) const { return m_inputs[input]; }
    const Tensor& states() const { return m_inputs[m_inputs.size() - 3]; }
    const Tensor& steps() const { return m_inputs[m_inputs.size() - 2]; }

    int num_tokens() const { return m_inputs[0].length(1); }

    // An input [1, tokens, sizes...] of the type of the first one.
    const void*& of_tokens(size_t input, std::vector<size_t> sizes) {
        std::vector<int64_t> wanted{1, num_tokens()};
        wanted.insert(wanted.end(), sizes.begin(), sizes.end());
        require(m_inputs[input].is.shape == wanted && m_inputs[input].is.type == m_inputs[0].is.type, "inputs");
        return m_inputs[input].data;
    }

    // An input of float32 with `size` numbers.
    const void*& constant(size_t input, size_t size) {
        require(m_inputs[input].is.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "constants");
        require(size_of(m_inputs[input].is) == size, "constants");
        return m_inputs[input].data;
    }

    const void*& states_of(std::vector<int64_t> shape) {
        shape.insert(shape.begin(), states().is.shape.empty() ? 0 : states().is.shape[0]);
        require(states().is.shape == shape && states().is.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "states");
        return m_inputs[m_inputs.size() - 3].data;
    }

    const void*& records() { return m_inputs[m_inputs.size() - 2].data; }

    int type() const {
        switch (m_inputs[0].is.type) {
            case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT: return 0;
            case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16: return 1;
            case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16: return 2;
            default: throw Failure("inputs are of another type than float, float16 and bfloat16");
        }
    }

    // float32 [1, tokens, sizes...].
    void* output(std::vector<int64_t> sizes) {
        sizes.insert(sizes.begin(), {1, num_tokens()});
        OrtValue* value = nullptr;
        check(api->KernelContext_GetOutput(m_context, 0, sizes.data(), sizes.size(), &value));
        return data_of(value);
    }

    template <class... Arguments>
    void launch(Function function, size_t blocks, Arguments&... arguments) {
        if (!blocks) return;
        require(blocks < size_t(1) << 31, "the number of blocks");
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
        const int error = m_kernels.launch(m_kernels.functions[function], unsigned(blocks), 1, 1, THREADS, 1, 1, 0,
                                           m_stream, pointers, nullptr);
        if (error) throw Failure("the kernel cannot be launched: error " + std::to_string(error));
    }

private:
    OrtKernelContext* m_context;
    std::vector<Tensor> m_inputs;
    DeviceKernels m_kernels{};
    void* m_stream = nullptr;
};

inline size_t tiles_of(size_t rows) { return (rows + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK; }

struct ShortConv {
    static constexpr const char* NAME = "ShortConv";
    static constexpr size_t INPUTS = 6;  // rows, weight, bias
    static constexpr size_t OF_TOKENS = 1;

    explicit ShortConv(const OrtKernelInfo* info)
        : channels(int(attribute(info, "channels"))), kernel(int(attribute(info, "kernel"))) {}

    void compute(StateCall& call) const {
        const size_t size = size_t(channels);
        int type = call.type(), width = call.steps().length(1), num_seqs = call.steps().length(0);
        int64_t total = int64_t(call.num_tokens()) * channels;
        auto &rows = call.of_tokens(0, {size}), &weight = call.constant(1, size * size_t(kernel));
        auto &bias = call.constant(2, size), &states = call.states_of({channels, kernel});
        void* mixed = call.output({channels});
        call.launch(SHORT_CONVOLUTION, (size_t(total) + THREADS - 1) / THREADS, rows, type, weight, bias,
                    call.records(), width, num_seqs, channels, kernel, total, states, mixed);
    }

    int channels, kernel;
};

struct GatedDeltaNet {
    static constexpr const char* NAME = "GatedDeltaNet";
    static constexpr size_t INPUTS = 8;  // query, key, value, decay, beta
    static constexpr size_t OF_TOKENS = 5;

    explicit GatedDeltaNet(const OrtKernelInfo* info)
        : key_heads(int(attribute(info, "key_heads"))),
          key_size(int(attribute(info, "key_size"))),
          value_heads(int(attribute(info, "value_heads"))),
          value_size(int(attribute(info, "value_size"))) {
        check(api->KernelInfoGetAttribute_float(info, "epsilon", &epsilon));
        require(value_heads % key_heads == 0 && size_t(key_size) <= WIDEST, "attributes");
    }

    void compute(StateCall& call) const {
        const size_t keys = size_t(key_heads), values = size_t(value_heads);
        int type = call.type(), width = call.steps().length(1), tiles = int(tiles_of(size_t(value_size)));
        const size_t blocks = size_t(call.steps().length(0)) * values * size_t(tiles);
        auto &query = call.of_tokens(0, {keys, size_t(key_size)}), &key = call.of_tokens(1, {keys, size_t(key_size)});
        auto& value = call.of_tokens(2, {values, size_t(value_size)});
        auto &decay = call.of_tokens(3, {values}), &beta = call.of_tokens(4, {values});
        auto& states = call.states_of({value_heads, value_size, key_size});
        void* mixed = call.output({value_heads, value_size});
        call.launch(size_t(key_size) > NARROW ? GATED_DELTA_NET_WIDE : GATED_DELTA_NET, blocks, query, key, value,
                    decay, beta, type, call.records(), width, key_heads, key_size, value_heads, value_size, tiles,
                    epsilon, states, mixed);
    }

    int key_heads, key_size, value_heads, value_size;
    float epsilon = 0;
};

struct Mamba2 {
    static constexpr const char* NAME = "Mamba2";
    static constexpr size_t INPUTS = 8;  // values, steps, written, read, decay
    static constexpr size_t OF_TOKENS = 4;

    explicit Mamba2(const OrtKernelInfo* info)
        : heads(int(attribute(info, "heads"))),
          head_size(int(attribute(info, "head_size"))),
          groups(int(attribute(info, "groups"))),
          state_size(int(attribute(info, "state_size"))) {
        require(heads % groups == 0 && size_t(state_size) <= WIDEST, "attributes");
    }

    void compute(StateCall& call) const {
        const size_t all = size_t(heads), some = size_t(groups);
        int type = call.type(), width = call.steps().length(1), tiles = int(tiles_of(size_t(head_size)));
        const size_t blocks = size_t(call.steps().length(0)) * all * size_t(tiles);
        auto &values = call.of_tokens(0, {all, size_t(head_size)}), &steps = call.of_tokens(1, {all});
        auto& written = call.of_tokens(2, {some, size_t(state_size)});
        auto& read = call.of_tokens(3, {some, size_t(state_size)});
        auto &decay = call.constant(4, all), &states = call.states_of({heads, head_size, state_size});
        void* mixed = call.output({heads, head_size});
        call.launch(size_t(state_size) > NARROW ? MAMBA2_WIDE : MAMBA2, blocks, values, steps, written, read, type,
                    decay, call.records(), width, heads, head_size, groups, state_size, tiles, states, mixed);
    }

    int heads, head_size, groups, state_size;
};

template <class Node>
struct StateOperator : OrtCustomOp {
    explicit StateOperator(bool gpu) : OrtCustomOp{}, on_gpu(gpu) {
        version = ORT_API_VERSION;
        GetName = [](const OrtCustomOp*) { return Node::NAME; };
        GetExecutionProviderType = [](const OrtCustomOp* op) -> const char* {
            return static_cast<const StateOperator*>(op)->on_gpu ? "CUDAExecutionProvider" : "CPUExecutionProvider";
        };
        GetInputTypeCount = [](const OrtCustomOp*) { return Node::INPUTS; };
        GetInputType = [](const OrtCustomOp*, size_t input) {
            return input < Node::OF_TOKENS    ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED
                   : input < Node::INPUTS - 2 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
                                              : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
        };
        GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
        GetInputMemoryType = [](const OrtCustomOp*, size_t input) {
            return input == Node::INPUTS - 1 ? OrtMemTypeCPUInput : OrtMemTypeDefault;
        };
        GetOutputTypeCount = [](const OrtCustomOp*) { return size_t(1); };
        GetOutputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; };
        GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
        CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi*, const OrtKernelInfo* info, void** kernel) {
            return guarded(Node::NAME, [&] {
                *kernel = new Kernel{Node(info), static_cast<const StateOperator*>(op)->on_gpu};
            });
        };
        KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
            return guarded(Node::NAME, [&] {
                const Kernel& made = *static_cast<Kernel*>(kernel);
                StateCall call(context, made.on_gpu, Node::INPUTS);
                made.node.compute(call);
            });
        };
        KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
    }

    struct Kernel {
        Node node;
        bool on_gpu;
    };
    bool on_gpu;
};

// The domain of these operators, which belongs to the process.
inline OrtCustomOpDomain* state_domain() {
    static StateOperator<ShortConv> convs[] = {StateOperator<ShortConv>(false), StateOperator<ShortConv>(true)};
    static StateOperator<GatedDeltaNet> nets[] = {StateOperator<GatedDeltaNet>(false),
                                                  StateOperator<GatedDeltaNet>(true)};
    static StateOperator<Mamba2> spaces[] = {StateOperator<Mamba2>(false), StateOperator<Mamba2>(true)};
    OrtCustomOpDomain* made = nullptr;
    check(api->CreateCustomOpDomain("braid.cuda", &made));
    for (int i = 0; i < 2; i++)
        for (const OrtCustomOp* op : {static_cast<const OrtCustomOp*>(&convs[i]), static_cast<const OrtCustomOp*>(&nets[i]),
                                      static_cast<const OrtCustomOp*>(&spaces[i])})
            check(api->CustomOpDomain_Add(made, op));
    return made;
}

}  // namespace braid
