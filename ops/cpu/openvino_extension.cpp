// OpenVINO's operators by the kernels: braid.BlockLinear, FileLinear, Experts, those of GGUF files, GgufLinear,
// GgufExperts and GgufRows, and recurrent layers, ShortConv, GatedDeltaNet and Mamba2.
#include "openvino/core/op_extension.hpp"

#include "openvino_block_linear.hpp"
#include "openvino_experts.hpp"
#include "openvino_file_linear.hpp"
#include "openvino_gguf_experts.hpp"
#include "openvino_gguf_linear.hpp"
#include "openvino_gguf_rows.hpp"
#include "openvino_recurrent.hpp"

OPENVINO_CREATE_EXTENSIONS(
    std::vector<ov::Extension::Ptr>({std::make_shared<ov::OpExtension<braid::BlockLinear>>(),
                                     std::make_shared<ov::OpExtension<braid::Experts>>(),
                                     std::make_shared<ov::OpExtension<braid::FileLinear>>(),
                                     std::make_shared<ov::OpExtension<braid::GatedDeltaNet>>(),
                                     std::make_shared<ov::OpExtension<braid::GgufExperts>>(),
                                     std::make_shared<ov::OpExtension<braid::GgufLinear>>(),
                                     std::make_shared<ov::OpExtension<braid::GgufRows>>(),
                                     std::make_shared<ov::OpExtension<braid::Mamba2>>(),
                                     std::make_shared<ov::OpExtension<braid::ShortConv>>()}));

// Bytes of GGUF files that were packed in this process so far.
extern "C" uint64_t braid_packed_bytes() { return braid::packed_bytes; }

// Nanoseconds that layers of routed experts took in this process so far.
extern "C" uint64_t braid_experts_ns() { return braid::experts_ns; }

// Lets this process pack few experts of GGUF files from now on, 1, since it tries models and serves none; or all, 0.
extern "C" void braid_pack_few(int few) { braid::packs_few = few; }
