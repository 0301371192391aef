// Content hashes: 64-bit xxHash over values fed one after another. Not for adversaries, not across byte orders.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace dyno {

/// xxHash (XXH3) of bytes.
uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0);
inline uint64_t hash_text(std::string_view text, uint64_t seed = 0) { return hash_bytes(text.data(), text.size(), seed); }

/// Feeds values in order; a span adds its length too, so that [1][2] and [1, 2] differ.
class Hasher {
  public:
    Hasher& add(uint64_t value) {
        state_ = hash_bytes(&value, sizeof value, state_);
        return *this;
    }
    Hasher& add(std::span<const int64_t> values) {
        state_ = hash_bytes(values.data(), values.size_bytes(), state_ + values.size());
        return *this;
    }
    Hasher& add(std::string_view text) {
        state_ = hash_bytes(text.data(), text.size(), state_ + text.size());
        return *this;
    }
    uint64_t value() const { return state_; }

  private:
    uint64_t state_ = 0;
};

} // namespace dyno
