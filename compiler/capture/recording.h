// Recording: the Recorder that turns one stretch of a live execution into a Segment (design: capture, record while running).
// Input: what the evaluator tells it, instruction by instruction. Output: a Segment, or the reason why there is none.
// It never runs user code, never changes the program's values, and owns no tensor, array or user object beyond an instruction,
// except containers, functions, types and modules whose address it must recognise until the recording ends.
#pragma once
#include "compiler/bytecode/code.h"
#include "compiler/capture/callables.h"
#include "compiler/capture/shadow.h"
#include "compiler/graph/build.h"
#include "compiler/graph/op_info.h"
#include "compiler/python/tensor.h"
#include <chrono>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace dyno::capture {

using bytecode::Instruction;
using frame::Activation;
using frame::CallToken;
using frame::Redirect;

/// What a recording may do; from dyno.config.
struct Limits {
    uint32_t nodes = 4096;
    uint64_t effort = UINT64_MAX; // behind that `goes_on` is asked, again and again, whether to give up
    bool (*goes_on)(uint64_t effort) = nullptr;
    uint32_t inlined_depth = 50;
    uint32_t unrolled_turns = 64;
    bool inline_functions = true; // false at a cell's top level: functions get code of their own, which outlives the cell
    uint32_t recordings_before = 0; // of the same place
    bool break_everywhere = false;
    bool twins = false; // keep the eager call of every node (for `check`)
};

constexpr uint64_t effort_of_node = 15; // of an operation on tensors or arrays, in instructions
constexpr uint64_t effort_between_questions = 100;

class Recording final : public frame::Recorder {
  public:
    Recording(const SegmentKey& key, const Limits& limits);
    ~Recording() override;
    /// Starts at the activation's present position; fills its shadows.
    void begin(Activation& root) override;

    Before before(Activation& a, const Instruction& i, Redirect& redirect) override;
    ShadowId after(Activation& a, const Instruction& i, PyObject* result, ShadowId callee) override;
    void unpacked(Activation& a, const Instruction& i, PyObject* const* items, size_t n, ShadowId* out) override;
    void jumped(Activation& a, const Instruction& i, bool taken) override;
    bool enter(Activation& callee, const CallToken& token) override;
    ShadowId leave(Activation& a, PyObject* result, ShadowId shadow) override;
    void failed(Activation& a, const Instruction& i) override;
    bool raised(Activation& a, const Instruction& i) override;
    bool stranger(PyCodeObject* code, bool thrown) override;
    ShadowId cell(Activation& a, int slot, ShadowId content) override;
    ShadowId yields(Activation& a, PyObject* value, ShadowId shadow) override;

    bool finished() const { return finished_; }
    /// Once finished: the segment if there is anything to gain, else nothing and why_not().
    std::optional<Segment> take();
    const std::string& why_not() const { return why_not_; }
    /// It was given up: nothing comes of it.
    bool too_long() const { return too_long_; }
    /// Nothing comes of it for a reason that the next recording avoids.
    bool will_avoid() const { return discarded_ && avoids_; }
    /// In recorded instructions.
    uint64_t effort() const { return instructions_ + effort_of_node * tensor_nodes_; }
    /// Whether a tensor or array was seen at all.
    bool met_data() const { return met_data_; }
    /// The unit in the outermost frame before which it ended, -1: it reached the return.
    int stopped_at() const { return stopped_at_; }
    /// A bug of ours was met: nothing will come of it.
    void abandon(std::string why) { finished_ = true, discard(std::move(why)); }
    PyCodeObject* code_at(uint32_t id) const { return id && id <= codes_.size() ? codes_[id - 1].code : nullptr; }
    const std::vector<LineNote>& lines() const { return lines_; }
    const SegmentKey& key() const { return key_; }

    // ---- for the families in capture/*.cpp (calls, attributes, containers, numbers, tensors)
    struct PlaceKey {
        ShadowId container;
        uint8_t kind; // 'd' dict key, 'a' own attribute, 'i' list or tuple index, 'c' cell, 's' default, ...
        PyObject* name;
        int64_t index;
        auto operator<=>(const PlaceKey&) const = default;
    };
    /// A call of a library function on known values, from before() to after().
    struct Call {
        PyObject* callable = nullptr; // borrowed: alive during the instruction
        const CallRow* row = nullptr; // null: an extern without lowering
        std::vector<ShadowId> args;   // positional, then by kwnames
        std::vector<PyObject*> values;
        size_t nargs = 0;
        PyObject* kwnames = nullptr;
        std::string name;
    };
    enum class Builtin : uint8_t;
    enum class PendingKind : uint8_t { none, fixed, constant, call, called, iterator_next, stored, in_place, in_place_call, raises, derived, generator, instance };

