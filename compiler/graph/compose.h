// Library calls that are not rows of ops.def, built from rows in the order and with the roundings of eager's own kernels
// (measured against torch 2.13 on the CPU, by tools/op_values.py, and torch 2.11 on CUDA). Each returns the node of the result or a reason.
// Work inside a 16-bit torch kernel happens in f32 and is rounded once, so these cast up first and down last.
#pragma once
#include "compiler/graph/build.h"
#include <optional>

namespace dyno::graph::compose {

using Axes = std::vector<int64_t>;
using Maybe = Result<NodeId>;

// --- shapes
Maybe unsqueeze(Builder& b, NodeId x, int64_t axis, SourceSpan from = {});
/// Drops the axes of size 1 among those named; all of size 1 if none is named. NumPy refuses to drop another size.
Maybe squeeze(Builder& b, NodeId x, const Axes& axes, SourceSpan from = {});
Maybe transpose(Builder& b, NodeId x, int64_t first, int64_t second, SourceSpan from = {});
/// x[..., index, ...]: the axis goes.
Maybe select(Builder& b, NodeId x, int64_t axis, int64_t index, SourceSpan from = {});
/// x[..., start:start+length:step, ...] with start and length already clipped as Python clips them.
Maybe narrow(Builder& b, NodeId x, int64_t axis, int64_t start, int64_t length, int64_t step = 1, SourceSpan from = {});
/// One piece of split(size): piece k of axis, the last may be shorter.
Maybe split_piece(Builder& b, NodeId x, int64_t axis, int64_t size, int64_t k, SourceSpan from = {});
/// One piece of chunk(count).
Maybe chunk_piece(Builder& b, NodeId x, int64_t axis, int64_t count, int64_t k, SourceSpan from = {});
Maybe stack(Builder& b, std::span<const Operand> values, int64_t axis, SourceSpan from = {});
Maybe flatten(Builder& b, NodeId x, int64_t first, int64_t last, SourceSpan from = {});
Maybe movedim(Builder& b, NodeId x, const Axes& source, const Axes& destination, SourceSpan from = {});

// --- stores
/// The movement that leads from one node to another, in order; nothing if other operations lie between.
std::optional<std::vector<Node>> movement_between(const Builder& b, NodeId base, NodeId view);
/// What `base` holds once the part that the movement leads to has been replaced. `part` has that part's dims, or none: one number for
/// all of it. Refused: a broadcast, where one element would get several values.
Maybe put_back(Builder& b, NodeId base, std::span<const Node> path, NodeId part, SourceSpan from = {});

// --- reductions: a row, and the reduced axes dropped unless kept
Maybe reduce(Builder& b, Op op, NodeId x, const Axes& axes, bool keepdim, DType dtype = DType::none, double number = 0.0,
             SourceSpan from = {}, SumOrder order = {});
Maybe standard_deviation(Builder& b, NodeId x, const Axes& axes, bool keepdim, double correction, SourceSpan from = {}, SumOrder order = {});

// --- arithmetic
/// a + alpha * b; alpha other than 1 and -1 fuses in torch's kernels, and so here.
Maybe add(Builder& b, Operand x, Operand y, double alpha, SourceSpan from = {});
Maybe sub(Builder& b, Operand x, Operand y, double alpha, SourceSpan from = {});
/// number / tensor, as Tensor.__rtruediv__: the reciprocal, times the number.
Maybe number_over(Builder& b, Operand number, Operand x, SourceSpan from = {});
Maybe square(Builder& b, NodeId x, SourceSpan from = {});
/// torch.clamp, numpy.clip; a missing bound is nullopt.
Maybe clamp(Builder& b, Operand x, std::optional<Operand> low, std::optional<Operand> high, SourceSpan from = {});
Maybe lerp(Builder& b, NodeId start, NodeId end, Operand weight, SourceSpan from = {});
Maybe addcmul(Builder& b, NodeId x, NodeId first, NodeId second, double value, SourceSpan from = {});
Maybe addcdiv(Builder& b, NodeId x, NodeId first, NodeId second, double value, SourceSpan from = {});
Maybe masked_fill(Builder& b, NodeId x, NodeId mask, Operand value, SourceSpan from = {});
Maybe nan_to_num(Builder& b, NodeId x, double nan, std::optional<double> posinf, std::optional<double> neginf, SourceSpan from = {});
/// Keeps what is on or below (lower) or on or above the k-th diagonal of the last two axes.
Maybe triangle(Builder& b, NodeId x, int64_t diagonal, bool lower, SourceSpan from = {});

// --- torch.nn.functional
Maybe relu6(Builder& b, NodeId x, SourceSpan from = {});
Maybe hardtanh(Builder& b, NodeId x, double low, double high, SourceSpan from = {});
Maybe leaky_relu(Builder& b, NodeId x, double slope, SourceSpan from = {});
Maybe elu(Builder& b, NodeId x, double alpha, double scale = 1.0, double input_scale = 1.0, SourceSpan from = {});
Maybe hardswish(Builder& b, NodeId x, SourceSpan from = {});
Maybe hardsigmoid(Builder& b, NodeId x, SourceSpan from = {});
Maybe logsigmoid(Builder& b, NodeId x, SourceSpan from = {});
Maybe mish(Builder& b, NodeId x, SourceSpan from = {});
Maybe glu(Builder& b, NodeId x, int64_t axis, SourceSpan from = {});

enum class LossReduction : uint8_t { none, mean, sum };
/// `order`: of the sum over the elements' losses.
Maybe mse_loss(Builder& b, NodeId input, NodeId target, LossReduction reduction, SourceSpan from = {}, SumOrder order = {});
Maybe l1_loss(Builder& b, NodeId input, NodeId target, LossReduction reduction, SourceSpan from = {}, SumOrder order = {});
Maybe bce_with_logits(Builder& b, NodeId input, NodeId target, LossReduction reduction, SourceSpan from = {});
/// nll_loss of log-probabilities [C], [N, C] or [N, C, ...] and class indices without the class axis. An index outside the
/// classes traps (integer division by zero), so the replay fails before commit and eager raises its own error.
Maybe nll_loss(Builder& b, NodeId log_probabilities, NodeId target, int64_t ignore_index, LossReduction reduction, SourceSpan from = {});
/// cross_entropy of logits and class indices: log_softmax, then nll_loss. Weights and smoothing are left to eager.
Maybe cross_entropy(Builder& b, NodeId logits, NodeId target, int64_t ignore_index, LossReduction reduction, SourceSpan from = {});

} // namespace dyno::graph::compose
