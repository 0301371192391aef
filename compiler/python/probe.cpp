// Finds where torch keeps the facts of a tensor by comparing memory with what public calls say.
// Input: sample tensors with facts; output: a Layout, or the fact that was refused. It must never fault (memory is read through a
// pipe) and never guess: two places that explain everything are a refusal, since the wrong one would be read silently.
#include "compiler/python/probe.h"

#include <fcntl.h>
#include <functional>
#include <set>
#include <sys/syscall.h>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dyno::python {
namespace {

constexpr int impl_bytes = 256, storage_bytes = 160, meta_bytes = 256, counter_bytes = 48; // how far we look in each object
// The flags of a storage fill the word behind its size; further on are pointers, a byte of which can agree in all samples of one heap.
constexpr int flags_behind = 8 + 8;

/// The kernel reads our memory for us: write() answers EFAULT where a load would kill the process.
class Pipe {
  public:
    Pipe() {
        if (pipe2(ends_, O_CLOEXEC) != 0) ends_[0] = ends_[1] = -1;
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    ~Pipe() {
        if (ends_[0] < 0) return;
        close(ends_[0]);
        close(ends_[1]);
    }
    bool copy(void* to, const void* from, size_t n) {
        if (ends_[0] < 0 || !from) return false;
        // Straight to the kernel: the C library's wrapper would be stopped by a checking allocator, since we look past the end of objects.
        const ssize_t put = syscall(SYS_write, ends_[1], from, n);
        return put >= 0 && read(ends_[0], to, static_cast<size_t>(put)) == put && static_cast<size_t>(put) == n;
    }

  private:
    int ends_[2] = {-1, -1};
};

struct Block {
    std::vector<char> bytes;

    template <class T>
    bool get(int offset, T& out) const {
        if (offset < 0 || static_cast<size_t>(offset) + sizeof(T) > bytes.size()) return false;
        std::memcpy(&out, bytes.data() + offset, sizeof out);
        return true;
    }
    template <class T>
    bool is(int offset, T want) const {
        T got;
        return get(offset, got) && got == want;
    }
    bool shows(int offset, const std::vector<int64_t>& row) const {
        for (size_t i = 0; i < row.size(); i++)
            if (!is<int64_t>(offset + static_cast<int>(i) * 8, row[i])) return false;
        return true;
    }
};

struct Sample {
    PyObject* tensor; // both kept by the list of samples
    PyObject* facts;
    Block object, impl, storage, meta;

    bool has(const char* fact) const { return PyDict_GetItemString(facts, fact) != nullptr; }
    uint64_t word(const char* fact) const { return PyLong_AsUnsignedLongLongMask(PyDict_GetItemString(facts, fact)); }
    std::vector<int64_t> row(const char* fact) const {
        std::vector<int64_t> out;
        PyObject* tuple = PyDict_GetItemString(facts, fact);
        for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++) out.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
        return out;
    }
    uint64_t key(const char* fact) const {
        PyObject* value = PyDict_GetItemString(facts, fact);
        return PyLong_Check(value) ? PyLong_AsUnsignedLongLongMask(value) : static_cast<uint64_t>(PyObject_Hash(value));
    }
};

using Explains = std::function<bool(const Sample&, int)>;
using Part = Block Sample::*;

/// Where and how a fact is looked for: `least` different values, offsets below `end` in steps; with `pair`, two adjacent hits count as
/// one, the first: a shared_ptr's pointer and count are always set together.
struct Search {
    const char* fact;
    int end, step;
    size_t least;
    bool pair = false;
};

class Finder {
  public:
    Finder(std::vector<Sample>& samples, Layout& layout, Pipe& pipe) : samples_(samples), at_(layout), pipe_(pipe) {}

    bool run() { return object_facts() && shape_facts() && storage_facts() && version() && autograd_facts(); }

  private:
    bool refuse(const char* fact, const std::string& why) {
        if (at_.refused.empty()) at_.refused = std::string(fact) + ": " + why;
        return false;
    }

    bool find(int& out, const Search& search, const Explains& explains) {
        std::set<uint64_t> values;
        std::vector<const Sample*> with;
        for (const Sample& s : samples_)
            if (s.has(search.fact)) {
                with.push_back(&s);
                values.insert(s.key(search.fact));
            }
        if (values.size() < search.least) return refuse(search.fact, "too few different values to prove it");
        std::vector<int> hits;
        for (int offset = 0; offset < search.end; offset += search.step) {
            bool all = true;
            for (const Sample* s : with) all = all && explains(*s, offset);
            if (all) hits.push_back(offset);
        }
        if (search.pair && hits.size() == 2 && hits[1] == hits[0] + 8) hits.pop_back();
        if (hits.size() != 1)
            return refuse(search.fact, hits.empty() ? "not found" : "found at " + std::to_string(hits.size()) + " places");
        out = hits[0];
        return true;
    }

