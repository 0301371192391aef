// Puts a relocatable ELF object of our own code generator into executable memory. Knows no LLVM: loading cached code is
// cheap (some 20 us) and needs no compiler.
#pragma once
#include "compiler/support/result.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dyno::runtime {

/// Memory with loaded code; unmapped when it goes.
class CodeMemory {
  public:
    CodeMemory() = default;
    CodeMemory(CodeMemory&& other) noexcept;
    CodeMemory& operator=(CodeMemory&& other) noexcept;
    ~CodeMemory();
    void* address = nullptr;
    size_t size = 0;
    std::map<std::string, void*> symbols; // the object's global functions
};

/// Refusal: not an object as we make them, an unknown relocation, a symbol that is not on the short list of C functions.
[[nodiscard]] Result<CodeMemory> load_object(const std::vector<uint8_t>& object);

} // namespace dyno::runtime
