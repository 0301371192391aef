// The table of library callables, found by path once torch or NumPy is there, and what may be called in a compute phase.
#include "compiler/capture/callables.h"
#include "compiler/capture/lowerings.h"
#include "compiler/capture/names.h"
#include "compiler/python/array.h"
#include "compiler/python/ref.h"
#include "compiler/python/torch_door.h"
#include <cstring>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace dyno::capture {
namespace {
using graph::Op;

struct Spec {
    Op op;
    Lowering lower;
    const char* parameters;
    const char* paths;
};
const Spec specs[] = {
#define DYNO_CALL(lowering, op, parameters, paths) {Op::op, lower::lowering, parameters, paths},
#include "compiler/capture/callables.def"
#undef DYNO_CALL
};

struct Table {
    std::unordered_map<PyObject*, CallRow> rows;
    std::unordered_set<PyObject*> numpy_pure, leaves, training;
    std::vector<std::string> kept_paths;
    bool torch = false, numpy = false, plain = false;
};
Table& table() {
    static auto* t = new Table; // holds library objects for the process
    return *t;
}

PyObject* module_of(const std::string& name) {
    PyObject* modules = PyImport_GetModuleDict();
    return PyDict_GetItemString(modules, name.c_str());
}

/// The object at a dotted path whose longest loaded prefix is a module; a new reference or null.
PyObject* find(const std::string& path) {
    if (path.rfind("getter.", 0) == 0) {
        const std::string name = path.substr(7);
        PyObject* tensor = reinterpret_cast<PyObject*>(names().tensor);
        PyObject* array = reinterpret_cast<PyObject*>(names().ndarray);
        (void)tensor, (void)array;
        auto text = Owned<>::steal(PyUnicode_FromString(name.c_str()));
        PyObject* g = getter_named(text.get());
        return Py_XNewRef(g);
    }
    for (size_t dot = path.rfind('.'); dot != std::string::npos; dot = path.rfind('.', dot - 1)) {
        PyObject* module = module_of(path.substr(0, dot));
        if (!module) {
            if (dot == 0) break;
            continue;
        }
        auto object = Owned<>::borrow(module);
        size_t from = dot + 1;
        while (object && from <= path.size()) {
            const size_t next = std::min(path.find('.', from), path.size());
            const std::string part = path.substr(from, next - from);
            // A method found on a class is the descriptor itself, so that it is the same object as a method look-up gives.
            PyObject* got = PyType_Check(object.get()) ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(object.get()), interned(part.c_str())) : nullptr;
            object = got ? Owned<>::borrow(got) : Owned<>::steal(PyObject_GetAttrString(object.get(), part.c_str()));
            from = next + 1;
        }
        PyErr_Clear();
        return object.release();
    }
    return nullptr;
}

void add_rows(const char* prefix) {
    Table& t = table();
    for (const Spec& spec : specs) {
        const char* p = spec.paths;
        while (*p) {
            const char* end = std::strchr(p, ' ');
            const std::string path(p, end ? static_cast<size_t>(end - p) : std::strlen(p));
            p = end ? end + 1 : p + path.size();
            if (path.rfind(prefix, 0) != 0) continue;
            PyObject* object = find(path);
            if (!object) continue;
            auto* kept = new std::string(path); // as long as the table
            if (!t.rows.try_emplace(object, CallRow{spec.op, spec.lower, spec.parameters, kept->c_str()}).second) {
                Py_DECREF(object);
                delete kept;
            }
        }
    }
}

const std::unordered_set<std::string>& numpy_impure() {
    static const std::unordered_set<std::string> set = {
        "copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "apply_along_axis", "apply_over_axes", "piecewise", "fromfunction", "frompyfunc", "vectorize", "save", "savez",
        "savetxt", "load", "loadtxt", "genfromtxt", "savez_compressed", "nditer", "seterr", "seterrcall", "setbufsize", "set_printoptions", "may_share_memory", "shares_memory",
        "fromfile", "fromiter", "fromregex", "array2string", "array_repr", "array_str", "format_float_positional", "format_float_scientific", "lookfor", "info", "printoptions", "errstate", "block",
        "memmap", "frombuffer", "from_dlpack", "shuffle", "geterr", "geterrcall", "test", "show_config", "get_include", "set_numeric_ops", "busday_count", "datetime_as_string", "result_type", "can_cast", "histogram_bin_edges_none"};
    return set;
}

