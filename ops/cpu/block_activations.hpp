// Rounding of activations, and reading what was rounded, for vectors V (block_products.hpp).
#pragma once

#include "vector_common.hpp"

namespace braid {
namespace {

constexpr int32_t LEAST = (127 - 100) << 23;  // bits of the least number that does not count as 0: 2^-100
constexpr int32_t INFINITE = 255 << 23;       // bits of infinity; those of NaN are above

// A panel is up to MOST_ROWS rows, a power of two.  For each segment it has the codes of its rows, then for
// each row: the scale, the sum of the codes, that of the first half of them, and scale * sum as float32.
enum Number { SCALE, SUM, FIRST_SUM, VALUE, NUMBERS };

template <class Sums>
constexpr size_t ROW_BYTES = Sums::CODE_BYTES + 4 * NUMBERS;

inline size_t panel_rows(size_t left, size_t most) {
    while (most > left) most /= 2;
    return most;
}

// Codes around a middle, codes from 0 with a minimum, or codes around zeros of their groups.
enum Zeros { MIDDLE, MINIMUM, INTEGERS };

// A segment of a panel of R rows; IN_HALVES: of which each half is a part with a scale of the weights.
template <class V, class Sums, bool IN_HALVES, int R>
struct PanelSegment {
    const uint8_t* at;

    void next() { at += R * ROW_BYTES<Sums>; }
    const uint8_t* codes(int r) const { return at + r * Sums::CODE_BYTES; }
    int32_t sum(int part, int r) const {
        if (!IN_HALVES) return number<int32_t>(SUM, r);
        const int32_t first = number<int32_t>(FIRST_SUM, r);
        return part ? number<int32_t>(SUM, r) - first : first;
    }

    // What a part's sum begins with, so that each code is less by `middle`, or by `zeros` where it has those, of
    // which Sums::OFFSET is taken from an operand itself.
    template <int ZEROS>
    typename V::Int start(int middle, const int32_t* zeros, int part, int r) const {
        if (ZEROS != INTEGERS) return V::broadcast(-middle * sum(part, r));
        return V::times(V::subtract(V::broadcast(Sums::OFFSET), V::ints(zeros)), V::broadcast(sum(part, r)));
    }

