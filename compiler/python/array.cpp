// Reads and makes NumPy arrays and scalars through NumPy's C API. Input: any object; output: a view, or "not plain".
// It must run no Python on reads, and must not treat a subclass, a foreign byte order or an unaligned array as plain.
#include "compiler/python/array.h"

#include <cstring>

#include "compiler/python/make_tensor.h"
#include "compiler/python/numpy_api.h"
#include "compiler/python/ref.h"
#include "compiler/python/tensor.h"

namespace dyno::python {
namespace {

const NumpyState& state = numpy_state;
bool arrays_on_blocks = true;

static_assert(sizeof(npy_intp) == sizeof(int64_t));
const int64_t* words(const npy_intp* row) { return reinterpret_cast<const int64_t*>(row); }

/// The dtype of a native, builtin descriptor; none otherwise.
DType plain_dtype(PyArray_Descr* descr) {
    if (descr->type_num < 0 || descr->type_num >= NPY_NTYPES_LEGACY) return DType::none;
    const DType dtype = state.dtype_of[descr->type_num];
    if (dtype == DType::none || descr == state.descr[static_cast<int>(dtype)]) return dtype;
    if (!PyArray_ISNBO(descr->byteorder)) return DType::none;
    PyObject* metadata = PyDataType_METADATA(descr);
    return metadata && metadata != Py_None ? DType::none : dtype;
}

/// The dtype if the object is a plain array, else none.
DType plain_array_dtype(PyObject* object) {
    if (!state.ready || Py_TYPE(object) != &PyArray_Type) return DType::none;
    auto array = reinterpret_cast<PyArrayObject*>(object);
    return PyArray_FLAGS(array) & NPY_ARRAY_ALIGNED ? plain_dtype(PyArray_DESCR(array)) : DType::none;
}

bool row_matches(const int64_t* row, const int64_t* wanted, int n) {
    for (int i = 0; i < n; i++)
        if (row[i] != wanted[i] && wanted[i] != any_size) return false;
    return true;
}

/// The value lies right behind the head of every numeric scalar (np.float64 and np.complex128 repeat Python's own layout).
char* value_of(PyObject* scalar) { return reinterpret_cast<char*>(scalar) + sizeof(PyObject); }
static_assert(offsetof(PyDoubleScalarObject, obval) == sizeof(PyObject) && offsetof(PyCDoubleScalarObject, obval) == sizeof(PyObject));
static_assert(offsetof(PyHalfScalarObject, obval) == sizeof(PyObject) && offsetof(PyBoolScalarObject, obval) == sizeof(PyObject));
static_assert(offsetof(PyLongScalarObject, obval) == sizeof(PyObject) && offsetof(PyByteScalarObject, obval) == sizeof(PyObject));

/// Puts the block handler in place for one allocation of ours, and NumPy's back.
class BlockMemory {
  public:
    explicit BlockMemory(bool on) : old_(on && block_handler() ? PyDataMem_SetHandler(block_handler()) : nullptr) {}
    BlockMemory(const BlockMemory&) = delete;
    BlockMemory& operator=(const BlockMemory&) = delete;
    ~BlockMemory() {
        if (!old_) return;
        KeepError keep;
        const Owned<> ours = Owned<>::steal(PyDataMem_SetHandler(old_));
        Py_DECREF(old_);
    }

  private:
    PyObject* old_;
};

} // namespace

bool is_plain_array(PyObject* object) { return plain_array_dtype(object) != DType::none; }

bool read_array(PyObject* object, ArrayView& view) {
    const DType dtype = plain_array_dtype(object);
    if (dtype == DType::none) return false;
    auto array = reinterpret_cast<PyArrayObject*>(object);
    const int flags = PyArray_FLAGS(array);
    view.data = PyArray_DATA(array);
    view.shape = words(PyArray_DIMS(array));
    view.strides = words(PyArray_STRIDES(array));
    view.ndim = PyArray_NDIM(array);
    view.size = 1;
    for (int i = 0; i < view.ndim; i++) view.size *= view.shape[i];
    view.dtype = dtype;
    view.writeable = flags & NPY_ARRAY_WRITEABLE;
    view.owns_data = flags & NPY_ARRAY_OWNDATA;
    view.base = PyArray_BASE(array);
    view.c_contiguous = flags & NPY_ARRAY_C_CONTIGUOUS;
    view.f_contiguous = flags & NPY_ARRAY_F_CONTIGUOUS;
    return true;
}

bool array_matches(PyObject* object, const ArrayFacts& facts) {
    if (facts.dtype == DType::none || plain_array_dtype(object) != facts.dtype) return false;
    auto array = reinterpret_cast<PyArrayObject*>(object);
    return PyArray_NDIM(array) == facts.ndim && static_cast<bool>(PyArray_FLAGS(array) & NPY_ARRAY_WRITEABLE) == facts.writeable &&
           row_matches(words(PyArray_DIMS(array)), facts.shape, facts.ndim) &&
           row_matches(words(PyArray_STRIDES(array)), facts.strides, facts.ndim);
}

DType numpy_scalar_dtype(PyObject* object) {
    if (!state.ready) return DType::none;
    PyTypeObject* type = Py_TYPE(object);
    for (int i = 1; i < dtype_count; i++)
        if (state.scalar_type[i] == type) return static_cast<DType>(i);
    return DType::none;
}

DType read_numpy_scalar(PyObject* object, void* value) {
    const DType dtype = numpy_scalar_dtype(object);
    if (dtype != DType::none) std::memcpy(value, value_of(object), static_cast<size_t>(size_of(dtype)));
    return dtype;
}

PyObject* make_numpy_scalar(DType dtype, const void* value) {
    const int at = static_cast<int>(dtype);
    if (!state.ready || !state.scalar_type[at]) return PyErr_SetString(PyExc_TypeError, "no NumPy scalar of this dtype"), nullptr;
    if (dtype == DType::b8) return Py_NewRef(*static_cast<const uint8_t*>(value) ? PyArrayScalar_True : PyArrayScalar_False);
    PyTypeObject* type = state.scalar_type[at];
    PyObject* scalar = type->tp_alloc(type, 0);
    if (scalar) std::memcpy(value_of(scalar), value, static_cast<size_t>(size_of(dtype)));
    return scalar;
}

PyObject* make_array(DType dtype, int ndim, const int64_t* shape, const int64_t* strides) {
    PyArray_Descr* descr = state.descr[static_cast<int>(dtype)];
    if (!state.ready || !descr) return PyErr_SetString(PyExc_TypeError, "no NumPy array of this dtype"), nullptr;
    int64_t bytes = size_of(dtype);
    for (int i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(bytes, shape[i], &bytes)) bytes = 0; // NumPy's own error follows
    const BlockMemory memory(arrays_on_blocks && bytes >= large_bytes);
    Py_INCREF(descr); // taken over by the call
    auto dims = reinterpret_cast<npy_intp*>(const_cast<int64_t*>(shape));
    auto steps = reinterpret_cast<npy_intp*>(const_cast<int64_t*>(strides));
    return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, dims, steps, nullptr, 0, nullptr);
}

void use_blocks_for_arrays(bool on) { arrays_on_blocks = on; }

} // namespace dyno::python
