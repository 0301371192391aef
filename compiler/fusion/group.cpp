// Grouping, consumers first: when a node is met, all its users have been placed, so the maps at which each group wants it are
// known. A node is computed where it is used if one group uses it or if it is cheap; else it is put in memory, by one of
// its users' groups if that makes no circle, else by a group of its own.
#include "compiler/fusion/group.h"
#include "compiler/fusion/costs.h"
#include "compiler/graph/op_info.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <functional>

namespace dyno::fusion {
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::OpKind;

namespace {

std::string name_of(const Graph& g, uint32_t id) { return std::string(graph::info(g.nodes[id].op).name); }

class Grouper {
  public:
    explicit Grouper(const Graph& g)
        : g_(g), n_(static_cast<uint32_t>(g.nodes.size())), users_(n_), must_(n_, false), view_(n_, false), live_(n_, false),
          slot_(n_, {-1, 0}), placed_(n_), subtree_(n_, 0), row_length_(n_, 0) {
        out_.writers.resize(n_);
        out_.in_memory.assign(n_, false);
    }

    Grouping run() {
        mark();
        for (uint32_t id = n_; id-- > 0;)
            if (live_[id]) place(id);
        merge_siblings();
        return std::move(out_);
    }

  private:
    // --- what must be an object, who uses whom

    const Node& node(uint32_t id) const { return g_.nodes[id]; }
    OpKind kind(uint32_t id) const { return graph::info(node(id).op).kind; }
    bool is_call(uint32_t id) const { return node(id).op == Op::extern_call; }
    bool is_buffer_leaf(uint32_t id) const { return node(id).op == Op::input || kind(id) == OpKind::extern_; }
    bool is_number(uint32_t id) const { return node(id).op == Op::scalar || node(id).op == Op::constant; }

    void need_object(uint32_t id) {
        if (is_buffer_leaf(id)) return;
        must_[id] = true;
        if (kind(id) != OpKind::movement || node(id).op == Op::cat || node(id).twin < 0 || view_[id]) return;
        if (!g_.externs[static_cast<size_t>(node(id).twin)].makes_view) return; // a call to check it by, as of sum() without its axis
        view_[id] = true;
        for (NodeId use : g_.externs[static_cast<size_t>(node(id).twin)].uses) need_object(use.index);
    }

    void mark() {
        std::vector<uint32_t> work;
        const auto reach = [&](uint32_t id) {
            if (!live_[id]) live_[id] = true, work.push_back(id);
        };
        for (const graph::Output& o : g_.outputs) need_object(o.node.index), reach(o.node.index);
        for (uint32_t id = 0; id < n_; id++) {
            if (!is_call(id)) continue;
            reach(id);
            for (NodeId use : node(id).operands) need_object(use.index);
        }
        while (!work.empty()) {
            const uint32_t id = work.back();
            work.pop_back();
            for (NodeId o : node(id).operands) {
                users_[o.index].push_back(id);
                reach(o.index);
            }
        }
        for (uint32_t id = 0; id < n_; id++) {
            if (!live_[id] || node(id).op != Op::cat) continue;
            for (uint32_t k = 0; k < node(id).operands.size(); k++) claim_slot(id, k);
        }
        for (uint32_t id = 0; id < n_; id++) {
            subtree_[id] = cost_of(g_, NodeId{id});
            row_length_[id] = length_of_rows(id);
            for (NodeId o : node(id).operands)
                if (!must_[o.index] && !is_buffer_leaf(o.index) && kind(o.index) != OpKind::reduction) subtree_[id] += subtree_[o.index];
        }
    }

    /// If the node's elements each come from a row that was reduced: that row's length, else 0.
    int64_t length_of_rows(uint32_t id) const {
        if (kind(id) == OpKind::reduction)
            return node(node(id).operands[0].index).type.numel() / std::max<int64_t>(1, node(id).type.numel());
        if (kind(id) == OpKind::extern_ || node(id).op == Op::cat) return 0;
        int64_t length = 0;
        for (NodeId o : node(id).operands)
            if (node(o.index).type.numel() == node(id).type.numel()) length = std::max(length, row_length_[o.index]);
        return length;
    }

