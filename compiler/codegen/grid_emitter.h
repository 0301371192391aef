// Emits the kernels of a nest for NVIDIA GPUs. Internal to codegen.
#pragma once
#include "compiler/codegen/emit_loops.h"
#include "compiler/codegen/compiled_code.h"
#include "compiler/codegen/grid_plan.h"
#include "compiler/codegen/reducer.h"
#include "compiler/codegen/vector_emitter.h"
#include <functional>

namespace dyno::codegen {

class GridEmitter {
  public:
    GridEmitter(llvm::Module& module, const fusion::LoopNest& nest, const GridPlan& plan);
    /// Emits all kernels into the module and describes them in `code`.
    void emit(CompiledCode& code);

  private:
    using Value = llvm::Value;
    using ValueId = fusion::ValueId;
    /// The elements of a row that a thread has in one step.
    struct Point {
        std::vector<Value*> value;   // by body value
        std::vector<Value*> index;   // by axis; of the vector axis: of the first lane
        Value* linear = nullptr;     // row-major position in the row, of the first lane
        Value* active = nullptr;     // null: surely inside the row
        // Steps that are known apart share their indices: what lies between them is a constant of the addresses.
        size_t shifted_axis = SIZE_MAX; // index[shifted_axis] is short of the element by `shift`
        int64_t shift = 0;
    };
    /// What a thread gathers of a row for a reduction, or for a pair of them. Its state has one lane or as many as points.
    struct Accumulator {
        ValueId id;
        Reducer reducer;
        const ReductionPair* pair = nullptr;
        ValueId element = 0;                   // what it takes in
        bool widens = false;                   // a sum in f64 of what the step adds in f32
        int lanes = 1;
        Reducer::State state;                  // while steps are unrolled
        llvm::SmallVector<Value*, 2> places;   // allocas, while they are a loop
    };

    void begin_kernel(const std::string& symbol, int threads);
    void end_kernel();
    void flat_kernel();
    void row_kernel();
    void join_kernel();
    void set_unit();
    Point point_at(Value* first, Value* end);
    int64_t step_length() const;
    Point step_point(Value* first_step, int64_t step, bool whole);
    void round_of(uint32_t s, std::vector<Accumulator>& all, Value* first_step, bool whole);
    void rounds_of(uint32_t s, std::vector<Accumulator>& all);
    void unravel(Value* linear, fusion::Axis::Kind kind, std::vector<Value*>& index, int64_t total, bool by_lanes);
    void stage(uint32_t s, std::vector<Point>& kept);
    void one_step(uint32_t s, Point& point);
    std::vector<Accumulator> accumulators(uint32_t stage);
    llvm::SmallVector<llvm::Type*, 4> types(const Accumulator& a);
    Reducer::State identity(const Accumulator& a, int lanes);
    Value* total(std::vector<Value*> terms);
    Value* lanes_added(Value* v);
    void take(Accumulator& a, llvm::MutableArrayRef<Point> points);
    Reducer::State merged(const Accumulator& a, const Reducer::State& x, const Reducer::State& y);
    Reducer::State across(const Accumulator& a, Reducer::State state);
    void finish(const Accumulator& a);
    void join(std::vector<Accumulator>& all);
    void join_by_shuffles(Accumulator& a, int threads);
    void join_rows(std::vector<Accumulator>& all);
    void join_cluster(std::vector<Accumulator>& all);
    void join_columns(std::vector<Accumulator>& all);
    Value* part_address(const std::vector<Accumulator>& all, size_t which, size_t part, int lane, Value* number);
    void store_parts(std::vector<Accumulator>& all);
    void row_stores();
    void prepare(uint32_t stage);
    VectorEmitter& unit_width() { return plan_.nest.mode == NestPlan::columns ? wide_ : one_; }

    // values
    bool of_unit(ValueId id) const;
    Value* value(VectorEmitter& e, Point* point, ValueId id);
    Value* compute(VectorEmitter& e, Point* point, ValueId id);
    Value* index_of(Point* point, size_t axis);
    Value* offset_of(Point* point, const fusion::Affine& at);
    Value* address_of(Point* point, const fusion::Access& access, llvm::Type* type);
    Value* load(VectorEmitter& e, Point* point, const fusion::Access& access, DType t);
    void store(VectorEmitter& e, Point* point, const fusion::Access& access, Value* v);
    Value* load_piece(VectorEmitter& e, Value* first, DType t);
    void store_piece(VectorEmitter& e, Value* first, Value* v, DType t);
    Value* consecutive(VectorEmitter& e, Value* first, int64_t step) { return emit_consecutive(b_, e, first, step); }

    // code
    void loop(Value* from, Value* to, Value* step, const std::function<void(Value*)>& body) { emit_loop(b_, from, to, step, body); }
    void when(Value* condition, const std::function<void()>& body); // null: always
    Value* special_register(llvm::Intrinsic::ID id);
    Value* shuffled(Value* v, int mask);
    Value* shared_memory(int64_t bytes);
    void barrier();
    void cluster_barrier();
    void instruction(const char* text);
    Value* alloca_of(llvm::Type* type) { return emit_alloca(entry_, type); }
    Value* i32(int64_t x) { return b_.getInt32(static_cast<uint32_t>(x)); }
    Value* i64(int64_t x) { return b_.getInt64(static_cast<uint64_t>(x)); }

    const fusion::LoopNest& nest_;
    const GridPlan& plan_;
    llvm::Module& module_;
    llvm::IRBuilder<> b_;
    VectorEmitter wide_, one_;
    llvm::Function* function_ = nullptr;
    llvm::BasicBlock* entry_ = nullptr;
    Value* fault_ = nullptr;
    Value *thread_ = nullptr, *block_ = nullptr;   // i32: in the block, of the grid
    Value *sharer_ = nullptr, *unit_ = nullptr;    // i32: among the unit's threads; in the block
    Value *number_ = nullptr, *part_ = nullptr;    // i64: of the unit, of the row's part
    std::vector<Value*> unit_index_;               // by axis
    std::vector<Value*> unit_value_;               // by body value: those of the unit
    int shared_count_ = 0;
};

} // namespace dyno::codegen
