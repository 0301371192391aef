// A chain of Builder::build calls that stops at the first refusal. Internal to compose and decompose.
#pragma once
#include "compiler/graph/build.h"

namespace dyno::graph {

/// After a refusal every further step gives an invalid node and does nothing; done() turns the chain into a Result.
class Steps {
  public:
    Steps(Builder& builder, SourceSpan from) : b_(builder), from_(from) {}

    NodeId operator()(Op op, std::initializer_list<Operand> operands, const Attributes& attributes = {}) {
        return run(op, std::span<const Operand>(operands.begin(), operands.size()), attributes);
    }
    NodeId run(Op op, std::span<const Operand> operands, const Attributes& attributes = {}) {
        if (failed_) return {};
        return take(b_.build(op, operands, attributes, from_));
    }
    /// The value of another chain.
    NodeId take(Result<NodeId> result) {
        if (failed_) return {};
        if (result) return *result;
        return fail(result.reason());
    }
    NodeId fail(std::string reason) {
        if (!failed_) reason_ = std::move(reason);
        failed_ = true;
        return {};
    }
    NodeId cast(NodeId node, DType to) { return failed_ ? NodeId{} : b_.cast(node, to, from_); }
    /// A Python float or int, to be used as such.
    Operand number(double value, Domain domain = Domain::torch) { return {b_.constant(value, DType::f64, domain, from_), true}; }
    Operand integer(int64_t value, Domain domain = Domain::torch) { return {b_.constant_integer(value, DType::i64, domain, from_), true}; }
    bool failed() const { return failed_; }
    Result<NodeId> done(NodeId node) const {
        if (failed_) return Refusal{reason_};
        return node;
    }

  private:
    Builder& b_;
    SourceSpan from_;
    bool failed_ = false;
    std::string reason_;
};

/// The dtype in which torch's kernels compute a float type inside.
inline DType inner_dtype(DType t) { return t == DType::f16 || t == DType::bf16 ? DType::f32 : t; }

} // namespace dyno::graph