    void claim_slot(uint32_t cat, uint32_t k) {
        const uint32_t o = node(cat).operands[k].index;
        const bool own = must_[o] || is_buffer_leaf(o) || is_number(o) || node(o).op == Op::cat || slot_[o].first >= 0;
        if (!own) slot_[o] = {static_cast<int32_t>(cat), k};
    }

    // --- groups

    GroupId add_group(Group group) {
        out_.groups.push_back(std::move(group));
        return static_cast<GroupId>(out_.groups.size() - 1);
    }
    Group& group(GroupId id) { return out_.groups[id]; }

    static IndexMap identity(const std::vector<int64_t>& dims, size_t axes) {
        IndexMap map(dims.size(), Affine{0, std::vector<int64_t>(axes, 0)});
        for (size_t d = 0; d < dims.size(); d++) map[d].strides[d] = 1;
        return map;
    }

    /// A group that stores the node alone, so far.
    GroupId own_group(uint32_t id, Root root) {
        Group made;
        const std::vector<int64_t>& dims = node(id).type.dims;
        const bool reduces = kind(id) == OpKind::reduction && !root.copy;
        std::vector<int64_t> full = reduces ? node(node(id).operands[0].index).type.dims : dims;
        for (int64_t d : full) made.axes.push_back({Axis::parallel, d});
        IndexMap map = identity(full, full.size());
        if (reduces) {
            made.reduced[id] = map;
            for (int64_t axis : node(id).ints) {
                made.axes[static_cast<size_t>(axis)].kind = Axis::row;
                map[static_cast<size_t>(axis)].strides.assign(full.size(), 0);
            }
        }
        made.roots = {root};
        made.cost = cost_of(g_, NodeId{id});
        if (root.copy) made.reads.insert(id);
        const GroupId result = add_group(std::move(made));
        if (!root.copy) group(result).maps[id] = {map}, placed_[id].push_back(result);
        return result;
    }

    void place(uint32_t id) {
        if (is_call(id)) return place_call(id);
        std::vector<GroupId> nests, others;
        for (uint32_t user : users_[id]) {
            for (GroupId c : placed_[user]) {
                auto& list = group(c).kind == Group::nest ? nests : others;
                if (std::find(list.begin(), list.end(), c) == list.end()) list.push_back(c);
            }
        }
        if (node(id).op == Op::extern_result) {
            out_.in_memory[id] = true;
            for (GroupId c : nests) read(c, id);
            for (GroupId c : others) read(c, id);
            return;
        }
        if (is_buffer_leaf(id)) {
            out_.in_memory[id] = true;
            for (GroupId c : nests) read(c, id);
            return;
        }
        if (node(id).op == Op::cat) return place_cat(id, nests, others);
        if (view_[id]) return place_view(id, nests, others);
        const bool stored = must_[id] || slot_[id].first >= 0;
        if (node(id).op == Op::scalar && !node(id).ints.empty()) // known only after that call
            for (GroupId c : nests)
                for (uint32_t call = 0; call < id; call++)
                    if (is_call(call) && node(call).ints[0] == node(id).ints[0]) group(c).reads.insert(call);
        if (is_number(id) && !stored) return;
        if (!stored && nests.empty()) return;
        if (!stored && inline_everywhere(id, nests)) return;
        store(id, nests, others);
    }

    void place_call(uint32_t id) {
        out_.in_memory[id] = true;
        Group call;
        call.kind = Group::call;
        call.node = NodeId{id};
        std::vector<GroupId> readers;
        for (uint32_t user : users_[id])
            for (GroupId c : placed_[user]) readers.push_back(c);
        const GroupId made = add_group(std::move(call));
        if (last_call_ != no_group) group(last_call_).after.insert(made); // calls keep their order
        last_call_ = made;
        placed_[id].push_back(made);
        out_.writers[id].push_back(made);
        for (uint32_t user : users_[id])
            if (node(user).op == Op::extern_result) out_.writers[user].push_back(made);
        for (GroupId c : readers) read(c, id);
    }

