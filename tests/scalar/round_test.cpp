// Rounding to 16-bit floats against an exhaustive walk of their values, and integers that wrap.
#include "compiler/scalar/round.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace dyno;
using namespace dyno::scalar;

TEST(Round, EveryHalfIsItself) {
    for (int bits = 0; bits < 65536; ++bits) {
        float value = half_to_float(static_cast<uint16_t>(bits));
        if (std::isnan(value)) continue;
        ASSERT_EQ(float_to_half(value), bits);
        ASSERT_EQ(round_to(DType::f16, value), value);
    }
}

TEST(Round, EveryBfloatIsItself) {
    for (int bits = 0; bits < 65536; ++bits) {
        float value = bfloat_to_float(static_cast<uint16_t>(bits));
        if (std::isnan(value)) continue;
        ASSERT_EQ(float_to_bfloat(value), bits);
        ASSERT_EQ(round_to(DType::bf16, value), value);
    }
}

TEST(Round, MidpointsGoToEven) {
    for (int bits = 0; bits < 0x7bff; ++bits) {
        double low = half_to_float(static_cast<uint16_t>(bits)), high = half_to_float(static_cast<uint16_t>(bits + 1)),
               middle = (low + high) / 2;
        ASSERT_EQ(round_to(DType::f16, middle), bits % 2 ? high : low);
        ASSERT_EQ(round_to(DType::f16, std::nextafter(middle, 0.0)), low);
        ASSERT_EQ(round_to(DType::f16, std::nextafter(middle, 1e9)), high);
    }
    for (int bits = 0; bits < 0x7f7f; ++bits) {
        double low = bfloat_to_float(static_cast<uint16_t>(bits)), high = bfloat_to_float(static_cast<uint16_t>(bits + 1)),
               middle = (low + high) / 2;
        ASSERT_EQ(round_to(DType::bf16, middle), bits % 2 ? high : low);
        ASSERT_EQ(float_to_bfloat(static_cast<float>(middle)), bits % 2 ? bits + 1 : bits);
    }
}

TEST(Round, EdgesOfTheRange) {
    EXPECT_EQ(round_to(DType::f16, 65519.99), 65504.0);
    EXPECT_EQ(round_to(DType::f16, 65520.0), INFINITY);
    EXPECT_EQ(round_to(DType::f16, -1e300), -INFINITY);
    EXPECT_TRUE(std::signbit(round_to(DType::f16, -1e-300)));
    EXPECT_TRUE(std::isnan(round_to(DType::bf16, NAN)));
    EXPECT_EQ(round_to(DType::bf16, 3.4e38), INFINITY);
    EXPECT_EQ(float_to_bfloat(NAN), 0x7fc0);
    EXPECT_EQ(round_through_f32(DType::f16, 1 + 0x1p-11 + 0x1p-40), 1.0);
    EXPECT_EQ(round_to(DType::f16, 1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);
}

TEST(Round, IntegersWrap) {
    EXPECT_EQ(wrap_to(DType::u8, -1), 255);
    EXPECT_EQ(wrap_to(DType::i8, 200), -56);
    EXPECT_EQ(wrap_to(DType::b8, 256), 1);
    EXPECT_EQ(wrap_to(DType::u32, -1), 4294967295);
    EXPECT_EQ(wrap_to(DType::i64, INT64_MIN), INT64_MIN);
}