    Shadow& at(ShadowId id);
    ShadowId canonical(ShadowId id) const;
    ShadowId add(Shadow shadow);
    ShadowId constant(PyObject* value);
    ShadowId raw(uint32_t source, PyObject* value);
    /// Looks at a raw value: guards what it is. False: we do not compile for it; refusal() says why.
    bool know(ShadowId id, PyObject* value);
    /// The concrete value of a constant or number is needed: guard it. Null if it depends on run-time data.
    PyObject* concrete(ShadowId id, PyObject* value);
    uint32_t source(Source::Kind kind, uint32_t base, uint32_t index, PyObject* name);
    uint32_t anchor(PyObject* object);
    uint32_t constant_index(PyObject* value);
    void guard(Guard g);
    bool guard_type_attribute(PyTypeObject* type, PyObject* name, PyObject* found);
    ValueRef ref_of(ShadowId id);
    ValueRef ref_of_fresh(ShadowId id);
    ValueRef ref_of_iterator(ShadowId id);
    PyObject* canonical_key(PyObject* key);
    ShadowId read_item(ShadowId container, PyObject* key, PyObject* value);
    ShadowId read_index(ShadowId container, int64_t index, PyObject* value);
    ShadowId fresh(NewObject::Kind kind, std::vector<ShadowId> parts, PyTypeObject* type);
    ShadowId iterator(IteratorShadow it, PyTypeObject* type);
    /// Guards that a run-time number lies in what `dtype` can hold; one that does not now is held to its value.
    void guard_range(ShadowId id, PyObject* value, DType dtype);
    ShadowId number_step(ScalarStep step, std::initializer_list<ShadowId> operands, PyObject* result);
    bool is_tensor(ShadowId id) const;
    std::optional<std::vector<ShadowId>> items_of(ShadowId id, PyObject* object);
    /// A named tuple, whose class keeps the methods that make it a sequence of its items (guarded).
    bool is_named_tuple(PyObject* object);
    /// The same of what an iterator or a view has left, which it then has given.
    std::optional<std::vector<ShadowId>> items_left(ShadowId id, PyObject* object);
    bool needs_autograd(const std::vector<ShadowId>& args);
    template <class Predicate> bool any_part(ShadowId given, Predicate is) const;
    const std::string& refusal() const { return refusal_; }
    bool refuse(std::string reason, std::string hint = {});
    /// The call under way has an effect (a warning) that an eager call at replay would not place right: it ends the segment.
    void make_native(std::string reason) { native_reason_ = std::move(reason); }
    graph::Builder& builder() { return builder_; }
    std::optional<graph::Operand> operand(ShadowId id, graph::Domain domain);
    SourceSpan span_of(const Activation& a);
    const Limits& limits() const { return limits_; }

    /// Of a tensor, array or NumPy scalar; dtype none if it is none that loops know. Strides in elements.
    static graph::Type type_of(PyObject* object, std::vector<int64_t>* strides);

  private:
    friend struct Families;
    /// Of the tables that die with the recording.
    std::pmr::monotonic_buffer_resource arena_{16384};
    template <class Key, class Value> using HashMap = std::pmr::unordered_map<Key, Value>;
    template <class Key, class Value> using OrderedMap = std::pmr::map<Key, Value>;

    /// Nothing will come of it.
    void discard(std::string why) { discarded_ = true, why_not_ = std::move(why); }
    Before stop(Activation& a, std::string reason, std::string hint);
    Before stop_refused(Activation& a) { return stop(a, refusal_, hint_); }
    void finish(Activation* innermost, Exit exit);
    /// The effort is above the limit: whether it goes on.
    bool goes_on();
    void end_before(Activation& a, std::string reason, std::string hint);
    FrameRecipe recipe_of(Activation& a, PyObject** sp, int unit);
    void add_memory_guards();
    void add_identity_guards();
    void add_outputs();
    void want_what_tells(std::vector<bool>& wanted);
    void line_note(Activation& a, const char* status, const std::string& reason, const std::string& hint);
    /// Marks the instruction as covered by the segment.
    void seen(const Activation& a);
    /// A note for each line that was covered.
    void add_covered_lines();