    void place_view(uint32_t id, const std::vector<GroupId>& nests, const std::vector<GroupId>& others) {
        out_.in_memory[id] = true;
        Group view;
        view.kind = Group::view;
        view.node = NodeId{id};
        const GroupId made = add_group(std::move(view));
        // The eager call sees its own operands, which need not be this node's after simplification.
        for (NodeId use : g_.externs[static_cast<size_t>(node(id).twin)].uses) group(made).reads.insert(use.index);
        out_.writers[id].push_back(made);
        placed_[id].push_back(made);
        for (GroupId c : others) read(c, id);
        for (GroupId c : nests) // loops look through the view at the memory below
            if (!inline_into(c, id)) read(c, id);
    }

    void place_cat(uint32_t id, const std::vector<GroupId>& nests, const std::vector<GroupId>& others) {
        out_.in_memory[id] = true;
        for (uint32_t k = 0; k < node(id).operands.size(); k++) {
            const uint32_t o = node(id).operands[k].index;
            if (slot_[o] == std::pair<int32_t, uint32_t>(static_cast<int32_t>(id), k)) continue;
            Root copy{NodeId{o}, true, static_cast<int32_t>(id), k};
            out_.writers[id].push_back(own_group(o, copy));
            if (is_number(o)) group(out_.writers[id].back()).reads.clear();
        }
        for (GroupId c : nests) read(c, id);
        for (GroupId c : others) read(c, id);
    }

    void read(GroupId c, uint32_t id) {
        group(c).reads.insert(id);
        if (group(c).kind == Group::nest) check_linear(c, id);
    }

    // --- maps

    bool split(GroupId c, size_t axis, int64_t inner) {
        Group& g = group(c);
        if (g.axes.size() >= 12) return false;
        const Axis old = g.axes[axis];
        g.axes[axis].extent = old.extent / inner;
        g.axes.insert(g.axes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, Axis{old.kind, inner});
        for (auto& [id, maps] : g.maps)
            for (IndexMap& map : maps)
                for (Affine& at : map) split_axis(at, axis, inner);
        for (auto& [id, map] : g.reduced)
            for (Affine& at : map) split_axis(at, axis, inner);
        return true;
    }

    /// The maps at which group `c` wants node `id`; false if one of them is not affine.
    bool wanted(GroupId c, uint32_t id, std::vector<IndexMap>& result) {
        for (bool again = true; again;) {
            again = false;
            result.clear();
            for (uint32_t user : users_[id]) {
                const auto found = group(c).maps.find(user);
                if (found == group(c).maps.end()) continue;
                for (const IndexMap& map : found->second) {
                    IndexMap mine = map;
                    if (kind(user) == OpKind::reduction)
                        mine = group(c).reduced.at(user);
                    else if (kind(user) == OpKind::movement) {
                        Sent sent = through_movement(g_, NodeId{user}, map, group(c).axes);
                        if (sent.kind == Sent::split && split(c, sent.axis, sent.inner)) {
                            again = true;
                            break;
                        }
                        if (sent.kind != Sent::map) return false;
                        mine = std::move(sent.operand);
                    }
                    if (node(id).type.dims.empty()) mine.clear();
                    if (std::find(result.begin(), result.end(), mine) == result.end()) result.push_back(std::move(mine));
                }
                if (again) break;
            }
        }
        return true;
    }

    /// A value in memory that a group wants at a map that is not affine must lie in row-major order: else a copy is made.
    void check_linear(GroupId c, uint32_t id) {
        std::vector<IndexMap> maps;
        if (wanted(c, id, maps) || !needs_copy(id)) return;
        auto [copy, fresh] = out_.contiguous_copy.try_emplace(id, no_group);
        if (fresh) {
            const GroupId made = own_group(id, Root{NodeId{id}, true, -1, 0});
            out_.contiguous_copy[id] = made;
        }
        group(c).after.insert(out_.contiguous_copy[id]);
    }
    bool needs_copy(uint32_t id) const {
        if (slot_[id].first >= 0) return true;
        for (const graph::Input& input : g_.inputs)
            if (input.node.index == id && input.strides != row_major(node(id).type.dims)) return true;
        for (const graph::Output& output : g_.outputs)
            if (output.node.index == id && output.strides != row_major(node(id).type.dims)) return true;
        return false;
    }

    // --- computing a node where it is used