void add_numpy_pure() {
    Table& t = table();
    for (const char* name : {"numpy", "numpy.linalg", "numpy.fft"}) {
        PyObject* module = module_of(name);
        if (!module) continue;
        PyObject *key, *value;
        Py_ssize_t pos = 0;
        while (PyDict_Next(PyModule_GetDict(module), &pos, &key, &value)) {
            const char* text = PyUnicode_AsUTF8(key);
            if (!text || text[0] == '_' || numpy_impure().contains(text)) continue;
            PyTypeObject* type = Py_TYPE(value);
            if ((names().ufunc && type == names().ufunc) || (names().array_function && type == names().array_function) || PyCFunction_CheckExact(value))
                if (t.numpy_pure.insert(value).second) Py_INCREF(value);
        }
        for (const char* leaf : {"ones", "full", "eye", "identity", "tri", "linspace", "logspace", "geomspace", "meshgrid", "isscalar", "indices"})
            if (PyObject* f = PyDict_GetItemString(PyModule_GetDict(module), leaf); f && PyFunction_Check(f))
                if (t.numpy_pure.insert(f).second && t.leaves.insert(f).second) Py_INCREF(f);
    }
}
void add_torch_leaves() {
    Table& t = table();
    for (const char* path : {"torch.einsum", "torch.nn.functional.normalize", "torch.nn.functional.cosine_similarity", "torch.nn.functional.one_hot", "torch.nn.functional.pad",
                             "torch.nn.functional.interpolate", "torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss", "torch.nn.functional.embedding", "torch.nn.functional.group_norm",
                             "torch.nn.functional.smooth_l1_loss", "torch.nn.functional.huber_loss", "torch.nn.functional.kl_div", "torch.nn.functional.binary_cross_entropy",
                             "torch.nn.functional.binary_cross_entropy_with_logits", "torch.nn.functional.max_pool1d", "torch.nn.functional.max_pool2d", "torch.nn.functional.adaptive_avg_pool2d",
                             "torch.nn.functional.instance_norm", "torch.nn.functional.unfold", "torch.nn.functional.fold", "torch.functional.einsum", "torch.Tensor.split", "torch.functional.split",
                             "torch.Tensor.norm", "torch.functional.norm", "torch.functional.meshgrid", "torch.meshgrid", "torch.split", "torch.norm", "torch.stft", "torch.cdist", "torch.functional.cdist",
                             "torch.functional.tensordot", "torch.tensordot", "torch.Tensor.__rpow__", "torch.Tensor.__rsub__", "torch.Tensor.__rdiv__", "torch.Tensor.__rfloordiv__",
                             "torch.functional.broadcast_tensors", "torch.broadcast_tensors", "torch.functional.cartesian_prod", "torch.functional.block_diag", "torch.block_diag"})
        if (PyObject* f = find(path)) {
            if (!t.leaves.insert(f).second) Py_DECREF(f);
        }
    // Whole as well, and pure only where they are told not to train.
    for (const char* path : {"torch.nn.functional.dropout", "torch.nn.functional.batch_norm", "torch.nn.functional.dropout1d", "torch.nn.functional.dropout2d", "torch.nn.functional.dropout3d",
                             "torch.nn.functional.alpha_dropout"})
        if (PyObject* f = find(path)) {
            if (!t.training.insert(f).second) Py_DECREF(f);
        }
}

void refresh() {
    Table& t = table();
    if (!t.plain) {
        PyObject* op = PyImport_ImportModule("operator");
        Py_XDECREF(op);
        PyErr_Clear();
        t.plain = true;
        add_rows("operator.");
        add_rows("getter.");
    }
    if (!t.torch && python::torch_ready() && names().tensor) t.torch = true, add_rows("torch."), add_torch_leaves();
    if (!t.numpy && python::numpy_ready() && names().ndarray) t.numpy = true, add_rows("numpy."), add_numpy_pure();
}

bool starts(const char* text, const char* with) { return std::strncmp(text, with, std::strlen(with)) == 0; }

