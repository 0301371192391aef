// What each canonical instruction takes from the stack and puts there. Checked against dis.stack_effect by a test.
#include "compiler/bytecode/code.h"

namespace dyno::bytecode {
namespace {

StackUse unpack_use(const Instruction& i) {
    const int n = static_cast<int>(i.arg);
    return i.op == Op::unpack ? StackUse{1, n} : StackUse{1, (n & 0xff) + 1 + (n >> 8)};
}

int function_parts(uint32_t flags) { return python >= 313 ? 0 : __builtin_popcount(flags & 15); }

} // namespace

StackUse stack_use(const Instruction& i, bool jumps) {
    const int n = static_cast<int>(i.arg);
    switch (i.op) {
    case Op::skip:
    case Op::resume:
    case Op::kw_names:
    case Op::delete_fast:
    case Op::make_cell:
    case Op::copy_free_vars:
    case Op::delete_global:
    case Op::delete_name:
    case Op::delete_deref:
    case Op::setup_annotations:
    case Op::jump:
    case Op::jump_back:
    case Op::unknown: return {0, 0};
    case Op::pop_top:
    case Op::store_fast:
    case Op::store_global:
    case Op::store_name:
    case Op::store_deref:
    case Op::delete_attr:
    case Op::list_append:
    case Op::set_add:
    case Op::list_extend:
    case Op::set_update:
    case Op::dict_update:
    case Op::dict_merge:
    case Op::pop_except:
    case Op::jump_false:
    case Op::jump_true:
    case Op::jump_none:
    case Op::jump_not_none:
    case Op::return_value: return {1, 0};
    case Op::pop_two:
    case Op::store_two:
    case Op::store_attr:
    case Op::delete_subscript:
    case Op::map_add: return {2, 0};
    case Op::store_subscript: return {3, 0};
    case Op::store_slice: return {4, 0};
    case Op::push_null:
    case Op::copy:
    case Op::load_fast:
    case Op::load_fast_clear:
    case Op::load_const:
    case Op::load_name:
    case Op::load_deref:
    case Op::load_class_deref:
    case Op::load_locals:
    case Op::load_build_class:
    case Op::load_assertion_error: return {0, 1};
    case Op::print_expr: return {1, python == 311 ? 0 : 1}; // an intrinsic with a result from 3.12 on
    case Op::load_two: return {0, 2};
    case Op::load_global: return {0, 1 + (n & 1)};
    case Op::swap: return {0, 0};
    case Op::load_attr:
    case Op::load_dict_or_deref:
    case Op::load_dict_or_global:
    case Op::negative:
    case Op::positive:
    case Op::invert:
    case Op::logical_not:
    case Op::to_bool:
    case Op::list_to_tuple:
    case Op::format_simple:
    case Op::convert:
    case Op::get_iter:
    case Op::get_yield_from_iter:
    case Op::store_load: return {1, 1};
    case Op::load_method:
    case Op::import_from:
    case Op::get_len:
    case Op::match_mapping:
    case Op::match_sequence:
    case Op::push_exc:
    case Op::with_start: return {1, 2};
    case Op::load_super: return {3, 1 + (n & 1)};
    case Op::import_name:
    case Op::subscript:
    case Op::binary:
    case Op::compare:
    case Op::is_same:
    case Op::contains:
    case Op::format_spec:
    case Op::set_function_attr:
    case Op::end_send: return {2, 1};
    case Op::check_exc: return {1, 1};
    case Op::slice: return {3, 1};
    case Op::build_tuple:
    case Op::build_list:
    case Op::build_set:
    case Op::build_string:
    case Op::build_slice: return {n, 1};
    case Op::build_map: return {2 * n, 1};
    case Op::build_const_map: return {n + 1, 1};
    case Op::unpack:
    case Op::unpack_ex: return unpack_use(i);
    case Op::format_value: return {n & 4 ? 2 : 1, 1};
    case Op::for_iter: return jumps ? StackUse{1, 0} : StackUse{1, 2};
    case Op::send: return python == 311 && jumps ? StackUse{2, 1} : StackUse{2, 2};
    case Op::jump_false_or_pop:
    case Op::jump_true_or_pop: return jumps ? StackUse{1, 1} : StackUse{1, 0};
    case Op::call: return {n + 2, 1};
    case Op::call_kw: return {n + 3, 1};
    case Op::call_ex: return {3 + (n & 1), 1};
    case Op::make_function: return {1 + function_parts(i.arg), 1};
    case Op::match_keys: return {2, 3};
    case Op::reraise: return {1, 0};
    case Op::raise: return {n, 0};
    case Op::with_except: return {4, 5};
    case Op::return_const: return {0, 0};
    case Op::leave_frame: return {1, 1};
    }
    return {0, 0};
}

} // namespace dyno::bytecode