    // instruction families: each answers for before() and prepares `pending_`
    Before load_global(Activation& a, const Instruction& i);
    Before load_name(Activation& a, const Instruction& i);
    Before load_deref(Activation& a, const Instruction& i);
    Before store_deref(Activation& a, const Instruction& i);
    Before store_name(Activation& a, const Instruction& i, bool global);
    Before load_attribute(Activation& a, const Instruction& i, Redirect& redirect, bool method);
    Before store_attribute(Activation& a, const Instruction& i, Redirect& redirect);
    Before binary(Activation& a, const Instruction& i, Redirect& redirect);
    Before compare(Activation& a, const Instruction& i, Redirect& redirect);
    Before unary(Activation& a, const Instruction& i, Redirect& redirect);
    Before is_op(Activation& a, const Instruction& i);
    Before contains(Activation& a, const Instruction& i, Redirect& redirect);
    Before subscript(Activation& a, const Instruction& i, Redirect& redirect);
    Before sequence_item(Activation& a, ShadowId id, PyObject* object, ShadowId key_id, PyObject* key, bool named);
    Before store_subscript(Activation& a, const Instruction& i);
    Before build(Activation& a, const Instruction& i);
    Before extend(Activation& a, const Instruction& i, Redirect& redirect);
    Before unpack(Activation& a, const Instruction& i, Redirect& redirect);
    Before get_iter(Activation& a, const Instruction& i, Redirect& redirect);
    Before for_iter(Activation& a, const Instruction& i, Redirect& redirect);
    Before jump(Activation& a, const Instruction& i);
    Before jump_back(Activation& a, const Instruction& i);
    Before call(Activation& a, const Instruction& i, Redirect& redirect);
    Before call_ex(Activation& a, const Instruction& i, Redirect& redirect);
    Before make_function(Activation& a, const Instruction& i);
    Before format_value(Activation& a, const Instruction& i);
    Before import_name(Activation& a, const Instruction& i);

    // calls
    Before call_value(Activation& a, ShadowId callable, PyObject* object, Call call, Redirect& redirect, int popped);
    Before call_python(Activation& a, PyObject* function, Call& call, Redirect& redirect, int popped, Redirect::After after, ShadowId instance);
    Before call_partial(Activation& a, ShadowId id, PyObject* object, Call c, Redirect& redirect, int popped);
    Before call_type(Activation& a, PyTypeObject* type, Call& call, Redirect& redirect, int popped);
    Before call_library(Activation& a, Call call);
    std::optional<Before> call_builtin(Activation& a, Call& call, Redirect& redirect, int popped);
    std::optional<Before> call_method(Activation& a, Call& call, Redirect& redirect, int popped);
    ShadowId attribute_of_tensor(ShadowId id, PyObject* object, PyObject* name, bool& call_needed);
    ShadowId finish_call(Activation& a, PyObject* result);
    /// `checkable`: the call's result is the node's value, so that an eager call may check it.
    ShadowId finish_lowered(Activation& a, PyObject* result, graph::NodeId node, bool checkable = true);
    std::optional<std::vector<ShadowId>> pieces_of(Activation& a, PyObject* result, const BoundArgs& bound, bool unbinds);
    std::optional<ShadowId> finish_parted(Activation& a, PyObject* result);
    ValueRef ref_of_named_tuple(ShadowId id);
    ShadowId finish_extern(Activation& a, PyObject* result);
    ShadowId extern_value(uint32_t external, int item, PyObject* value, graph::NodeId call, bool unsized);
    std::vector<ShadowId> items_read(ShadowId container) const;
    bool holds_unsized(ShadowId given) const;
    bool is_unsized(const Call& c, PyObject* result);
    bool may_draw(const Call& c) const;
    int64_t last_call(const ValueRef& r) const;
    bool varies(graph::NodeId node);
    ShadowId row_of_tensor(ShadowId base, int64_t k);
    /// All rows, where they are few and need no autograd; else nothing (refusal() is set).
    std::optional<std::vector<ShadowId>> few_rows(ShadowId id);
    int64_t rows_of_tensor(ShadowId id) const;
    std::vector<bool> varies_; // by node index: depends on anything but constants
    int handlers_ = 0;         // exceptions caught here whose handlers are open
    uint32_t make_extern(const Call& call, bool view);
    bool in_place(Activation& a, ShadowId target, PyObject* object, const char* what);
    ShadowId tensor_shadow(graph::NodeId node, PyObject* object, ValueRef ref);
    Before pend_fixed(ShadowId id) {
        pending_ = PendingKind::fixed;
        pending_shadow_ = id;
        return Before::perform;
    }
    Before pend_constant() {
        pending_ = PendingKind::constant;
        return Before::perform;
    }
    Before pend_stored() {
        pending_ = PendingKind::stored;
        return Before::perform;
    }
    bool know_all(Activation& a, PyObject** first, size_t n);