Purity torch_purity(const char* name) {
    static const std::unordered_set<std::string> random = {
        "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "multinomial", "normal", "poisson", "dropout", "alpha_dropout", "feature_dropout",
        "feature_alpha_dropout", "native_dropout", "rrelu", "binomial", "standard_gamma", "_standard_gamma", "_sample_dirichlet", "rrelu_with_noise", "fractional_max_pool2d", "fractional_max_pool3d"};
    static const std::unordered_set<std::string> effects = {
        "manual_seed", "seed", "backward", "register_hook", "requires_grad_", "data_ptr", "set_", "share_memory_", "storage", "untyped_storage", "__setitem__", "__delitem__",
        "resize_", "resize", "resize_as_", "__array__", "__dlpack__", "retain_grad", "pin_memory", "cuda", "_set_grad_enabled", "set_grad_enabled",
        "frombuffer", "save", "load", "set_default_dtype", "get_device", "is_shared", "record_stream", "__reduce_ex__",
        "_assert_async", "_functional_assert_async", "batch_norm", "native_batch_norm", "instance_norm", "is_set_to", "_backward_hooks", "grad", "detach_", "lstm", "gru", "rnn_tanh", "rnn_relu", "init_num_threads",
        "set_num_threads", "unsafe_chunk_none", "equal_none"};
    if (random.contains(name)) return Purity::random;
    if (effects.contains(name)) return Purity::effect;
    const size_t n = std::strlen(name);
    if (n > 1 && name[n - 1] == '_' && !(n > 2 && name[n - 2] == '_')) return Purity::in_place;
    if (n > 4 && starts(name, "__i") && std::strcmp(name, "__invert__") != 0 && std::strcmp(name, "__int__") != 0 && std::strcmp(name, "__index__") != 0) return Purity::in_place;
    return Purity::pure;
}
/// The generator behind numpy.random's functions.
PyObject* global_random_state() {
    static PyObject* state = nullptr;
    PyObject* module = state ? nullptr : module_of("numpy.random.mtrand");
    if (module) state = Py_XNewRef(PyDict_GetItemString(PyModule_GetDict(module), "_rand"));
    return state;
}
Purity random_purity(const char* name) {
    static const std::unordered_set<std::string> draws = {"rand", "randn", "random", "random_sample", "randint", "uniform", "normal", "standard_normal", "choice", "permutation", "exponential", "standard_exponential",
                                                          "beta", "gamma", "standard_gamma", "poisson", "binomial", "laplace", "logistic", "lognormal", "chisquare", "geometric", "gumbel", "multivariate_normal",
                                                          "multinomial", "dirichlet", "triangular", "weibull", "standard_cauchy", "standard_t", "vonmises", "rayleigh", "pareto", "power", "wald", "f"};
    return draws.contains(name) ? Purity::random : Purity::effect;
}
Purity array_method_purity(const char* name) {
    static const std::unordered_set<std::string> bad = {"fill", "sort", "put", "partition", "resize", "setfield", "setflags", "itemset", "tofile", "dump", "dumps", "byteswap", "__setitem__", "__delitem__",
                                                        "tobytes", "__setstate__", "__reduce__", "__array_finalize__", "__dlpack__", "__array__", "getfield"};
    if (bad.contains(name) || starts(name, "__i")) return std::strcmp(name, "__invert__") == 0 || std::strcmp(name, "__int__") == 0 ? Purity::pure : Purity::in_place;
    return Purity::pure;
}

} // namespace

const CallRow* row_of(PyObject* callable) {
    refresh();
    auto it = table().rows.find(callable);
    return it == table().rows.end() ? nullptr : &it->second;
}
bool is_library_leaf(PyObject* function) {
    refresh();
    return table().leaves.contains(function) || table().training.contains(function);
}

