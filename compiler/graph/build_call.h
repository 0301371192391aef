// One call of Builder::build, taken apart: the steps share operands, domain and device. Internal to the builder.
#pragma once
#include "compiler/graph/build.h"

namespace dyno::graph {

struct BuildCall {
    Builder& b;
    Op op;
    std::span<const Operand> operands;
    const Attributes& attributes;
    SourceSpan from;
    Type placed{}; // domain and device of the result; dtype and dims are filled in later

    Result<NodeId> run();

  private:
    // build_call.cpp
    Result<bool> settle_place();
    Refusal refuse(const std::string& why) const;
    NodeId make(Op node_op, DType dtype, std::vector<int64_t> dims, std::vector<NodeId> uses, std::vector<int64_t> ints = {},
                double number = 0.0, SumOrder order = {});
    NodeId operand(size_t i) const { return operands[i].node; }
    const Type& type(size_t i) const { return b.type(operands[i].node); }
    std::vector<PromotionOperand> promotion() const;
    /// The operand cast and broadcast to the result's dims, on the result's device.
    NodeId fitted(NodeId node, DType dtype, const std::vector<int64_t>& dims);
    Result<std::vector<int64_t>> common_dims() const;
    Result<bool> check_weak_numbers(DType compute) const;
    /// The host number an operand stands for, if it is a constant.
    Result<bool> check_gpu(DType compute) const;
    bool constant_value(size_t i, double& value) const;

    // build_elementwise.cpp
    Result<NodeId> elementwise();
    Result<NodeId> ternary();
    Result<NodeId> where();
    NodeId numpy_variant(NodeId result, const std::vector<NodeId>& uses);
    Result<NodeId> cast();
    NodeId power(DType compute, const std::vector<int64_t>& dims, NodeId base);
    bool keeps_scalar_unrounded(DType compute) const;
    NodeId with_unrounded_scalar(DType compute, const std::vector<int64_t>& dims);

    // build_reduction.cpp
    Result<std::vector<int64_t>> axes(size_t rank, bool all_if_empty) const;
    SumOrder order_for(DType compute) const;
    Result<NodeId> reduction();
    Result<NodeId> argument_of_extreme(DType dtype);
    Result<NodeId> normalisation();

    // build_movement.cpp
    Result<NodeId> movement();
    Result<NodeId> reshape();
    Result<NodeId> permute();
    Result<NodeId> expand();
    Result<NodeId> slice();
    Result<NodeId> cat();
};

} // namespace dyno::graph