    template <class T>
    bool word(int& out, const char* fact, Part where, int end, size_t least) {
        const int step = sizeof(T);
        return find(out, {fact, end, step, least},
                    [=](const Sample& s, int o) { return (s.*where).template is<T>(o, static_cast<T>(s.word(fact))); });
    }

    /// A pointer that is set exactly in the samples whose fact is 1; samples without the fact say nothing.
    bool pointer(int& out, const char* fact, Part where, int end) {
        return find(out, {fact, end, 8, 2, true}, [=](const Sample& s, int o) {
            uint64_t got;
            if ((s.*where).bytes.empty()) return s.word(fact) == 0;
            return (s.*where).get(o, got) && (got != 0) == (s.word(fact) != 0);
        });
    }

    bool flag(int& out, const char* fact, Part where, int end) {
        return find(out, {fact, end, 1, 2}, [=](const Sample& s, int o) {
            if ((s.*where).bytes.empty()) return s.word(fact) == 0;
            return (s.*where).template is<uint8_t>(o, static_cast<uint8_t>(s.word(fact)));
        });
    }

    /// Copies what the pointers at `offset` of `from` lead to, in every sample that has the fact `needs`.
    bool follow(Part to, Part from, int offset, int size, const char* needs) {
        for (Sample& s : samples_) {
            if (!s.has(needs)) continue;
            const void* target;
            if (!(s.*from).get(offset, target)) return refuse(needs, "pointer out of range");
            if (!target) continue;
            (s.*to).bytes.resize(static_cast<size_t>(size));
            if (!pipe_.copy((s.*to).bytes.data(), target, static_cast<size_t>(size))) return refuse(needs, "pointer not readable");
        }
        return true;
    }

    bool object_facts() {
        for (Sample& s : samples_) {
            const char* from = reinterpret_cast<const char*>(s.tensor);
            s.object.bytes.assign(from, from + Py_TYPE(s.tensor)->tp_basicsize);
        }
        const int object_bytes = static_cast<int>(samples_[0].object.bytes.size());
        return word<uint64_t>(at_.impl, "impl", &Sample::object, object_bytes, 10) &&
               follow(&Sample::impl, &Sample::object, at_.impl, impl_bytes, "impl") &&
               word<uint64_t>(at_.keys, "keys", &Sample::impl, impl_bytes, 6) && key_bits();
    }

    bool key_bits() {
        for (auto [fact, bit] : {std::pair{"conj", &at_.conj_bit}, {"neg", &at_.neg_bit}, {"zero", &at_.zero_bit}}) {
            uint64_t always = ~uint64_t{0}, never = 0;
            bool seen = false;
            for (const Sample& s : samples_) {
                if (!s.has(fact)) continue;
                if (s.word(fact)) {
                    always &= s.word("keys");
                    seen = true;
                } else {
                    never |= s.word("keys");
                }
            }
            const uint64_t one = always & ~never;
            if (!seen || !one || (one & (one - 1))) return refuse(fact, "no single bit of the key set");
            *bit = one;
        }
        return true;
    }

    bool shape_facts() {
        return word<uint64_t>(at_.storage, "storage", &Sample::impl, impl_bytes, 8) &&
               word<int64_t>(at_.storage_offset, "offset", &Sample::impl, impl_bytes, 4) &&
               word<int64_t>(at_.numel, "numel", &Sample::impl, impl_bytes, 6) &&
               word<int64_t>(at_.ndim, "ndim", &Sample::impl, impl_bytes, 5) && inline_rows() && heap_rows() &&
               word<uint16_t>(at_.dtype, "dtype", &Sample::impl, impl_bytes, 8) && device();
    }

    bool device() { // type and index are adjacent bytes, and the facts give them as one u16
        const bool found = find(at_.device_type, {"device", impl_bytes, 1, 2},
                                [](const Sample& s, int o) { return s.impl.is<uint16_t>(o, static_cast<uint16_t>(s.word("device"))); });
        at_.device_index = at_.device_type + 1;
        return found;
    }

    /// The limit of the inline form: the largest rank for which some offset still shows the sizes.
    bool inline_rows() {
        for (int limit = 8; limit >= 1; limit--) {
            auto shows = [&](const char* row) -> Explains {
                return [=](const Sample& s, int o) { return s.word("ndim") > static_cast<uint64_t>(limit) || s.impl.shows(o, s.row(row)); };
            };
            Layout tried;
            Finder quiet(samples_, tried, pipe_);
            if (!quiet.find(tried.sizes, {"sizes", impl_bytes, 8, 6}, shows("sizes"))) continue;
            if (!quiet.find(tried.strides, {"strides", impl_bytes, 8, 6}, shows("strides"))) continue;
            at_.sizes = tried.sizes;
            at_.strides = tried.strides;
            at_.max_inline = limit;
            return true;
        }
        return refuse("sizes", "no inline form found");
    }

