// Result<T>: a value, or the reason why there is none. Unsupported things are values with a reason, never exceptions.
#pragma once
#include <optional>
#include <string>
#include <utility>

namespace dyno {

/// Why something was not done, in words a user understands.
struct Refusal {
    std::string reason;
};

/// A value or a Refusal.
template <class T>
class Result {
  public:
    Result(T value) : value_(std::move(value)) {}
    Result(Refusal refusal) : refusal_(std::move(refusal)) {}
    explicit operator bool() const { return value_.has_value(); }
    const T& operator*() const { return *value_; }
    T& operator*() { return *value_; }
    const T* operator->() const { return &*value_; }
    const std::string& reason() const { return refusal_.reason; }

  private:
    std::optional<T> value_;
    Refusal refusal_;
};

} // namespace dyno
