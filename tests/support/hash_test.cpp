// Hashes: order, boundaries and seeds count.
#include "compiler/support/hash.h"
#include <gtest/gtest.h>
#include <vector>

using namespace dyno;

TEST(Hash, OrderAndBoundariesCount) {
    std::vector<int64_t> one{1}, two{2}, both{1, 2}, none;
    using Ints = std::span<const int64_t>;
    EXPECT_NE(Hasher().add(uint64_t{1}).add(uint64_t{2}).value(), Hasher().add(uint64_t{2}).add(uint64_t{1}).value());
    EXPECT_NE(Hasher().add(Ints(one)).add(Ints(two)).value(), Hasher().add(Ints(both)).value());
    EXPECT_NE(Hasher().add(Ints(none)).add(Ints(both)).value(), Hasher().add(Ints(both)).add(Ints(none)).value());
    EXPECT_EQ(Hasher().add("ab").value(), Hasher().add("ab").value());
    EXPECT_NE(hash_text("a", 1), hash_text("a", 2));
}