Purity purity_of(PyObject* callable, std::string& name) {
    if (!callable) return Purity::unknown;
    refresh();
    PyTypeObject* type = Py_TYPE(callable);
    if (table().numpy_pure.contains(callable)) {
        auto text = Owned<>::steal(PyObject_GetAttrString(callable, "__name__"));
        PyErr_Clear();
        name = std::string("numpy.") + (text && PyUnicode_Check(text.get()) ? PyUnicode_AsUTF8(text.get()) : "?");
        return Purity::pure;
    }
    if (names().array_function && type == names().array_function) { // a module of NumPy that was loaded later
        auto text = Owned<>::steal(PyObject_GetAttrString(callable, "__name__"));
        auto module = Owned<>::steal(PyObject_GetAttrString(callable, "__module__"));
        PyErr_Clear();
        if (text && module && PyUnicode_Check(text.get()) && PyUnicode_Check(module.get()) && starts(PyUnicode_AsUTF8(module.get()), "numpy") &&
            !starts(PyUnicode_AsUTF8(module.get()), "numpy.random")) {
            name = std::string("numpy.") + PyUnicode_AsUTF8(text.get());
            return numpy_impure().contains(PyUnicode_AsUTF8(text.get())) ? Purity::effect : Purity::pure;
        }
    }
    if (table().leaves.contains(callable)) {
        auto text = Owned<>::steal(PyObject_GetAttrString(callable, "__qualname__"));
        PyErr_Clear();
        name = std::string("torch.") + (text ? PyUnicode_AsUTF8(text.get()) : "?");
        return Purity::pure;
    }
    if (table().training.contains(callable)) {
        auto text = Owned<>::steal(PyObject_GetAttrString(callable, "__name__"));
        PyErr_Clear();
        name = std::string("torch.nn.functional.") + (text && PyUnicode_Check(text.get()) ? PyUnicode_AsUTF8(text.get()) : "?");
        return Purity::effect;
    }
    if (type == &PyCFunction_Type) {
        auto* f = reinterpret_cast<PyCFunctionObject*>(callable);
        const char* module = f->m_module && PyUnicode_Check(f->m_module) ? PyUnicode_AsUTF8(f->m_module) : "";
        name = f->m_ml->ml_name;
        const bool functions = f->m_self && names().variable_functions &&
                               (f->m_self == names().variable_functions || reinterpret_cast<PyObject*>(Py_TYPE(f->m_self)) == names().variable_functions ||
                                std::strcmp(PyType_Check(f->m_self) ? reinterpret_cast<PyTypeObject*>(f->m_self)->tp_name : "", "torch._C._VariableFunctionsClass") == 0);
        const bool nn = starts(module, "torch._C._nn") || starts(module, "torch._C._linalg") || starts(module, "torch._C._special") || starts(module, "torch._C._fft");
        if (functions || nn) {
            const Purity p = torch_purity(f->m_ml->ml_name);
            name = "torch." + name;
            return p;
        }
        if (f->m_self && starts(Py_TYPE(f->m_self)->tp_name, "numpy.random.mtrand.RandomState")) {
            name = "numpy.random." + name;
            return f->m_self == global_random_state() ? random_purity(f->m_ml->ml_name) : Purity::effect;
        }
        if (starts(module, "_operator")) return Purity::pure;
        return Purity::unknown;
    }
    if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type) {
        auto* d = reinterpret_cast<PyDescrObject*>(callable);
        const char* text = PyUnicode_AsUTF8(d->d_name);
        name = std::string(d->d_type->tp_name) + "." + text;
        if (d->d_type == names().tensor_base || d->d_type == names().tensor) {
            name = std::string("torch.Tensor.") + text;
            return torch_purity(text);
        }
        if (d->d_type == names().ndarray) return array_method_purity(text);
        if (std::strstr(d->d_type->tp_name, "random")) return Purity::effect;
        if (starts(d->d_type->tp_name, "numpy.")) return starts(text, "__set") || std::strcmp(text, "dump") == 0 || std::strcmp(text, "tofile") == 0 ? Purity::effect : Purity::pure;
        return Purity::unknown;
    }
    if (PyType_Check(callable)) {
        // NumPy's scalar types as conversions: np.float64(x).
        name = reinterpret_cast<PyTypeObject*>(callable)->tp_name;
        return starts(name.c_str(), "numpy.") && std::strcmp(name.c_str(), "numpy.ndarray") != 0 && std::strstr(name.c_str(), "random") == nullptr &&
                       reinterpret_cast<PyTypeObject*>(callable)->tp_flags & Py_TPFLAGS_BASETYPE && PyObject_HasAttrString(callable, "itemsize")
                   ? Purity::pure
                   : (callable == reinterpret_cast<PyObject*>(&PyFloat_Type) || callable == reinterpret_cast<PyObject*>(&PyLong_Type) ? Purity::pure : Purity::unknown);
    }
    if (Py_TYPE(callable)->tp_name && std::strcmp(type->tp_name, "operator.attrgetter") == 0) return Purity::pure;
    auto text = Owned<>::steal(PyObject_GetAttrString(callable, "__name__"));
    PyErr_Clear();
    if (text && PyUnicode_Check(text.get())) name = PyUnicode_AsUTF8(text.get());
    return Purity::unknown;
}