    Before dispatch(Activation& a, const Instruction& i, Redirect& redirect);
    void free_variables(Activation& a, ShadowId function);
    ShadowId globals_shadow(Activation& a);
    ShadowId look_up(ShadowId dict, PyObject* name, PyObject* value);
    Before load_global_named(Activation& a, PyObject* name);
    Before store_item(Activation& a, ShadowId container, PyObject* key, PyObject* dict, ShadowId id);
    bool has_finaliser(PyObject* v) const;
    ShadowId constant_code(PyObject* code);
    bool supposes_truth(Activation& a, ShadowId id, PyObject* value);
    bool depends_on_data(const ValueRef& r) const;
    std::optional<Before> truth_of_container(Activation& a, ShadowId id, PyObject* value);
    bool guard_length(ShadowId id, PyObject* value);
    Before cut(Activation& a);
    /// object.name where the object is known: the shadow of the value, or a redirect, or a stop.
    Before attribute_value(Activation& a, ShadowId id, PyObject* object, PyObject* name, Redirect* redirect = nullptr, bool method = false);
    Before instance_attribute_value(Activation& a, ShadowId id, PyObject* object, PyObject* name, Redirect* redirect, bool method);
    Before type_attribute_value(Activation& a, ShadowId id, PyObject* object, PyObject* name);
    Before bind_method(Activation& a, ShadowId self, PyObject* object, PyObject* function, bool method);
    Before redirect_to(Activation& a, PyObject* function, std::vector<ShadowId> ids, std::vector<PyObject*> args, int popped, Redirect::After after, Redirect& redirect, ShadowId instance = 0);
    // parts.cpp: attributes of functions, code objects and modules; __dict__; what is absent
    Before function_attribute(Activation& a, ShadowId id, PyObject* object, PyObject* name);
    Before module_attribute(Activation& a, ShadowId id, PyObject* object, PyObject* name, Redirect* redirect);
    Before instance_dict(Activation& a, ShadowId id, PyObject* object);
    Before class_value(Activation& a, PyTypeObject* type, PyObject* name, PyObject* found);
    Before attribute_redirect(Activation& a, PyObject* function, std::vector<ShadowId> ids, std::vector<PyObject*> args, PyTypeObject* type, Redirect& redirect);
    Before absent_attribute(Activation& a, const char* why);
    // derived.cpp: objects that library code makes of what is known, and records with known fields
    ShadowId derived(PyObject* object);
    Before pend_derived(Call c);
    ShadowId finish_derived(Activation& a, PyObject* result);
    ShadowId known_part(PyObject* value);
    bool is_record(PyTypeObject* type);
    bool is_derived(ShadowId id) const { return id && shadows_[canonical(id)].kind == Shadow::derived; }
    Before make_record(Activation& a, PyTypeObject* type, Call& c);
    std::optional<std::vector<ShadowId>> items_of_record(ShadowId id, PyObject* object);
    bool set_record_field(ShadowId id, PyObject* name, ShadowId v);
    Before derived_attribute(Activation& a, ShadowId id, PyObject* object, PyObject* name, bool method);
    std::optional<Before> derived_call(Activation& a, Call& c);
    ValueRef derived_ref(ShadowId id);
    ValueRef bound_descriptor(NewObject& object, ShadowId function, const std::vector<ValueRef>& refs, uint32_t index);
    Before context_method(Activation& a, const Call& c, const char* name);
    bool pin(ShadowId given, PyObject* value);
    bool is_remembered(PyObject* callable, const Call& c);
    Before module_item(Activation& a, ShadowId id, PyObject* object, const std::vector<ShadowId>& items, ShadowId key_id, PyObject* key);
    std::optional<std::vector<ShadowId>> module_items(ShadowId id, PyObject* object);
    bool makes_fact(PyTypeObject* type, const Call& c);
    bool states_fact(PyObject* function, const Call& c);
    bool fixed_value(ShadowId id, PyObject* value, int depth = 0);
    // raises.cpp: exceptions that are raised and caught inside the segment
    bool is_caught(Activation& a) const;
    Before pend_raise(Activation& a, std::string reason);
    bool library_function(PyObject* function) const;
    bool all_constant(const Call& c);
    bool instance_check_is_plain(PyObject* type) const;
    bool know_deep(ShadowId given, PyObject* value, int depth = 0);
    bool holds_tensor(ShadowId given) const;
    bool holds_written(ShadowId given) const;
    graph::OpKind graph_kind(graph::NodeId node) const { return graph::info(builder_[node].op).kind; }
    Before number_operation(Activation& a, ScalarStep step, ShadowId x, ShadowId y, PyObject* result);
    // aliases.cpp: which tensors share memory, and stores into it
    struct View {
        ShadowId base = 0;
        std::vector<graph::Node> path; // movement from the base's value to the view's
        uint32_t twin = 0;             // the call that makes the view's object
        ValueRef base_ref;             // the base among that call's arguments
    };
    OrderedMap<ShadowId, View> views_{&arena_}; // a base comes before its views
    graph::NodeId pending_root_;
    PyObject* pending_result_ = nullptr;
    ShadowId root_of(ShadowId given) const;
    bool follow_view(ShadowId id, ShadowId base, uint32_t twin);
    std::string unwritable(ShadowId given) const;
    Result<graph::NodeId> value_of_root(ShadowId target, graph::NodeId value, SourceSpan from);
    void derive_again(ShadowId id, graph::NodeId known);
    void write_memory(ShadowId target, graph::NodeId root_value, graph::NodeId value);
    Result<graph::NodeId> stored_value(ShadowId given, PyObject* value, const graph::Type& type, SourceSpan from);
    Before store_tensor_item(Activation& a, ShadowId id, PyObject* object, ShadowId key_id, PyObject* key, ShadowId v, PyObject* value);
    Before pend_write(Activation& a, ShadowId target, graph::NodeId root_value, graph::NodeId value, PyObject* result);
    static bool in_range(PyObject* value, DType dtype);
    Before in_place_operator(Activation& a, Call c);
    Before store_at(Activation& a, Call c);
    Before in_place_extern(Activation& a, Call c, ShadowId target, PyObject* result, bool sized = true);
    bool is_private(ShadowId id, PyObject* object) const;
    Before change_private(Activation& a, int plain, ShadowId ix, ShadowId iy, PyObject* x, PyObject* y);
    std::optional<Before> store_of_unknown_size(Activation& a, ShadowId id, PyObject* object, ShadowId mask, ShadowId v, PyObject* value);
    ShadowId finish_in_place_call(Activation& a, PyObject* result);
    std::optional<Before> store_by_indices(Activation& a, ShadowId id, ShadowId key_id, ShadowId v);
    Before in_place_call(Activation& a, Call c, ShadowId target, PyObject* object);
    Before fill_method(Activation& a, const Call& c, bool returns_self);
    std::optional<Before> out_argument(Activation& a, const Call& c);
    bool in_place_method(Activation& a, Call& c, Before& answer);
    PyObject* self_of(PyObject* bound);
    ShadowId finish_in_place(Activation& a, PyObject* result);
    bool is_idle(const Call& c);
    bool states_a_fact(const Call& c) const;
    bool shares_storage(PyObject* result) const;
    bool selects_by_mask(ShadowId given, PyObject* key);
    PyObject* key_of(ShadowId given, PyObject* key);
    /// The same of an attribute's name: interned, and kept by the segment.
    PyObject* attribute_name(ShadowId given, PyObject* name);
    void guard_absent_key(ShadowId id, PyObject* key);
    void guard_no_attribute(ShadowId id, PyObject* name);
    ShadowId fresh_dict_item(ShadowId id, PyObject* key);
    std::optional<bool> is_member(ShadowId set, ShadowId given, PyObject* value);
    Before set_method(Activation& a, const Call& c, const char* name);
    std::optional<std::vector<ShadowId>> items_of_set(ShadowId id, PyObject* object);
    Before build_set(Activation& a, const std::vector<ShadowId>& ids, PyObject* const* values);
    Before call_set(Activation& a, const Call& c);
    Before delete_subscript(Activation& a);
    Before delete_attribute(Activation& a, PyObject* name);
    bool set_fresh_dict_item(ShadowId id, ShadowId key, ShadowId value);
    void remove_fresh_dict_item(ShadowId id, PyObject* key);
    std::optional<std::vector<ShadowId>> dict_items(ShadowId given, PyObject* object);
    ShadowId iterate(ShadowId given, PyObject* object);
    std::optional<ShadowId> next_of(ShadowId given);
    int64_t turns_of(ShadowId given);
    bool view_again(IteratorShadow& it);
    int64_t items_now(const IteratorShadow& it) const;
    ShadowId item_now(const IteratorShadow& it, int64_t k);
    bool plain_module_store(Activation& a, ShadowId id, PyObject* object, PyObject* name, PyObject* value);
    ShadowId identity_object(PyObject* object);
    ShadowId finish_redirect(Activation& a, const Instruction& i, PyObject* result, ShadowId callee);
    ShadowId finish_iterator(PyObject* result);
    // generators.cpp: generators made and consumed in the segment
    bool is_generator(ShadowId given) const;
    struct Generator;
    Generator& generator_of(ShadowId given);
    std::optional<Before> make_generator(Activation& a, PyObject* function, Call& c);
    ShadowId finish_generator(PyObject* result);
    Before resume(Activation& a, ShadowId given, PyObject* generator, int popped, Redirect& redirect);
    bool enter_generator(Activation& callee, ShadowId given);
    void bind_arguments(Activation& callee, PyObject* function, const ShadowId* given, size_t nargs, PyObject* kwnames);
    void avoid(PyCodeObject* generator);
    void avoid_unfinished();
    bool is_dropped_generator(PyCodeObject* code) const;
    Before with_start(Activation& a, Redirect& redirect);
    Before send(Activation& a, Redirect& redirect);
    Before call_next(Activation& a, const Call& c, Redirect& redirect, int popped);
    std::optional<Before> consume(Activation& a, Call& c, Builtin what, Redirect& redirect, int popped);
    PyObject* consumer(const char* name) const;
    bool all_tensors(ShadowId given, PyObject* value);
    bool hold_numbers(ShadowId given, PyObject* value);
    std::optional<Before> call_by_key(Activation& a, const Call& c, const char* consumer_name, Redirect& redirect, int popped);
    std::optional<Before> call_lazy(Activation& a, Call& c, Redirect& redirect, int popped);
    Before pend_call(Activation& a, Call call);


