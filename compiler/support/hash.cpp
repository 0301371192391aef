// xxHash compiled in: the header-only form, so that nothing is linked.
#define XXH_INLINE_ALL
#include "compiler/support/hash.h"
#include <xxhash.h>

namespace dyno {

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) { return XXH3_64bits_withSeed(data, size, seed); }

} // namespace dyno
