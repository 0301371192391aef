// Emits one elementwise operation on vectors (or single elements) of LLVM values: the scalar half of CPU code generation.
// Internal to codegen: LLVM types appear here. Nothing is contracted or reassociated: what is written is what runs.
#pragma once
#include "compiler/codegen/compiled_code.h"
#include "compiler/fusion/loop_nest.h"
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

namespace dyno::codegen {

/// A builder of operations on `lanes` elements at a time; 1 means plain scalars.
/// Register form: b8 is i1; f16 and bf16 are f32 holding a value of the narrow type; others are themselves.
class VectorEmitter {
  public:
    VectorEmitter(llvm::IRBuilder<>& builder, llvm::Module& module, int lanes) : b(builder), m(module), lanes_(lanes) {}

    int lanes() const { return lanes_; }
    llvm::Type* memory_type(DType t) const;              // one element in memory
    llvm::Type* register_scalar(DType t) const;          // one element in a register
    llvm::Type* register_type(DType t) const;            // `lanes` of them
    llvm::Type* widen(llvm::Type* scalar) const;         // `lanes` of any scalar type
    llvm::Value* splat(llvm::Value* scalar) const;       // as a vector, if not one already
    llvm::Value* constant(DType t, uint64_t bits) const; // one element in register form

    /// Memory form to register form and back. Values may be scalars or vectors.
    llvm::Value* from_memory(llvm::Value* v, DType t);
    llvm::Value* to_memory(llvm::Value* v, DType t);

    /// One operation. `operand_type` is the operands' dtype (of the second for select). `fault` is an i64 alloca.
    llvm::Value* apply(scalar::ScalarOp op, DType result, DType operand_type, llvm::ArrayRef<llvm::Value*> args, llvm::Value* fault);
    llvm::Value* cast(llvm::Value* v, DType from, DType to);
    llvm::Value* unknown(llvm::Value* v);
    llvm::Value* through_registers(llvm::Value* v);
    llvm::Value* surely_computed(llvm::Value* v);
    llvm::Value* chosen_by_bits(llvm::Value* condition, llvm::Value* x, llvm::Value* y);
    /// Rounds an f32 to the narrow type it holds.
    llvm::Value* round_to(llvm::Value* v, DType t);

    // --- gated functions on f32 or f64 values (vector_math.cpp)
    llvm::Value* math(scalar::ScalarOp op, llvm::ArrayRef<llvm::Value*> args);

    /// <, <=, >, >=: false for NaN, and with `quiet` without raising a flag for it.
    llvm::Value* ordered(llvm::CmpInst::Predicate predicate, llvm::Value* x, llvm::Value* y);
    llvm::Value* maximum(llvm::Value* a, llvm::Value* b_, bool is_max); // floats, NaN wins
    llvm::Value* f(llvm::Value* like, double x) const;                  // constant of the same type
    llvm::Value* i(llvm::Value* like, int64_t x) const;
    llvm::Value* fma(llvm::Value* x, llvm::Value* y, llvm::Value* z);
    llvm::Value* quotient(llvm::Value* x, llvm::Value* y); // inside gated functions: GPUs within 2 ulp for f32, else exact
    /// GPUs, vector_math_gpu.cpp: f32 from -150 to where it overflows; `normal`: the result surely is.
    llvm::Value* exp_by_hardware(llvm::Value* x, bool normal);
    /// 2^x within 2 ulp; `normal`: subnormal results vanish.
    llvm::Value* power_by_hardware(llvm::Value* x, bool normal);
    llvm::Value* inverse_by_hardware(llvm::Value* x); // 1 / x within 1 ulp
    /// Two elements an instruction: conversions of one run at an eighth of the speed. f32 to f16 or bf16 and back.
    llvm::Value* round_in_pairs(llvm::Value* v, DType t);
    llvm::Value* each_lane(llvm::Value* x, llvm::function_ref<llvm::Value*(llvm::Value*)> one);
    /// x / y for y and x / y in the middle of the range: GPUs by a reciprocal within 2 ulp for f32, else exact.
    llvm::Value* near_quotient(llvm::Value* x, llvm::Value* y);
    llvm::Value* unary(llvm::Intrinsic::ID id, llvm::Value* x) { return b.CreateUnaryIntrinsic(id, x); }
    llvm::Value* copysign(llvm::Value* magnitude, llvm::Value* sign) {
        if (gpu) { // one operation there, if it is spelt so
            llvm::Type* t = integer_like(magnitude->getType());
            llvm::Value* mask = llvm::ConstantInt::get(t, uint64_t{1} << (t->getScalarSizeInBits() - 1));
            llvm::Value* rest = b.CreateAnd(b.CreateBitCast(magnitude, t), b.CreateNot(mask));
            return b.CreateBitCast(b.CreateOr(rest, b.CreateAnd(b.CreateBitCast(sign, t), mask)), magnitude->getType());
        }
        return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
    }
    llvm::Type* integer_like(llvm::Type* t) const; // integers as wide as these floats
    llvm::Type* with_element(llvm::Type* t, llvm::Type* element) const;

