// The types of CPython, torch and NumPy that capture recognises by identity, looked up once each library is there.
#pragma once
#include "compiler/bytecode/code.h"
#include <Python.h>

namespace dyno::capture {

struct Names {
    PyTypeObject* torch_size = nullptr;
    PyTypeObject* torch_dtype = nullptr;
    PyTypeObject* torch_layout = nullptr;
    PyTypeObject* torch_memory_format = nullptr;
    PyTypeObject* torch_device = nullptr;
    PyTypeObject* tensor = nullptr;
    PyTypeObject* parameter = nullptr;
    PyTypeObject* tensor_base = nullptr; // torch._C.TensorBase
    PyObject* variable_functions = nullptr; // torch._C._VariableFunctions: self of torch.relu and the like
    PyObject* module_getattr = nullptr;  // nn.Module.__getattr__
    PyObject* module_setattr = nullptr;  // nn.Module.__setattr__
    PyObject* module = nullptr;          // nn.Module
    PyObject* consumers = nullptr;       // the functions of dyno._consumers, by name
    PyTypeObject* deque = nullptr;       // collections.deque, defaultdict and Counter
    PyTypeObject* defaultdict = nullptr;
    PyTypeObject* counter = nullptr;
    PyTypeObject* ndarray = nullptr;
    PyTypeObject* numpy_dtype = nullptr;
    PyTypeObject* ufunc = nullptr;
    PyTypeObject* array_function = nullptr; // numpy's dispatcher of np.sum and the like
    PyTypeObject* method_descriptor = nullptr;
    PyTypeObject* wrapper_descriptor = nullptr;
    PyTypeObject* classmethod_descriptor = nullptr;
    PyTypeObject* getset_descriptor = nullptr;

    /// What is asked of a type again and again.
    struct Traits {
        bool identity, plain, followed, overrides, enumeration;
        bool named_tuple; // of collections.namedtuple or typing.NamedTuple, or a subclass, whose items are those of the tuple
    };
    /// Remembered as long as the type does not change.
    Traits traits(PyTypeObject* t) const;

    /// Code of torch's or NumPy's own files.
    bool is_library_code(PyCodeObject* code) const;
    /// Code of any installed package or of the standard library: what a user does not edit while it runs.
    bool is_installed_code(PyCodeObject* code) const;
    /// Code of dyno._consumers, which runs in place of a builtin.
    bool is_consumer(PyCodeObject* code) const;
    /// Immutable, compared by equality: torch.Size, torch.device, numpy.dtype.
    bool is_value_type(PyTypeObject* t) const;
    /// Immutable, one object per value: torch.dtype and the like.
    bool is_singleton_type(PyTypeObject* t) const;
    /// What is guarded by identity and never changes its meaning for us: functions, builtins, types, modules.
    bool is_identity_type(PyTypeObject* t) const { return traits(t).identity; }
    /// Instances whose attributes follow the ordinary rules and whose operators are looked up on the type.
    bool is_named_tuple(PyTypeObject* t) const { return PyType_HasFeature(t, Py_TPFLAGS_TUPLE_SUBCLASS) && traits(t).named_tuple; }
    bool is_plain_instance_type(PyTypeObject* t) const { return traits(t).plain; }
    /// The same, or a __getattribute__ written in Python, which is then called.
    bool is_followed_instance_type(PyTypeObject* t) const { return traits(t).followed; }
    /// An enum's member: one object per value.
    bool is_enum_member(PyObject* v) const { return traits(Py_TYPE(v)).enumeration; }
    /// __torch_function__, __array_ufunc__ and the like: such operands run natively.
    bool overrides_operators(PyTypeObject* t) const { return traits(t).overrides; }

  private:
    Traits found_traits(PyTypeObject* t) const;
};

/// What there was at the last refresh_names(). GIL.
const Names& names();
/// Looks up what has appeared of torch and NumPy since. GIL.
void refresh_names();
/// An immutable value that may be a constant of a segment.
bool is_immutable(PyObject* v);
/// The KW_NAMES instruction that belongs to the call at `unit` (3.11, 3.12), or `unit`.
int kw_names_before(const bytecode::Code& code, int unit);
/// An interned string, kept for the process.
PyObject* interned(const char* text);

} // namespace dyno::capture