    bool inline_everywhere(uint32_t id, const std::vector<GroupId>& nests) {
        if (nests.size() > 1 && (kind(id) == OpKind::reduction || subtree_[id] > cheap)) {
            note(id, "several kernels use it and it is not cheap to compute again");
            return false;
        }
        std::vector<GroupId> done;
        for (GroupId c : nests) {
            if (inline_into(c, id)) {
                done.push_back(c);
                continue;
            }
            for (GroupId undo : done) {
                group(undo).maps.erase(id);
                group(undo).cost -= cost_of(g_, NodeId{id});
            }
            placed_[id].clear();
            return false;
        }
        return true;
    }

    bool inline_into(GroupId c, uint32_t id) {
        if (group(c).maps.size() >= largest_group) return refuse(id, "the kernel would become too large");
        std::vector<IndexMap> maps;
        if (!wanted(c, id, maps)) return refuse(id, "a reshape of it does not follow its rows");
        if (maps.empty()) return false;
        if (kind(id) == OpKind::reduction) {
            if (maps.size() > 1) return refuse(id, "it is used at several places of its shape");
            if (!inline_reduction(c, id, maps[0])) return false;
            if (!wanted(c, id, maps)) return false; // axes may have been added
        } else if (!worth_again(c, id, maps)) {
            return refuse(id, "it would be computed again for every row it is broadcast to");
        }
        group(c).maps[id] = maps;
        group(c).cost += cost_of(g_, NodeId{id});
        placed_[id].push_back(c);
        return true;
    }

    /// How often the group would evaluate it, against how many elements it has.
    bool worth_again(GroupId c, uint32_t id, const std::vector<IndexMap>& maps) {
        if (subtree_[id] <= cheap) return true;
        const Group& g = group(c);
        double times = 0;
        for (const IndexMap& map : maps) {
            const std::vector<bool> used = axes_of(map, g.axes);
            bool element = false, any = false, rows = false;
            for (size_t k = 0; k < used.size(); k++) {
                rows |= g.axes[k].kind == Axis::row;
                any |= used[k];
                element |= used[k] && g.axes[k].kind == Axis::row;
            }
            double points = 1;
            for (const Axis& axis : g.axes)
                if (any && (element || !rows || axis.kind == Axis::parallel)) points *= static_cast<double>(axis.extent);
            times += points;
        }
        const auto own = static_cast<double>(std::max<int64_t>(1, node(id).type.numel()));
        if (times <= 1.5 * own) return true;
        // It comes from a reduction over just the axes it is broadcast along: these will become row axes, it a row value.
        return maps.size() == 1 && row_length_[id] > 0 && times == own * static_cast<double>(row_length_[id]);
    }

    bool inline_reduction(GroupId c, uint32_t id, const IndexMap& map) {
        Group& g = group(c);
        const std::vector<int64_t>& dims = node(node(id).operands[0].index).type.dims;
        if (!covers(node(id).type.dims, map, g.axes)) return refuse(id, "only a part of it is used");
        const std::vector<bool> used = axes_of(map, g.axes);
        std::vector<size_t> free;
        bool rows = false;
        for (size_t k = 0; k < g.axes.size(); k++) {
            rows |= g.axes[k].kind == Axis::row;
            if (used[k] && g.axes[k].kind == Axis::row) return refuse(id, "its rows lie across those of the kernel");
            if (!used[k] && g.axes[k].extent != 1) free.push_back(k);
        }
        std::vector<int64_t> reduced;
        for (int64_t axis : node(id).ints) reduced.push_back(axis);
        if (free.empty() && !rows) return add_rows(c, id, map, dims);
        int64_t free_points = 1, reduced_points = 1, row_points = 1, parallel_points = 1;
        for (size_t k : free) free_points *= g.axes[k].extent;
        for (int64_t axis : reduced) reduced_points *= dims[static_cast<size_t>(axis)];
        for (const Axis& axis : g.axes) (axis.kind == Axis::row ? row_points : parallel_points) *= axis.extent;
        if (free_points != reduced_points || (rows && free_points != row_points)) return refuse(id, "its rows have another length");
        if (free_points == 0) return refuse(id, "its rows are empty");
        if (!rows && free_points > longest_row && parallel_points / free_points < 64)
            return refuse(id, "the rows are too long to be kept on chip and too few to share");
        IndexMap operand = map;
        if (!match(g, free, reduced, dims, operand)) return refuse(id, "its rows have another shape");
        for (size_t k : free) g.axes[k].kind = Axis::row;
        g.reduced[id] = std::move(operand);
        return true;
    }

