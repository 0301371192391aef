// Which values of a nest need not be exact to the last bit, since only 16 bits of what is made of them are kept.
#pragma once
#include "compiler/fusion/loop_nest.h"
#include <vector>

namespace dyno::codegen {

/// By body value: whether every use of it leads to a rounding to bf16 or f16 through steps that do not magnify relative errors, so that one
/// of 2^-17 cannot be seen. A value that is rounded itself is one.
[[nodiscard]] std::vector<bool> coarse_values(const fusion::LoopNest& nest);

} // namespace dyno::codegen
