// ARM with dot products of bytes: 4 channels in a register.  Both operands of a product are signed.
#include <arm_neon.h>

#include "block_products.hpp"
#include "block_sums.hpp"

namespace braid {
namespace {

struct Neon {
    static constexpr const char* NAME = "neon";
    static constexpr size_t LANES = 4, BYTES = 16, MOST_ROWS = 4, COLUMNS = 2;
    static constexpr int OFFSET = 128;  // of a byte, for its first bit turned makes it signed
    using OneLevel = ByteSums<Neon>;
    using TwoLevelsOfFew = TwoByteSums<Neon>;
    using TwoLevelsOfMany = TwoByteSums<Neon>;
    using Float = float32x4_t;
    using Int = int32x4_t;

    static Float load(const float* at) { return vld1q_f32(at); }
    static void store(float* at, Float value) { vst1q_f32(at, value); }
    static Float broadcast(float value) { return vdupq_n_f32(value); }
    static Float multiply(Float a, Float b) { return vmulq_f32(a, b); }
    static Float add_product(Float a, Float b, Float c) { return vfmaq_f32(c, a, b); }
    static Float to_float(Int value) { return vcvtq_f32_s32(value); }
    static Float from_halves(const uint8_t* at) { return vcvt_f32_f16(read<float16x4_t>(at)); }
    static Float from_bfloats(const uint8_t* at) {
        return vreinterpretq_f32_u32(vshll_n_u16(read<uint16x4_t>(at), 16));
    }
    static void put_halves(uint8_t* at, Float value) {
        const float16x4_t halves = vcvt_f16_f32(value);
        std::memcpy(at, &halves, sizeof(halves));
    }
    static Int from_int8(const uint8_t* at) {
        return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(read<uint32_t>(at))))));
    }
    static Int times(Int a, Int b) { return vmulq_s32(a, b); }
    static Int subtract(Int a, Int b) { return vsubq_s32(a, b); }
    static Int bytes(const uint8_t* at) { return read<Int>(at); }
    static void put_bytes(uint8_t* at, Int value) { std::memcpy(at, &value, sizeof(value)); }
    static Int ints(const int32_t* at) { return vld1q_s32(at); }
    static Int either(Int a, Int b) { return vorrq_s32(a, b); }
    template <int UP, int MASK>
    static Int bits(Int value) {
        const uint8x16_t from = vreinterpretq_u8_s32(value), by = vdupq_n_u8(uint8_t(int8_t(UP)));
        return vreinterpretq_s32_u8(vandq_u8(vshlq_u8(from, vreinterpretq_s8_u8(by)), vdupq_n_u8(MASK)));
    }
    static Int look_up(const uint8_t (&table)[16], Int codes) {
        return vreinterpretq_s32_u8(vqtbl1q_u8(vld1q_u8(table), vreinterpretq_u8_s32(codes)));
    }
    static Int broadcast(int32_t value) { return vdupq_n_s32(value); }
    static Int broadcast_four(const uint8_t* at) { return vdupq_n_s32(read<int32_t>(at)); }
    static Int operand(Int line) { return veorq_s32(line, vreinterpretq_s32_u8(vdupq_n_u8(128))); }
    static Int dot(Int sum, Int line, Int activations) {
        return vdotq_s32(sum, vreinterpretq_s8_s32(line), vreinterpretq_s8_s32(activations));
    }

    static Int size_bits(Float value) {  // of the number without its sign
        return vandq_s32(vreinterpretq_s32_f32(value), vdupq_n_s32(0x7fffffff));
    }
    static Int larger(Int a, Int b) { return vmaxq_s32(a, b); }
    static Int nearest(Float value) { return vcvtnq_s32_f32(value); }
    static Int add(Int a, Int b) { return vaddq_s32(a, b); }
    static Int shifted_up_8(Int value) { return vshlq_n_s32(value, 8); }
    static Int shifted_down_8(Int value) { return vshrq_n_s32(value, 8); }
    static int32_t largest(Int value) { return vmaxvq_s32(value); }
    static int32_t total(Int value) { return vaddvq_s32(value); }
    static void put_as_bytes(const Int (&codes)[8], uint8_t* out) {
        for (size_t i = 0; i < 8; i += 2) {
            const int16x8_t words = vcombine_s16(vmovn_s32(codes[i]), vmovn_s32(codes[i + 1]));
            const int8x8_t eight = vmovn_s16(words);
            std::memcpy(out + 4 * i, &eight, sizeof(eight));
        }
    }
};

}  // namespace

const Kernels NEON_KERNELS = kernels_of<Neon>();

}  // namespace braid
