// Sums in eager's order (graph/sum_order.h), of elements that lie in memory. Internal to codegen.
#pragma once
#include "compiler/codegen/emit_loops.h"
#include "compiler/fusion/loop_nest.h"
#include <functional>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

namespace dyno::codegen {

/// What is added up. With a vector type several rows side by side, each in its lane.
struct Elements {
    llvm::Value* first;
    llvm::Type* type;
    int64_t stride; // from one element to the next, in scalars
};

class SumEmitter {
  public:
    /// `entry`: of the function under emission, where its stack slots are made.
    SumEmitter(llvm::IRBuilder<>& b, llvm::Module& module, llvm::BasicBlock* entry) : b_(b), module_(module), entry_(entry) {}

    /// A ladder of all elements; see graph/sum_order.h.
    llvm::Value* ladder(const Elements& all, int64_t count);
    llvm::Value* ladder_by_fours(const Elements& all, int64_t count);
    llvm::Value* cascade(const Elements& all, int64_t count, int64_t lanes);
    llvm::Value* pairwise(const Elements& all, int64_t count);
    llvm::Value* in_turn(const Elements& all, int64_t count, bool product);

  private:
    using Value = llvm::Value;
    using Load = std::function<Value*(Value* index, int ladder)>;
    llvm::SmallVector<Value*, 4> ladders(llvm::Type* type, int ladders, int64_t count, const Load& load);
    Value* element(const Elements& all, Value* index);
    Elements from(const Elements& all, Value* index) const;
    Value* eight_sums(const Elements& all, Value* count);
    llvm::Function* halves(const Elements& all);
    void loop(int64_t count, const std::function<void(Value*)>& body);
    void add(Value* place, Value* term) { b_.CreateStore(b_.CreateFAdd(read(place), term), place); }
    Value* read(Value* place) { return b_.CreateLoad(llvm::cast<llvm::AllocaInst>(place)->getAllocatedType(), place); }
    Value* slot(llvm::Type* type, double start);
    Value* i64(int64_t x) { return b_.getInt64(static_cast<uint64_t>(x)); }

    llvm::IRBuilder<>& b_;
    llvm::Module& module_;
    llvm::BasicBlock* entry_;
};

} // namespace dyno::codegen