    bool heap_rows() {
        return find(at_.heap, {"sizes", impl_bytes, 8, 6}, [&](const Sample& s, int o) {
            const int n = static_cast<int>(s.word("ndim"));
            if (n <= at_.max_inline) return true;
            Block heap;
            heap.bytes.resize(static_cast<size_t>(n) * 16);
            const void* target;
            return s.impl.get(o, target) && pipe_.copy(heap.bytes.data(), target, heap.bytes.size()) && heap.shows(0, s.row("sizes")) &&
                   heap.shows(8 * n, s.row("strides"));
        });
    }

    bool storage_facts() {
        return follow(&Sample::storage, &Sample::impl, at_.storage, storage_bytes, "storage") &&
               word<uint64_t>(at_.data, "data", &Sample::storage, storage_bytes, 8) &&
               word<uint64_t>(at_.nbytes, "nbytes", &Sample::storage, storage_bytes, 6) &&
               flag(at_.checked, "checked", &Sample::storage, at_.nbytes + flags_behind);
    }

    /// Does a pointer at `outer` lead to a block with the counter at `inner`, and is it null exactly for inference tensors?
    bool version_lies_at(int outer, int inner) {
        for (const Sample& s : samples_) {
            if (!s.has("version") && !s.has("inference")) continue;
            const void* target;
            if (!s.impl.get(outer, target) || (target == nullptr) != s.has("inference")) return false;
            if (!target) continue;
            Block block;
            block.bytes.resize(counter_bytes);
            if (!pipe_.copy(block.bytes.data(), target, static_cast<size_t>(inner) + 4) ||
                !block.is<uint32_t>(inner, static_cast<uint32_t>(s.word("version"))))
                return false;
        }
        return true;
    }

    bool version() {
        std::set<uint64_t> values;
        for (const Sample& s : samples_)
            if (s.has("version")) values.insert(s.word("version"));
        if (values.size() < 3) return refuse("version", "too few different values to prove it");
        std::vector<std::pair<int, int>> hits;
        for (int outer = 0; outer < impl_bytes; outer += 8)
            for (int inner = 8; inner < counter_bytes; inner += 4)
                if (version_lies_at(outer, inner)) hits.push_back({outer, inner});
        if (hits.size() != 1) return refuse("version", "found at " + std::to_string(hits.size()) + " places");
        std::tie(at_.version_block, at_.version) = hits[0];
        return true;
    }

    bool autograd_facts() {
        return pointer(at_.meta, "meta", &Sample::impl, impl_bytes) && follow(&Sample::meta, &Sample::impl, at_.meta, meta_bytes, "impl") &&
               flag(at_.requires_grad, "leaf_grad", &Sample::meta, meta_bytes) &&
               pointer(at_.grad_fn, "grad_fn", &Sample::meta, meta_bytes) &&
               find(at_.grad, {"grad", meta_bytes, 8, 2}, [](const Sample& s, int o) { return s.meta.is<uint64_t>(o, s.word("grad")); }) &&
               absent_grad() && pointer(at_.fw_grad, "fw_grad", &Sample::meta, meta_bytes);
    }

    /// One word stands for "no grad" in every sample that has an autograd meta and no grad.
    bool absent_grad() {
        std::set<uint64_t> words;
        for (const Sample& s : samples_)
            if (uint64_t word; !s.has("grad") && s.meta.get(at_.grad, word)) words.insert(word);
        if (words.size() != 1) return refuse("grad", "no single word for its absence");
        at_.no_grad = *words.begin();
        return true;
    }

    std::vector<Sample>& samples_;
    Layout& at_;
    Pipe& pipe_;
};

} // namespace

bool copy_if_readable(void* to, const void* from, size_t n) {
    Pipe pipe;
    return pipe.copy(to, from, n);
}

Layout probe(PyObject* list) {
    Layout layout;
    std::vector<Sample> samples;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject* pair = PyList_GET_ITEM(list, i);
        samples.push_back({PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), {}, {}, {}, {}});
    }
    if (samples.empty()) {
        layout.refused = "no samples";
        return layout;
    }
    Pipe pipe;
    if (!Finder(samples, layout, pipe).run() && layout.refused.empty()) layout.refused = "the proof failed";
    return layout;
}

} // namespace dyno::python