    llvm::IRBuilder<>& b;
    llvm::Module& m;
    int register_bits = 128; // of a vector register
    bool quiet = false; // flags are reported: comparisons must not raise any, and none may be lost
    bool coarse = false; // gpu: of a gated function on f32 a relative error of 2^-17 is enough
    bool gpu = false;   // no C library, conversions to bf16 by the hardware's instruction

  private:
    llvm::Value* float_op(scalar::ScalarOp op, llvm::ArrayRef<llvm::Value*> a);
    llvm::Value* int_op(scalar::ScalarOp op, DType t, llvm::ArrayRef<llvm::Value*> a, llvm::Value* fault);
    llvm::Value* bool_op(scalar::ScalarOp op, llvm::ArrayRef<llvm::Value*> a);
    llvm::Value* compare(scalar::ScalarOp op, DType t, llvm::Value* x, llvm::Value* y);
    llvm::Value* int_division(scalar::ScalarOp op, DType t, llvm::Value* x, llvm::Value* y, llvm::Value* fault);
    llvm::Value* int_power(DType t, llvm::Value* x, llvm::Value* y, llvm::Value* fault);
    llvm::Value* shift(scalar::ScalarOp op, DType t, llvm::Value* x, llvm::Value* y);
    llvm::Value* float_floor_div(llvm::Value* x, llvm::Value* y);
    llvm::Value* float_remainder(llvm::Value* x, llvm::Value* y);
    llvm::Value* truth(llvm::Value* v, DType t);
    void raise(llvm::Value* where, llvm::Value* fault, Fault what);
    llvm::Value* call_libm(const char* name, llvm::ArrayRef<llvm::Value*> args);
    llvm::Value* without_libm(std::string_view name, llvm::ArrayRef<llvm::Value*> args); // vector_math_gpu.cpp
    llvm::Value* exp(llvm::Value* x);
    llvm::Value* exp_core(llvm::Value* x);
    llvm::Value* log(llvm::Value* x);
    llvm::Value* log_core(llvm::Value* x); // of normal positive numbers
    llvm::Value* tanh(llvm::Value* x);
    llvm::Value* erf(llvm::Value* x);
    llvm::Value* tanh_by_hardware(llvm::Value* x);
    llvm::Value* erf_by_hardware(llvm::Value* x);
    llvm::Value* sigmoid(llvm::Value* x);
    llvm::Value* sin_or_cos(llvm::Value* x, bool cosine);
    llvm::Value* by_way_of_f64(scalar::ScalarOp op, llvm::Value* x);
    llvm::Value* pow(llvm::Value* x, llvm::Value* y);
    llvm::Value* horner(llvm::Value* x, llvm::ArrayRef<double> coefficients); // highest power first
    llvm::Value* power_of_two(llvm::Value* n, llvm::Type* floats);            // 2^n, n integers in the normal range
    int lanes_;
};

} // namespace dyno::codegen
