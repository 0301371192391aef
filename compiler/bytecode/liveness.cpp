// Which slots of locals[] a code still reads: backward data flow over instructions, exception edges included.
// Slots with cells are read by every dereference, stores too, since those go through the cell.
#include "compiler/bytecode/code.h"

namespace dyno::bytecode {
namespace {

/// The slots one instruction reads, writes and empties; at most two each.
struct SlotUse {
    int reads[2] = {-1, -1};
    int writes[2] = {-1, -1};
};

SlotUse slot_use(const Instruction& i) {
    const int a = static_cast<int>(i.arg);
    switch (i.op) {
    case Op::load_fast:
    case Op::load_deref:
    case Op::load_class_deref:
    case Op::load_dict_or_deref:
    case Op::store_deref:
    case Op::delete_deref:
        return {{a, -1}, {-1, -1}};
    case Op::load_two:
        return {{a >> 4, a & 15}, {-1, -1}};
    case Op::load_fast_clear:
    case Op::delete_fast:
    case Op::make_cell:
        return {{a, -1}, {a, -1}};
    case Op::store_fast:
        return {{-1, -1}, {a, -1}};
    case Op::store_two:
        return {{-1, -1}, {a >> 4, a & 15}};
    case Op::store_load:
        // Reads the second after writing the first.
        return {{(a & 15) == a >> 4 ? -1 : a & 15, -1}, {a >> 4, -1}};
    default:
        return {};
    }
}

bool falls_through(Op op) {
    switch (op) {
    case Op::jump:
    case Op::jump_back:
    case Op::return_value:
    case Op::return_const:
    case Op::raise:
    case Op::reraise:
        return false;
    default:
        return true;
    }
}

int jump_target(const Instruction& i) {
    switch (i.op) {
    case Op::for_iter:
    case Op::send:
    case Op::jump:
    case Op::jump_back:
    case Op::jump_false:
    case Op::jump_true:
    case Op::jump_none:
    case Op::jump_not_none:
    case Op::jump_false_or_pop:
    case Op::jump_true_or_pop:
        return static_cast<int>(i.arg);
    default:
        return -1;
    }
}

} // namespace

bool Code::live(int slot, int unit) const {
    if (slot == 0 && uses_super) return true;
    if (live_.empty()) compute_liveness();
    return live_[static_cast<size_t>(unit) * live_words_ + static_cast<size_t>(slot) / 64] >> (slot % 64) & 1;
}

void Code::compute_liveness() const {
    const size_t words = static_cast<size_t>(locals) / 64 + 1;
    const size_t units = instructions.size();
    std::vector<size_t> starts;
    for (size_t u = 0; u + 1 < units; u += instructions[u].size) starts.push_back(u);
    std::vector<uint64_t> live(units * words, 0), now(words);
    auto include = [&](size_t from) {
        for (size_t w = 0; w < words; w++) now[w] |= live[from * words + w];
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t s = starts.size(); s-- > 0;) {
            const size_t u = starts[s];
            const Instruction& i = instructions[u];
            std::fill(now.begin(), now.end(), 0);
            if (falls_through(i.op)) include(u + i.size);
            if (const int target = jump_target(i); target >= 0) include(static_cast<size_t>(target));
            const SlotUse use = slot_use(i);
            auto word = [&](int slot) -> uint64_t& { return now[static_cast<size_t>(slot) / 64]; };
            for (int slot : use.writes)
                if (slot >= 0) word(slot) &= ~(uint64_t{1} << (slot % 64));
            // What an instruction raises leaves before it has written anything.
            if (const Handler* h = handler_of(static_cast<int>(u))) include(static_cast<size_t>(h->target));
            for (int slot : use.reads)
                if (slot >= 0) word(slot) |= uint64_t{1} << (slot % 64);
            for (size_t w = 0; w < words; w++) {
                changed |= now[w] != live[u * words + w];
                live[u * words + w] = now[w];
            }
        }
    }
    live_ = std::move(live);
    live_words_ = words;
}

} // namespace dyno::bytecode
