// What each canonical instruction takes from the stack and puts there. Checked against dis.stack_effect by a test.
#include "compiler/bytecode/code.h"

#include <array>

namespace dyno::bytecode {
namespace {

/// Where it depends neither on the argument nor on the jump.
struct Fixed {
    Op op;
    int8_t pops, pushes;
};
constexpr Fixed fixed[] = {
    {Op::skip, 0, 0},
    {Op::resume, 0, 0},
    {Op::kw_names, 0, 0},
    {Op::pop_top, 1, 0},
    {Op::pop_two, 2, 0},
    {Op::push_null, 0, 1},
    {Op::copy, 0, 1},
    {Op::swap, 0, 0},
    {Op::load_fast, 0, 1},
    {Op::load_fast_clear, 0, 1},
    {Op::load_two, 0, 2},
    {Op::store_fast, 1, 0},
    {Op::store_two, 2, 0},
    {Op::store_load, 1, 1},
    {Op::delete_fast, 0, 0},
    {Op::make_cell, 0, 0},
    {Op::copy_free_vars, 0, 0},
    {Op::load_const, 0, 1},
    {Op::load_name, 0, 1},
    {Op::load_deref, 0, 1},
    {Op::load_class_deref, 0, 1},
    {Op::load_dict_or_deref, 1, 1},
    {Op::load_dict_or_global, 1, 1},
    {Op::load_locals, 0, 1},
    {Op::store_global, 1, 0},
    {Op::store_name, 1, 0},
    {Op::store_deref, 1, 0},
    {Op::delete_global, 0, 0},
    {Op::delete_name, 0, 0},
    {Op::delete_deref, 0, 0},
    {Op::setup_annotations, 0, 0},
    {Op::import_name, 2, 1},
    {Op::import_from, 1, 2},
    {Op::load_build_class, 0, 1},
    {Op::load_assertion_error, 0, 1},
    {Op::load_attr, 1, 1},
    {Op::load_method, 1, 2},
    {Op::store_attr, 2, 0},
    {Op::delete_attr, 1, 0},
    {Op::subscript, 2, 1},
    {Op::slice, 3, 1},
    {Op::store_subscript, 3, 0},
    {Op::store_slice, 4, 0},
    {Op::delete_subscript, 2, 0},
    {Op::binary, 2, 1},
    {Op::compare, 2, 1},
    {Op::is_same, 2, 1},
    {Op::contains, 2, 1},
    {Op::negative, 1, 1},
    {Op::positive, 1, 1},
    {Op::invert, 1, 1},
    {Op::logical_not, 1, 1},
    {Op::to_bool, 1, 1},
    {Op::list_append, 1, 0},
    {Op::set_add, 1, 0},
    {Op::map_add, 2, 0},
    {Op::list_extend, 1, 0},
    {Op::set_update, 1, 0},
    {Op::dict_update, 1, 0},
    {Op::dict_merge, 1, 0},
    {Op::list_to_tuple, 1, 1},
    {Op::format_simple, 1, 1},
    {Op::format_spec, 2, 1},
    {Op::convert, 1, 1},
    {Op::get_iter, 1, 1},
    {Op::get_yield_from_iter, 1, 1},
    {Op::get_len, 1, 2},
    {Op::end_send, 2, 1},
    {Op::jump, 0, 0},
    {Op::jump_back, 0, 0},
    {Op::jump_false, 1, 0},
    {Op::jump_true, 1, 0},
    {Op::jump_none, 1, 0},
    {Op::jump_not_none, 1, 0},
    {Op::set_function_attr, 2, 1},
    {Op::match_mapping, 1, 2},
    {Op::match_sequence, 1, 2},
    {Op::match_keys, 2, 3},
    {Op::push_exc, 1, 2},
    {Op::check_exc, 1, 1},
    {Op::pop_except, 1, 0},
    {Op::reraise, 1, 0},
    {Op::with_start, 1, 2},
    {Op::with_except, 4, 5},
    {Op::return_value, 1, 0},
    {Op::return_const, 0, 0},
    {Op::leave_frame, 1, 1},
    {Op::unknown, 0, 0},
};

constexpr int8_t varies = -1;
constexpr auto by_op = [] {
    std::array<Fixed, static_cast<size_t>(Op::unknown) + 1> table{};
    for (auto& row : table) row.pops = varies;
    for (const Fixed& row : fixed) table[static_cast<size_t>(row.op)] = row;
    return table;
}();

int function_parts(uint32_t flags) { return python >= 313 ? 0 : __builtin_popcount(flags & 15); }

/// The others: by the argument or by the jump.
StackUse varying(const Instruction& i, bool jumps) {
    const int n = static_cast<int>(i.arg);
    switch (i.op) {
    case Op::print_expr:
        return {1, python == 311 ? 0 : 1};
    case Op::load_global:
        return {0, 1 + (n & 1)};
    case Op::load_super:
        return {3, 1 + (n & 1)};
    case Op::build_tuple:
    case Op::build_list:
    case Op::build_set:
    case Op::build_string:
    case Op::build_slice:
        return {n, 1};
    case Op::build_map:
        return {2 * n, 1};
    case Op::build_const_map:
        return {n + 1, 1};
    case Op::format_value:
        return {n & 4 ? 2 : 1, 1};
    case Op::for_iter:
        return jumps ? StackUse{1, 0} : StackUse{1, 2};
    case Op::send:
        return python == 311 && jumps ? StackUse{2, 1} : StackUse{2, 2};
    case Op::jump_false_or_pop:
    case Op::jump_true_or_pop:
        return jumps ? StackUse{1, 1} : StackUse{1, 0};
    case Op::call:
        return {n + 2, 1};
    case Op::call_kw:
        return {n + 3, 1};
    case Op::call_ex:
        return {3 + (n & 1), 1};
    case Op::make_function:
        return {1 + function_parts(i.arg), 1};
    case Op::raise:
        return {n, 0};
    case Op::unpack:
        return {1, n};
    case Op::unpack_ex:
        return {1, (n & 0xff) + 1 + (n >> 8)};
    default:
        return {0, 0};
    }
}

} // namespace

StackUse stack_use(const Instruction& i, bool jumps) {
    const Fixed& row = by_op[static_cast<size_t>(i.op)];
    return row.pops == varies ? varying(i, jumps) : StackUse{row.pops, row.pushes};
}

} // namespace dyno::bytecode
