// LLVM in the shapes that both targets need: a counted loop, an offset, lanes that count up.
#pragma once
#include "compiler/codegen/vector_emitter.h"
#include "compiler/fusion/loop_nest.h"
#include <functional>
#include <llvm/IR/IRBuilder.h>

namespace dyno::codegen {

/// for (i = from; i < to; i += step) body(i); values of i64. Code goes on behind the loop.
void emit_loop(llvm::IRBuilder<>& b, llvm::Value* from, llvm::Value* to, llvm::Value* step, const std::function<void(llvm::Value*)>& body);
/// A stack slot, made in the function's entry block.
llvm::Value* emit_alloca(llvm::BasicBlock* entry, llvm::Type* type);
/// Sum of stride * index over the axes that have a stride, and the offset; in elements. `index_of` gives an axis's index as i64.
llvm::Value* emit_offset(llvm::IRBuilder<>& b, const fusion::Affine& at, const std::function<llvm::Value*(size_t axis)>& index_of);
/// first, first + step, ... in the emitter's lanes.
llvm::Value* emit_consecutive(llvm::IRBuilder<>& b, VectorEmitter& e, llvm::Value* first, int64_t step);

} // namespace dyno::codegen
