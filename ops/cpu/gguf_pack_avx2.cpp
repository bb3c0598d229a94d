// Packing of blocks of GGUF files by AVX2.
#include "gguf_pack.hpp"

namespace braid {

void pack_record_avx2(int type, size_t count, size_t k, const void* const* rows, uint8_t* record) {
    pack_record(*find(type), count, k, rows, record);
}

}  // namespace braid