    /// Free axes become the coordinates of the reduced dims, in order; several axes may count out one dim.
    static bool match(const Group& g, const std::vector<size_t>& free, const std::vector<int64_t>& reduced,
                      const std::vector<int64_t>& dims, IndexMap& operand) {
        size_t next = free.size();
        for (size_t r = reduced.size(); r-- > 0;) {
            const auto d = static_cast<size_t>(reduced[r]);
            operand[d] = Affine{0, std::vector<int64_t>(g.axes.size(), 0)};
            int64_t counted = 1;
            while (counted < dims[d]) {
                if (next == 0) return false;
                const size_t k = free[--next];
                operand[d].strides[k] = counted;
                counted *= g.axes[k].extent;
            }
            if (counted != dims[d]) return false;
        }
        return next == 0;
    }

    bool add_rows(GroupId c, uint32_t id, const IndexMap& map, const std::vector<int64_t>& dims) {
        Group& g = group(c);
        IndexMap operand = map;
        const size_t first = g.axes.size(), added = node(id).ints.size();
        if (first + added > 12) return refuse(id, "the kernel would have too many axes");
        for (int64_t axis : node(id).ints) g.axes.push_back({Axis::row, dims[static_cast<size_t>(axis)]});
        const auto widen = [&](IndexMap& m) {
            for (Affine& at : m) at.strides.resize(g.axes.size(), 0);
        };
        for (auto& [other, maps] : g.maps)
            for (IndexMap& m : maps) widen(m);
        for (auto& [other, m] : g.reduced) widen(m);
        widen(operand);
        for (size_t k = 0; k < added; k++) {
            Affine& at = operand[static_cast<size_t>(node(id).ints[k])];
            at.offset = 0;
            at.strides.assign(g.axes.size(), 0);
            at.strides[first + k] = 1;
        }
        g.reduced[id] = std::move(operand);
        return true;
    }

    // --- putting a node in memory

    void store(uint32_t id, const std::vector<GroupId>& nests, const std::vector<GroupId>& others) {
        out_.in_memory[id] = true;
        Root root{NodeId{id}, false, slot_[id].first, slot_[id].second};
        GroupId owner = no_group;
        for (GroupId c : nests) {
            if (owner != no_group || !may_join(c, id, nests, others)) continue;
            group(c).roots.push_back(root);
            owner = c;
        }
        if (owner == no_group) owner = own_group(id, root);
        out_.writers[id].push_back(owner);
        if (slot_[id].first >= 0) out_.writers[static_cast<size_t>(slot_[id].first)].push_back(owner);
        for (GroupId c : nests)
            if (c != owner) read(c, id);
        for (GroupId c : others) read(c, id);
    }

    bool may_join(GroupId c, uint32_t id, const std::vector<GroupId>& nests, const std::vector<GroupId>& others) {
        const auto circle = [&](GroupId d) { return d != c && depends_on(out_, c, d); };
        if (std::any_of(nests.begin(), nests.end(), circle) || std::any_of(others.begin(), others.end(), circle)) return false;
        if (slot_[id].first >= 0) // readers of the cat's buffer read what this group would write
            for (uint32_t user : users_[static_cast<size_t>(slot_[id].first)])
                for (GroupId d : placed_[user])
                    if (d == c || depends_on(out_, c, d)) return false;
        std::vector<IndexMap> maps;
        if (is_number(id) || !wanted(c, id, maps) || maps.size() != 1 || !covers(node(id).type.dims, maps[0], group(c).axes)) return false;
        if (kind(id) != OpKind::reduction) {
            const std::vector<bool> used = axes_of(maps[0], group(c).axes);
            for (size_t k = 0; k < used.size(); k++) // a row value is stored once a row; anything else must use all axes
                if (!used[k] && group(c).axes[k].extent != 1 && group(c).axes[k].kind == Axis::parallel) return false;
            if (!row_or_element(group(c), used)) return false;
        }
        return inline_into(c, id);
    }
    static bool row_or_element(const Group& g, const std::vector<bool>& used) {
        bool some = false, all = true;
        for (size_t k = 0; k < used.size(); k++) {
            if (g.axes[k].kind != Axis::row || g.axes[k].extent == 1) continue;
            some |= used[k];
            all &= used[k];
        }
        return !some || all;
    }

