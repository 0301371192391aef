// Args: a lowering's view of bound arguments: nodes, and static values whose use is guarded by asking for them.
#pragma once
#include "compiler/capture/recording.h"
#include <optional>
#include <string>
#include <vector>

namespace dyno::capture::lower {

class Args {
  public:
    Args(Recording& recording, const BoundArgs& args);
    /// The library whose rules hold: that of the first tensor.
    graph::Domain domain() const { return domain_; }
    bool given(int k) const { return k >= 0 && static_cast<size_t>(k) < args_.count && args_.ids[k] != 0; }
    bool none(int k) const { return args_.values[k] == Py_None; }
    bool is_tensor(int k) const { return given(k) && r_.is_tensor(args_.ids[k]); }
    std::optional<graph::Operand> operand(int k);
    std::optional<graph::NodeId> tensor(int k);
    /// Static values: asking guards them.
    std::optional<int64_t> integer(int k);
    std::optional<double> number(int k);
    std::optional<bool> flag(int k);
    std::optional<std::string> text(int k);
    DType dtype(int k);
    /// An int, or a tuple or list of ints.
    std::optional<std::vector<int64_t>> integers(int k);
    /// What a "*" parameter gathered: ints, or one sequence of ints.
    std::optional<std::vector<int64_t>> gathered();
    std::optional<std::vector<graph::Operand>> tensors(int k);
    double number_or(int k, double otherwise) { return given(k) ? number(k).value_or(otherwise) : otherwise; }
    int64_t integer_or(int k, int64_t otherwise) { return given(k) ? integer(k).value_or(otherwise) : otherwise; }
    /// A run-time number is kept to what the element type can hold, or to its value: torch refuses others.
    void fits(int k, DType dtype);
    /// How eager adds up argument k over these axes (none: all), and which dim it has in place of each; `dense`: what lies as the
    /// argument does, but without gaps.
    /// Of a norm over the last `trailing` axes.
    graph::SumOrder moments_order(int k, size_t trailing);
    graph::SumOrder sum_order(int k, const std::vector<int64_t>& axes, std::vector<int64_t>* places = nullptr, bool dense = false);
    /// The dims of more than one element, large strides first; none if a stride is not positive.
    std::vector<int64_t> falling_strides(int k);
    /// Holds a number to its present value.
    void hold(int k);
    static std::optional<int64_t> integer_of(Recording& r, ShadowId id, PyObject* value);

  private:
    Recording& r_;
    const BoundArgs& args_;
    graph::Domain domain_ = graph::Domain::torch;
};

} // namespace dyno::capture::lower