bool data_dependent_shape(const std::string& name) {
    for (const char* part : {"nonzero", "unique", "masked_select", "argwhere", "flatnonzero", "compress", "extract", "trim_zeros", "bincount", "histogram", "union1d", "intersect1d", "setdiff1d", "repeat_interleave"})
        if (name.find(part) != std::string::npos) return true;
    return false;
}

PyObject* getter_named(PyObject* attribute) {
    static auto* known = new std::unordered_map<std::string, PyObject*>;
    auto [it, fresh] = known->try_emplace(PyUnicode_AsUTF8(attribute), nullptr);
    if (fresh) {
        auto op = Owned<>::steal(PyImport_ImportModule("operator"));
        it->second = op ? PyObject_CallMethod(op.get(), "attrgetter", "O", attribute) : nullptr;
        PyErr_Clear();
    }
    return it->second;
}
PyObject* getter_of(PyObject* descriptor) { return getter_named(reinterpret_cast<PyDescrObject*>(descriptor)->d_name); }

PyObject* operator_function(const char* name) {
    static auto* known = new std::unordered_map<std::string, PyObject*>;
    auto [it, fresh] = known->try_emplace(name, nullptr);
    if (fresh) {
        auto op = Owned<>::steal(PyImport_ImportModule("operator"));
        it->second = op ? PyObject_GetAttrString(op.get(), name) : nullptr;
        PyErr_Clear();
    }
    return it->second;
}


PyObject* operator_function(int nb) {
    static const char* const table_of[13] = {"add", "and_", "floordiv", "lshift", "matmul", "mul", "mod", "or_", "pow", "rshift", "sub", "truediv", "xor"};
    return operator_function(table_of[nb]);
}
PyObject* compare_function(int op) {
    static const char* const table_of[6] = {"lt", "le", "eq", "ne", "gt", "ge"};
    return operator_function(table_of[op]);
}
PyObject* unary_function(int canonical_op) {
    switch (static_cast<bytecode::Op>(canonical_op)) {
    case bytecode::Op::negative: return operator_function("neg");
    case bytecode::Op::positive: return operator_function("pos");
    default: return operator_function("invert");
    }
}

bool bind(const char* parameters, const std::span<const uint32_t>& ids, PyObject* const* values, size_t nargs, PyObject* kwnames, BoundArgs& out) {
    // Parameter names by position.
    const char* p = parameters;
    std::vector<std::string> names_of;
    size_t positional = SIZE_MAX, gather = SIZE_MAX;
    while (*p) {
        const char* end = std::strchr(p, ' ');
        std::string name(p, end ? static_cast<size_t>(end - p) : std::strlen(p));
        p = end ? end + 1 : p + name.size();
        if (name == "|") positional = names_of.size();
        else if (name[0] == '*') gather = names_of.size(), names_of.push_back(name.substr(1));
        else names_of.push_back(name);
    }
    if (positional == SIZE_MAX) positional = names_of.size();
    out.count = names_of.size();
    if (out.count > 10) return false;
    for (size_t k = 0; k < nargs; k++) {
        if (gather != SIZE_MAX && k >= gather) {
            out.rest_ids.push_back(ids[k]);
            out.rest_values.push_back(values[k]);
            continue;
        }
        if (k >= positional) return false;
        out.ids[k] = ids[k], out.values[k] = values[k];
    }
    static const std::pair<const char*, const char*> synonyms[] = {{"axis", "dim"}, {"keepdims", "keepdim"}, {"x", "input"}, {"self", "input"}, {"a", "input"}, {"tensors", "arrays"}};
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        const std::string name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k));
        size_t found = SIZE_MAX;
        for (size_t j = 0; j < names_of.size() && found == SIZE_MAX; j++) {
            if (names_of[j] == name) found = j;
            for (auto& [one, other] : synonyms)
                if ((name == one && names_of[j] == other) || (name == other && names_of[j] == one)) found = j;
        }
        if (found == SIZE_MAX || out.ids[found]) return false;
        out.ids[found] = ids[nargs + static_cast<size_t>(k)];
        out.values[found] = values[nargs + static_cast<size_t>(k)];
    }
    return true;
}

} // namespace dyno::capture
