// Emits the loops of a nest as the phases of CompiledCode. Internal to codegen.
#pragma once
#include "compiler/codegen/emit_loops.h"
#include "compiler/codegen/compiled_code.h"
#include "compiler/codegen/nest_plan.h"
#include "compiler/codegen/reducer.h"
#include "compiler/codegen/sum_emitter.h"
#include "compiler/codegen/vector_emitter.h"
#include <array>
#include <functional>
#include <map>
#include <optional>

namespace dyno::codegen {

/// One phase function of a nest under emission.
class NestEmitter {
  public:
    NestEmitter(llvm::Module& module, const fusion::LoopNest& nest, const NestPlan& plan);

    /// Emits all phases into the module and describes them in `code`.
    void emit(CompiledCode& code);

  private:
    using Value = llvm::Value;
    using ValueId = fusion::ValueId;
    struct Position {                // where the emission stands, as values of i64
        std::vector<Value*> index;   // by axis: null outside of its loop; of the vector axis: of the first lane
        Value* row_linear = nullptr; // row-major position of the point among the row axes, but the vector axis's part in rows mode
        Value* together = nullptr;   // which of the rows that are taken together
    };
    struct Accumulator {
        ValueId id;
        Reducer reducer;
        llvm::SmallVector<Value*, 2> vector, single; // allocas
    };

    enum Argument : unsigned { buffers, scalars, shared, local, begin, end };

    void begin_phase(const std::string& symbol);
    void end_phase();
    void flat_phase();
    void unit_phase();
    void combine_phase();
    void unit(Value* row, const std::function<void(VectorEmitter&)>& body);
    void set_unit_position(VectorEmitter& e, Value* row);
    // Groups of strips (nest_columns.cpp).
    void for_strips(VectorEmitter& e, Value* row, const std::function<void(Value*)>& body);
    void group_pass(VectorEmitter& e, Value* row, Value* block);
    void finish_group(VectorEmitter& e, Value* row, Value* number);
    Value* local_state(Value* strip, size_t which, size_t part);
    void combine(VectorEmitter& e, Value* row, Value* strip);
    std::vector<Accumulator> pass(VectorEmitter& e, uint32_t stage, Value* block);
    Reducer::State read(const llvm::SmallVector<Value*, 2>& places);
    void row_loops(VectorEmitter& e, uint32_t stage, Value* block, size_t axis, Value* linear, std::vector<Accumulator>& accumulators);
    void vector_loop(VectorEmitter& e, uint32_t stage, Value* from, Value* to, std::vector<Accumulator>& accumulators);
    void element(VectorEmitter& e, uint32_t stage, std::vector<Accumulator>& accumulators, bool single);
    void store_partials(VectorEmitter& e, Value* number, std::vector<Accumulator>& accumulators);
    Value* partial(Value* number, Value* strip, size_t which, size_t part);
    std::vector<Accumulator> accumulators(VectorEmitter& e, uint32_t stage);
    Reducer::State total(VectorEmitter& e, Accumulator& a);
    void row_stores(VectorEmitter& e);
    bool idle(uint32_t stage) const;
    // Sums in eager's order (nest_sums.cpp).
    void ordered_sums(VectorEmitter& e, uint32_t stage);
    Value* ordered_sum(VectorEmitter& e, ValueId id);
    Elements elements_of(VectorEmitter& e, ValueId id);
    // Moments (nest_moments.cpp).
    void rows_together();
    void each_of(Value* number, Value* rows, uint32_t stage, const std::function<void(Value*)>& body);
    Value* moment(ValueId id, const Elements& all, int64_t count);
    ValueId first_moment(ValueId id) const;
    void make_moments(ValueId first, const Elements& all, Value* rows, int64_t count);
    Value* of_own_row(Value* stash) { return at_.together ? b_.CreateInBoundsGEP(b_.getInt8Ty(), stash, b_.CreateMul(at_.together, i64(plan_.local_bytes))) : stash; }
    Value* run_sum(VectorEmitter& e, ValueId id, const Elements& all, int64_t count);
    Value* down_columns(VectorEmitter& e, ValueId id, const Elements& all, int64_t count);
    std::pair<Value*, Value*> range_of(size_t axis, Value* block);

    Value* value(VectorEmitter& e, ValueId id); // computed now if it has not been in this scope
    Value* compute(VectorEmitter& e, ValueId id);
    Value* pointer(const fusion::Access& access, DType t);
    Value* load(VectorEmitter& e, const fusion::Access& access, DType t);
    void store(VectorEmitter& e, const fusion::Access& access, Value* v);
    Value* index_value(VectorEmitter& e, const fusion::Affine& at, DType t, bool vector);
    Value* scalar_argument(uint32_t which);
    Value* stash_pointer(VectorEmitter& e, ValueId id);
    void forget(Scope from);
    void prepare(VectorEmitter& e, uint32_t stage);
    void loop(Value* from, Value* to, Value* step, const std::function<void(Value*)>& body) { emit_loop(b_, from, to, step, body); }
    Value* offset_of(const fusion::Affine& at);
    Value* consecutive(VectorEmitter& e, Value* first, int64_t step) { return emit_consecutive(b_, e, first, step); }
    Value* i64(int64_t x) { return b_.getInt64(static_cast<uint64_t>(x)); }
    Value* alloca_of(llvm::Type* type) { return emit_alloca(entry_, type); }
    int64_t state_bytes() const;
    Value* strip_start(Value* strip); // index of the first of its columns

    const fusion::LoopNest& nest_;
    const NestPlan& plan_;
    llvm::Module& module_;
    llvm::IRBuilder<> b_;
    VectorEmitter wide_, one_;
    llvm::Function* function_ = nullptr;
    llvm::BasicBlock* entry_ = nullptr; // allocas and the entry scope's values go before its branch
    Value* fault_ = nullptr;
    Position at_;
    Value *turn_from_ = nullptr, *turn_to_ = nullptr; // of the turn axis, within a turn
    std::vector<Value*> buffer_; // by parameter: its address
    /// By the first moment of an operand: where its rows begin, their means and their variances.
    struct Moments {
        Value *rows, *mean, *variance;
    };
    std::map<fusion::ValueId, Moments> moments_;
    std::vector<Value*> value_;  // by body value: what is known in the present scope
};

} // namespace dyno::codegen