    Limits limits_;
    SegmentKey key_;
    bool met_data_ = false;
    int stopped_at_ = -1;
    struct CodeRow {
        PyCodeObject* code;
        const bytecode::Code* decoded;
        std::vector<bool> seen; // by unit: recorded
    };
    std::vector<CodeRow> codes_; // by span's code - 1
    std::vector<LineNote> lines_;
    PyCodeObject* last_code_ = nullptr;     // whose row is codes_[last_row_]
    size_t last_row_ = 0;
    const Activation* here_ = nullptr;      // the activation of the instruction under way: guards are for its line
    Owned<> call_names_, redirect_names_, number_;
    bool grad_at_start_ = false;
    bool made_function_ = false;
    bool changes_private_ = false; // the call under way changes its first operand, which nobody else has
    bool own_python_ = false; // the running instruction is modelled, though the library runs Python in it (nn.Module.__getattr__)
    Activation* pending_activation_ = nullptr;
    HashMap<ShadowId, graph::NodeId> scalar_nodes_{&arena_};
    std::pmr::unordered_set<uint32_t> claimed_{&arena_}; // nodes whose value already is some object
    ShadowId in_place_target_ = 0, pending_number_ = 0;
    graph::NodeId pending_node_;
    std::vector<ShadowId> redirect_ids_;
    std::vector<PyObject*> redirect_args_;
    Segment segment_;
    graph::Builder builder_;
    Activation* root_ = nullptr;
    bool finished_ = false, discarded_ = false, too_long_ = false, avoids_ = false, foreign_ = false;
    std::string why_not_, refusal_, hint_, native_reason_;
    std::vector<Shadow> shadows_;
    std::vector<ShadowId> alias_;
    mutable std::vector<uint32_t> visited_; // by shadow: the last walk that came by
    mutable uint32_t walk_ = 0;
    std::vector<IteratorShadow> iterators_;
    /// The call that made a generator, until its frame is entered.
    struct Generator {
        PyObject* function = nullptr; // the segment knows it by identity, or made it: kept
        PyCodeObject* code = nullptr; // the function's
        std::vector<ShadowId> args;
        size_t nargs = 0;
        Owned<> kwnames;
        enum : uint8_t { made, suspended, running, ended } state = made;
    };
    std::vector<Generator> generators_;
    HashMap<ShadowId, uint32_t> iterator_of_{&arena_};
    HashMap<PyObject*, ShadowId> by_object_{&arena_};
    HashMap<PyObject*, Owned<>> weak_{&arena_};  // tensors and arrays: weak references that prove an address
    HashMap<PyObject*, Owned<>> kept_{&arena_};  // containers, functions, types, modules: address stays theirs
    OrderedMap<PlaceKey, ShadowId> places_{&arena_};
    OrderedMap<std::tuple<uint8_t, uint32_t, uint32_t, PyObject*>, uint32_t> source_ids_{&arena_};
    OrderedMap<std::tuple<PyTypeObject*, PyObject*>, bool> type_facts_{&arena_};
    HashMap<PyObject*, uint32_t> anchor_ids_{&arena_};
    HashMap<PyObject*, uint32_t> constant_ids_{&arena_};
    HashMap<uint32_t, ShadowId> number_of_source_{&arena_};
    HashMap<PyObject*, uint32_t> code_ids_{&arena_};
    Owned<> keys_;
    std::vector<std::vector<int64_t>> node_strides_; // by node index: layout of the object eager made
    struct Inlined {
        Activation* caller;
        int popped;
        Redirect::After after;
        ShadowId instance;
        ShadowId generator = 0; // no call, but this generator goes on
        PyObject* exit = nullptr; // of __enter__: the type's __exit__
        bool opaque = false; // an error that comes out of it goes its own way: __getattr__ would be asked next
    };
    /// How an attribute is asked for: by LOAD_ATTR, or by getattr() or hasattr().
    struct Lookup {
        int popped = 1;
        Redirect::After after = Redirect::identity;
        ShadowId fallback = 0;
        PyObject* fallback_object = nullptr;
    };
    /// How a derived value is made again, and what it holds.
    struct Made {
        PyObject* callable = nullptr; // null: it cannot be named at an exit
        std::vector<ShadowId> args;
        PyObject* kwnames = nullptr;                   // a constant of the segment
        std::vector<std::pair<PyObject*, ShadowId>> fields; // by interned name
        std::vector<ShadowId> items;                   // what iterating gives
        bool record = false;
        bool modules = false; // a slice of a list of modules, `items`
    };
    HashMap<ShadowId, Made> made_{&arena_};
    PyTypeObject* making_record_ = nullptr;
    struct ContextValue {
        ShadowId token, value;
    };
    HashMap<ShadowId, std::vector<ContextValue>> context_{&arena_}; // by variable: what was set here and not reset yet
    Lookup lookup_;
    bool raising_ = false; // an expected error is on its way through recorded frames
    HashMap<ShadowId, ShadowId> dict_owner_{&arena_}; // the __dict__ of an instance -> the instance
    std::vector<Inlined> calls_; // redirects under way, outermost first
    struct WrittenEffect {
        Effect effect;
        ShadowId target = 0, key = 0, value = 0;
    };
    std::vector<WrittenEffect> effects_;
    /// The program's store, to be made again by a commit. One to the same place replaces no earlier one: what is in between may see it.
    Before note_store(const Activation& a, Effect::Kind kind, ShadowId target, ShadowId key, ShadowId value, int64_t position = 0);
    PendingKind pending_ = PendingKind::none;
    ShadowId pending_shadow_ = 0;
    Call pending_call_;
    std::vector<ShadowId> pending_parts_;
    OrderedMap<int, int> header_turns_{&arena_};
    std::chrono::steady_clock::time_point op_start_;
    double op_seconds_ = 0;
    uint64_t instructions_ = 0;
    uint32_t tensor_nodes_ = 0, fresh_values_ = 0;
    std::vector<uint32_t> recipe_memo_;
    HashMap<ShadowId, uint32_t> built_{&arena_};
    HashMap<ShadowId, uint64_t> named_at_{&arena_}; // the instruction in which ref_of_fresh() last looked

