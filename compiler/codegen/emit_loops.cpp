// The shapes, said once.
#include "compiler/codegen/emit_loops.h"

namespace dyno::codegen {
using llvm::Value;

void emit_loop(llvm::IRBuilder<>& b, Value* from, Value* to, Value* step, const std::function<void(Value*)>& body) {
    llvm::BasicBlock* before = b.GetInsertBlock();
    llvm::Function* function = before->getParent();
    auto* head = llvm::BasicBlock::Create(b.getContext(), "loop", function);
    auto* inside = llvm::BasicBlock::Create(b.getContext(), "body", function);
    auto* after = llvm::BasicBlock::Create(b.getContext(), "after", function);
    b.CreateBr(head);
    b.SetInsertPoint(head);
    llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
    i->addIncoming(from, before);
    b.CreateCondBr(b.CreateICmpSLT(i, to), inside, after);
    b.SetInsertPoint(inside);
    body(i);
    i->addIncoming(b.CreateNSWAdd(i, step), b.GetInsertBlock());
    b.CreateBr(head);
    b.SetInsertPoint(after);
}

Value* emit_alloca(llvm::BasicBlock* entry, llvm::Type* type) {
    llvm::IRBuilder<> at_entry(entry, entry->begin());
    return at_entry.CreateAlloca(type);
}

Value* emit_offset(llvm::IRBuilder<>& b, const fusion::Affine& at, const std::function<Value*(size_t)>& index_of) {
    Value* sum = nullptr;
    for (size_t k = 0; k < at.strides.size(); k++) {
        if (at.strides[k] == 0) continue;
        Value* index = index_of(k);
        Value* part = at.strides[k] == 1 ? index : b.CreateMul(index, b.getInt64(static_cast<uint64_t>(at.strides[k])));
        sum = sum ? b.CreateAdd(sum, part) : part;
    }
    Value* offset = b.getInt64(static_cast<uint64_t>(at.offset));
    if (!sum) return offset;
    return at.offset == 0 ? sum : b.CreateAdd(sum, offset);
}

Value* emit_consecutive(llvm::IRBuilder<>& b, VectorEmitter& e, Value* first, int64_t step) {
    if (e.lanes() == 1) return first;
    llvm::SmallVector<llvm::Constant*> steps;
    for (int k = 0; k < e.lanes(); k++) steps.push_back(b.getInt64(static_cast<uint64_t>(k * step)));
    return b.CreateAdd(e.splat(first), llvm::ConstantVector::get(steps));
}

} // namespace dyno::codegen