    // --- siblings

    /// Groups over the same axes that read the same memory become one, if neither needs the other.
    void merge_siblings() {
        auto& groups = out_.groups;
        if (groups.size() > 200) return;
        for (GroupId a = 0; a < groups.size(); a++)
            for (GroupId b = a + 1; b < groups.size(); b++) {
                if (groups[a].dead || groups[b].dead || groups[a].kind != Group::nest || groups[b].kind != Group::nest ||
                    groups[a].axes != groups[b].axes)
                    continue;
                const bool share = std::any_of(groups[a].reads.begin(), groups[a].reads.end(),
                                               [&](uint32_t r) { return groups[b].reads.count(r) && node(r).type.numel() > 1; });
                if (!share || groups[a].maps.size() + groups[b].maps.size() > largest_group) continue;
                if (depends_on(out_, a, b) || depends_on(out_, b, a)) continue;
                merge(a, b);
            }
    }
    void merge(GroupId a, GroupId b) {
        Group &into = group(a), &from = group(b);
        into.roots.insert(into.roots.end(), from.roots.begin(), from.roots.end());
        for (auto& [id, maps] : from.maps)
            for (IndexMap& map : maps)
                if (auto& mine = into.maps[id]; std::find(mine.begin(), mine.end(), map) == mine.end()) mine.push_back(map);
        into.reduced.insert(from.reduced.begin(), from.reduced.end());
        into.reads.insert(from.reads.begin(), from.reads.end());
        into.after.insert(from.after.begin(), from.after.end());
        from.dead = true;
        for (auto& writers : out_.writers) std::replace(writers.begin(), writers.end(), b, a);
        for (Group& g : out_.groups)
            if (g.after.erase(b)) g.after.insert(a);
        for (auto& [id, copy] : out_.contiguous_copy)
            if (copy == b) copy = a;
    }

    // --- notes

    bool refuse(uint32_t id, const char* reason) {
        note(id, reason);
        return false;
    }
    void note(uint32_t id, const std::string& reason) {
        if (noted_.insert(id).second)
            out_.notes.push_back({"not_fused", name_of(g_, id) + " is stored, not fused into its users: " + reason, node(id).from});
    }

    static constexpr double cheap = 0.13;         // four plain operations: less than a trip to memory
    static constexpr size_t largest_group = 300;  // nodes
    static constexpr int64_t longest_row = 65536; // elements
    const Graph& g_;
    uint32_t n_;
    std::vector<std::vector<uint32_t>> users_;
    std::vector<bool> must_, view_, live_;
    std::vector<std::pair<int32_t, uint32_t>> slot_;
    std::vector<std::vector<GroupId>> placed_; // by node: groups that compute it (or call, or make the view)
    std::vector<double> subtree_;
    std::vector<int64_t> row_length_; // by node: see length_of_rows
    GroupId last_call_ = no_group;
    std::set<uint32_t> noted_;
    Grouping out_;
};

} // namespace

bool depends_on(const Grouping& grouping, GroupId group, GroupId other) {
    std::vector<bool> seen(grouping.groups.size(), false);
    std::vector<GroupId> work{group};
    const auto push = [&](GroupId g) {
        if (!seen[g]) seen[g] = true, work.push_back(g);
    };
    while (!work.empty()) {
        const GroupId g = work.back();
        work.pop_back();
        for (uint32_t node : grouping.groups[g].reads)
            for (GroupId w : grouping.writers[node]) push(w);
        for (GroupId w : grouping.groups[g].after) push(w);
    }
    return seen[other];
}

Grouping group_nodes(const Graph& graph) { return Grouper(graph).run(); }

} // namespace dyno::fusion