    // Adds a part's sum to a total.
    template <int ZEROS>
    typename V::Float add(typename V::Float total, typename V::Float sum_of_products, int part, int r,
                          typename V::Float scale, typename V::Float minimum) const {
        const typename V::Float scaled = V::multiply(scale, V::broadcast(number<float>(SCALE, r)));
        total = V::add_product(sum_of_products, scaled, total);
        if (ZEROS != MINIMUM) return total;
        const float value = !IN_HALVES ? number<float>(VALUE, r)
                                       : number<float>(SCALE, r) * static_cast<float>(sum(part, r));
        return V::add_product(minimum, V::broadcast(value), total);
    }

private:
    template <class T>
    T number(Number which, int r) const {
        return read<T>(at + R * (Sums::CODE_BYTES + 4 * which) + 4 * r);
    }
};

template <class V>
using SegmentFloats = typename V::Float[SEGMENT / V::LANES];
template <class V>
using SegmentInts = typename V::Int[SEGMENT / V::LANES];

template <class V, int TYPE>
inline void read_whole(const uint8_t* x, SegmentFloats<V>& out) {
    for (size_t i = 0; i < SEGMENT / V::LANES; i++, x += V::LANES * (TYPE == BL_F32 ? 4 : 2))
        out[i] = TYPE == BL_F32   ? V::load(reinterpret_cast<const float*>(x))
                 : TYPE == BL_F16 ? V::from_halves(x)
                                  : V::from_bfloats(x);
}

// `count` numbers as float32, and zeros up to 32.
template <class V, int TYPE>
inline void read_segment(const uint8_t* x, size_t count, SegmentFloats<V>& out) {
    constexpr size_t SIZE = TYPE == BL_F32 ? 4 : 2;
    if (count >= SEGMENT) return read_whole<V, TYPE>(x, out);
    alignas(64) uint8_t padded[SEGMENT * SIZE] = {};
    std::memcpy(padded, x, count * SIZE);
    read_whole<V, TYPE>(padded, out);
}

// Rounds a segment to `codes` and returns its scale.
template <class V>
inline float round_segment(const SegmentFloats<V>& x, float largest_code, SegmentInts<V>& codes) {
    typename V::Int bits = V::size_bits(x[0]);
    for (size_t i = 1; i < SEGMENT / V::LANES; i++) bits = V::larger(bits, V::size_bits(x[i]));
    const int32_t most = V::largest(bits);
    if (most < LEAST || most >= INFINITE) {
        for (auto& code : codes) code = V::broadcast(0);
        return most < LEAST ? 0.0f : read<float>(&most) - read<float>(&most);  // 0, or NaN
    }
    const float largest = read<float>(&most);
    const typename V::Float inverse = V::broadcast(largest_code / largest);
    for (size_t i = 0; i < SEGMENT / V::LANES; i++) codes[i] = V::nearest(V::multiply(x[i], inverse));
    return largest / largest_code;
}

// Writes the numbers of a row's segment, `rows` apart.
template <class V>
inline void write_numbers(float scale, const SegmentInts<V>& codes, size_t rows, uint8_t* out) {
    constexpr size_t HALF = SEGMENT / V::LANES / 2;
    typename V::Int first = codes[0], second = codes[HALF];
    for (size_t i = 1; i < HALF; i++) {
        first = V::add(first, codes[i]);
        second = V::add(second, codes[HALF + i]);
    }
    const int32_t half = V::total(first), sum = half + V::total(second);
    const float value = scale * static_cast<float>(sum);
    std::memcpy(out + 4 * rows * SCALE, &scale, 4);
    std::memcpy(out + 4 * rows * SUM, &sum, 4);
    std::memcpy(out + 4 * rows * FIRST_SUM, &half, 4);
    std::memcpy(out + 4 * rows * VALUE, &value, 4);
}

template <int LEVELS>
constexpr float LARGEST_CODE = LEVELS == 1 ? 127.0f : 32639.0f;

// A segment of one of `rows`, whose values are in registers.
template <class V, class Sums, int LEVELS>
inline void round_row(const SegmentFloats<V>& values, size_t r, size_t rows, uint8_t* to) {
    SegmentInts<V> codes;
    const float scale = round_segment<V>(values, LARGEST_CODE<LEVELS>, codes);
    Sums::put(codes, to + r * Sums::CODE_BYTES);
    write_numbers<V>(scale, codes, rows, to + rows * Sums::CODE_BYTES + 4 * r);
}

// A segment of all rows of a whole panel, as round_row writes it: what is found of a row is found of all at once.
template <class V, class Sums, int LEVELS>
inline void round_rows(const SegmentFloats<V> (&values)[V::MOST_ROWS], uint8_t* to) {
    constexpr size_t ROWS = V::MOST_ROWS;
    static_assert(V::LANES * 2 == SEGMENT, "a half is a register");
    typename V::Int sizes[ROWS], first[ROWS], second[ROWS];
    for (size_t r = 0; r < ROWS; r++) sizes[r] = V::larger(V::size_bits(values[r][0]), V::size_bits(values[r][1]));
    int32_t most[ROWS], wholes[2][ROWS];
    V::put_largest(sizes, most);
    bool is_finite = true;
    for (size_t r = 0; r < ROWS; r++) is_finite &= most[r] < INFINITE;
    if (!is_finite) {
        for (size_t r = 0; r < ROWS; r++) round_row<V, Sums, LEVELS>(values[r], r, ROWS, to);
        return;
    }
    float scales[ROWS], inverse[ROWS], products[ROWS];
    std::memcpy(scales, most, sizeof(most));
    for (size_t r = 0; r < ROWS; r++) {
        const float largest = scales[r];
        inverse[r] = most[r] < LEAST ? 0.0f : LARGEST_CODE<LEVELS> / largest;
        scales[r] = most[r] < LEAST ? 0.0f : largest / LARGEST_CODE<LEVELS>;
    }
    for (size_t r = 0; r < ROWS; r++) {
        const typename V::Float factor = V::broadcast(inverse[r]);
        const SegmentInts<V> codes = {V::nearest(V::multiply(values[r][0], factor)),
                                      V::nearest(V::multiply(values[r][1], factor))};
        Sums::put(codes, to + r * Sums::CODE_BYTES);
        first[r] = codes[0];
        second[r] = V::add(codes[0], codes[1]);
    }
    V::put_totals(second, wholes[0]);
    V::put_totals(first, wholes[1]);
    for (size_t r = 0; r < ROWS; r++) products[r] = scales[r] * static_cast<float>(wholes[0][r]);
    to += ROWS * Sums::CODE_BYTES;
    std::memcpy(to + 4 * ROWS * SCALE, scales, sizeof(scales));
    std::memcpy(to + 4 * ROWS * SUM, wholes, sizeof(wholes));  // and FIRST_SUM
    std::memcpy(to + 4 * ROWS * VALUE, products, sizeof(products));
}

// A panel, of which x points to the rows.
template <class V, class Sums, int LEVELS, int TYPE>
void round_panel(size_t rows, size_t k, const uint8_t* const* x, uint8_t* out) {
    constexpr size_t SIZE = TYPE == BL_F32 ? 4 : 2;
    const size_t segments = segments_of(k);
    if constexpr (V::MOST_ROWS == 8) {
        SegmentFloats<V> values[V::MOST_ROWS];
        for (size_t s = 0; rows == V::MOST_ROWS && s < segments; s++, out += rows * ROW_BYTES<Sums>) {
            for (size_t r = 0; r < rows; r++)
                read_segment<V, TYPE>(x[r] + s * SEGMENT * SIZE, k - s * SEGMENT, values[r]);
            round_rows<V, Sums, LEVELS>(values, out);
        }
        if (rows == V::MOST_ROWS) return;
    }
    for (size_t first = 0; first < segments; first += UNIT_SEGMENTS)
        for (size_t r = 0; r < rows; r++)
            for (size_t s = first; s < segments && s < first + UNIT_SEGMENTS; s++) {
                SegmentFloats<V> values;
                read_segment<V, TYPE>(x[r] + s * SEGMENT * SIZE, k - s * SEGMENT, values);
                round_row<V, Sums, LEVELS>(values, r, rows, out + s * rows * ROW_BYTES<Sums>);
            }
}

template <class V, class Sums, int LEVELS>
void round_tile(int type, size_t rows, size_t k, const uint8_t* const* x, uint8_t* out) {
    const auto round = type == BL_F32   ? round_panel<V, Sums, LEVELS, BL_F32>
                       : type == BL_F16 ? round_panel<V, Sums, LEVELS, BL_F16>
                                        : round_panel<V, Sums, LEVELS, BL_BF16>;
    for (size_t first = 0, panel; first < rows; first += panel) {
        panel = panel_rows(rows - first, V::MOST_ROWS);
        round(panel, k, x + first, out);
        out += panel * segments_of(k) * ROW_BYTES<Sums>;
    }
}

}  // namespace
}  // namespace braid