    // Builtins on known arguments (builtins.cpp), one function for each kind.
    static Builtin builtin_of(PyObject* callable);
    Before call_known_builtin(Activation& a, Call& c, Builtin what, Redirect& redirect, int popped);
    Before call_len(Activation& a, const Call& c, Redirect& redirect, int popped);
    Before call_isinstance(Activation& a, const Call& c);
    Before call_getattr(Activation& a, const Call& c, Builtin what, Redirect& redirect, int popped);
    std::optional<Before> call_named_tuple(Activation& a, PyTypeObject* type, Call& c, Redirect& redirect, int popped);
    std::optional<Before> call_tuple_new(Activation& a, PyObject* object, const Call& c);
    Before call_sorted(Activation& a, const Call& c);
    std::optional<std::vector<ShadowId>> sorted_items(Activation& a, const std::vector<ShadowId>& items, PyObject* from, PyObject* sorted, const Call& c);
    Before call_super(Activation& a, const Call& c);
    Before call_range(Activation& a, const Call& c);
    Before call_zip(Activation& a, const Call& c, Builtin what);
    Before call_reversed(Activation& a, const Call& c);
    Before call_iter(Activation& a, const Call& c);
    Before call_sequence(Activation& a, const Call& c, Builtin what);
    Before call_dict(Activation& a, const Call& c, Redirect& redirect, int popped);
    // facts_of_libraries.cpp
    std::optional<Before> named_tuple_method(Activation& a, PyObject* function, const Call& c);
    bool states_numpy_fact(const Call& c);
    // collections.cpp
    bool made_dict(ShadowId given) const;
    bool made_deque(ShadowId given) const;
    Before call_collection(Activation& a, Call& c, Redirect& redirect, int popped);
    bool fill_dict(const Call& c, ShadowId d, size_t first);
    std::optional<Before> dict_of_pairs(Activation& a, const Call& c, const char* consumer_name, Redirect& redirect, int popped);
    std::optional<Before> missing_item(Activation& a, ShadowId id, PyObject* object, ShadowId key_id, PyObject* key, Redirect& redirect);
    std::optional<Before> ordered_method(Activation& a, const Call& c, const char* name);
    Before pop_item(Activation& a, ShadowId self, bool last);
    Before call_init(Activation& a, PyObject* init, ShadowId instance, PyObject* object, Call& c, Redirect& redirect, int popped);
    Before make_counter(Activation& a, Call& c, Redirect& redirect, int popped);
    std::optional<Before> count_elements(Activation& a, PyObject* function, const Call& c);
    Before make_deque(Activation& a, const Call& c);
    void push_to_deque(ShadowId deque, ShadowId value, bool left);
    Py_ssize_t place_in_deque(ShadowId deque, ShadowId key_id, PyObject* key);
    Before deque_method(Activation& a, const Call& c, const char* name, Redirect& redirect, int popped);
    HashMap<ShadowId, ShadowId> factories_{&arena_}; // of the defaultdicts made here
    HashMap<ShadowId, int64_t> bounds_{&arena_};     // of the deques: maxlen, or -1
    Before call_conversion(Activation& a, Call& c, Builtin what);
    Before call_number_builtin(Activation& a, const Call& c, Builtin what);
    Before call_extreme(Activation& a, const Call& c);
    Before pend_pairwise(Activation& a, const Call& c, const std::vector<ShadowId>& ids, const std::vector<PyObject*>& values);
    Before call_folded(Activation& a, const Call& c);
    Before pend_number_call(const Call& c, PyObject* result);
    // Methods of builtin types (methods.cpp); args[0] is the object, and known.
    Before call_known_method(Activation& a, const Call& c, PyTypeObject* type, const char* name, Redirect& redirect, int popped);
    // lists.cpp
    bool follow_list(ShadowId id, PyObject* list);
    std::vector<ShadowId> added_items(ShadowId id) const;
    std::optional<Before> length_of_grown(ShadowId id, PyObject* list);
    void hold_length(uint32_t source);
    std::vector<ShadowId>* items_to_change(Activation& a, ShadowId id, PyObject* list);
    void complete_contents();
    bool drops_finaliser(PyObject* list, Py_ssize_t from, Py_ssize_t to) const;
    Before list_method(Activation& a, const Call& c, const char* name, Redirect& redirect, int popped);
    Before list_append(Activation& a, ShadowId self, ShadowId value, PyObject* list);
    Before extend_list(Activation& a, ShadowId self, PyObject* list, ShadowId given, PyObject* from);
    Before insert_item(Activation& a, ShadowId self, PyObject* list, const Call& c);
    Before pop_list_item(Activation& a, ShadowId self, PyObject* list, const Call& c);
    Before sort_list(Activation& a, ShadowId self, PyObject* list, const Call& c);
    Before store_list_item(Activation& a, ShadowId id, PyObject* list, ShadowId key_id, PyObject* key, ShadowId v, PyObject* value);
    Before store_list_slice(Activation& a, ShadowId id, PyObject* list, PyObject* slice, ShadowId v, PyObject* value);
    Before delete_list_item(Activation& a, ShadowId id, PyObject* list, ShadowId key_id, PyObject* key);
    OrderedMap<ShadowId, ShadowId> contents_{&arena_};    // of lists from outside whose items move: the list of what they hold in the end
    HashMap<ShadowId, int64_t> given_lengths_{&arena_};   // of those whose length was asked for after a change
    HashMap<uint32_t, ShadowId> list_of_source_{&arena_}; // where the length is a number
    Before remove_item(Activation& a, ShadowId container, PyObject* key, PyObject* dict, bool pops);
    Before update_dict(Activation& a, const Call& c);
    Before dict_method(Activation& a, const Call& c, const char* name);
    Before fresh_dict_method(Activation& a, const Call& c, const char* name);
    Before dict_view(Activation& a, const Call& c, IteratorShadow::Kind kind);
    Before dict_get(Activation& a, const Call& c);
    // know(), by kind of value; `id` is canonical and raw.
    void guard_value(ShadowId id, Guard::Kind kind, uint32_t expected);
    Shadow& known_as(ShadowId id, Shadow::Kind kind, PyObject* value);
    /// False, and nothing done, if the value is not one of those that become constants.
    bool know_constant(ShadowId id, PyObject* value);
    bool know_number(ShadowId id, PyObject* value);
    /// The shadow that the object has already, 0 if it has none.
    ShadowId shadow_of_object(PyObject* value) const;
    bool know_again(ShadowId id, ShadowId other);
    bool know_identity(ShadowId id, PyObject* value);
    bool know_data(ShadowId id, PyObject* value);
    bool know_numpy_scalar(ShadowId id, PyObject* value, DType dtype);
    bool know_container(ShadowId id, PyObject* value);
};

/// The instruction after the one that runs and, in the text, `others` more.
const bytecode::Instruction& following(const frame::Activation& a, int others = 0);

} // namespace dyno::capture
