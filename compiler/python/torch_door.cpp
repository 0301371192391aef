// Meets torch when the user has imported it: finds its types, numbers and functions, and has the layout proved.
// It must not import torch itself, must leave no error set, and must not run while torch is still being imported.
#include "compiler/python/torch_door.h"

#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

#include "compiler/python/probe.h"
#include "compiler/python/ref.h"
#include "compiler/python/tensor.h"
#include "compiler/python/torch_source.h"
#include "compiler/python/torch_state.h"

namespace dyno::python {

TorchState torch_state;

namespace {

TorchState& state = torch_state;

struct TorchName {
    DType dtype;
    const char* name;
};
constexpr TorchName torch_names[] = {
    {DType::b8, "bool"},       {DType::u8, "uint8"},    {DType::i8, "int8"},     {DType::i16, "int16"},     {DType::i32, "int32"},
    {DType::i64, "int64"},     {DType::u16, "uint16"},  {DType::u32, "uint32"},  {DType::u64, "uint64"},    {DType::f16, "float16"},
    {DType::bf16, "bfloat16"}, {DType::f32, "float32"}, {DType::f64, "float64"}, {DType::c64, "complex64"}, {DType::c128, "complex128"},
};
static_assert(std::size(torch_names) == dtype_count - 1);

bool refuse_on_request() {
    const char* value = std::getenv("DYNO_REFUSE_PROBE");
    return value && *value && *value != '0';
}

/// Keeps the reason for good and says it once.
void refuse(const std::string& why) {
    static std::string text;
    if (state.refused) return;
    text = "torch is read by its public calls, since its layout was not proved (" + why + ")";
    state.refused = text.c_str();
    PySys_WriteStderr("dyno: %.300s\n", state.refused);
}

std::string error_text() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    const Owned<> t = Owned<>::steal(type), v = Owned<>::steal(value), tb = Owned<>::steal(traceback);
    const Owned<> text = Owned<>::steal(v ? PyObject_Str(v.get()) : nullptr);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    std::string out = utf8 ? utf8 : "an error without text";
    PyErr_Clear();
    return out;
}

/// torch as sys.modules has it, once its import is over.
Borrowed<> imported_torch() {
    static PyObject* const name = PyUnicode_InternFromString("torch");
    PyObject* modules = PyImport_GetModuleDict();
    PyObject* module = modules && PyDict_Check(modules) ? PyDict_GetItemWithError(modules, name) : nullptr;
    if (!module) return nullptr;
    const Owned<> spec = Owned<>::steal(PyObject_GetAttrString(module, "__spec__"));
    const Owned<> busy = Owned<>::steal(spec ? PyObject_GetAttrString(spec.get(), "_initializing") : nullptr);
    PyErr_Clear();
    return busy.get() == Py_True ? nullptr : module;
}

/// An attribute by a dotted path, kept for the life of the process; null if there is none.
PyObject* kept_attribute(PyObject* module, std::initializer_list<const char*> path) {
    Owned<> at = Owned<>::borrow(module);
    for (const char* name : path)
        if (at) at = Owned<>::steal(PyObject_GetAttrString(at.get(), name));
    if (!at) PyErr_Clear();
    return at.release();
}

bool find_types(PyObject* module) {
    PyObject* tensor = kept_attribute(module, {"Tensor"});
    PyObject* parameter = kept_attribute(module, {"nn", "Parameter"});
    if (!tensor || !parameter || !PyType_Check(tensor) || !PyType_Check(parameter)) return false;
    state.tensor_type = reinterpret_cast<PyTypeObject*>(tensor);
    state.parameter_type = reinterpret_cast<PyTypeObject*>(parameter);
    return true;
}

void find_dtypes(PyObject* module) {
    for (int16_t& number : state.number_of) number = -1;
    for (auto [dtype, name] : torch_names) {
        const int at = static_cast<int>(dtype);
        state.dtypes[at] = kept_attribute(module, {name});
        auto number = reinterpret_cast<int32_t (*)()>(torch_symbol((std::string("aoti_torch_dtype_") + name).c_str()));
        if (!state.dtypes[at] || !number) continue;
        const int32_t n = number();
        if (n < 0 || n > 255) continue;
        state.number_of[at] = static_cast<int16_t>(n);
        state.dtype_of[n] = dtype;
    }
}

/// {torch.float32: 6, ...} and {"cpu": 0, ...} for the samples.
Owned<> dtype_numbers() {
    Owned<> out = Owned<>::steal(PyDict_New());
    for (auto [dtype, name] : torch_names) {
        const int at = static_cast<int>(dtype);
        if (state.number_of[at] < 0) continue;
        const Owned<> number = Owned<>::steal(PyLong_FromLong(state.number_of[at]));
        PyDict_SetItem(out.get(), state.dtypes[at], number.get());
    }
    return out;
}

Owned<> device_numbers() {
    Owned<> out = Owned<>::steal(PyDict_New());
    for (const char* name : {"cpu", "cuda", "meta"}) {
        auto number = reinterpret_cast<int32_t (*)()>(torch_symbol((std::string("aoti_torch_device_type_") + name).c_str()));
        if (!number) continue;
        const Owned<> value = Owned<>::steal(PyLong_FromLong(number()));
        PyDict_SetItemString(out.get(), name, value.get());
    }
    return out;
}

Owned<> call_source(const char* function, std::initializer_list<PyObject*> args) {
    PyObject* callable = PyDict_GetItemString(state.source, function);
    return Owned<>::steal(callable ? PyObject_Vectorcall(callable, args.begin(), args.size(), nullptr) : nullptr);
}

bool run_source() {
    Owned<> names = Owned<>::steal(PyDict_New());
    PyDict_SetItemString(names.get(), "__builtins__", PyEval_GetBuiltins());
    const Owned<> text = Owned<>::steal(PyUnicode_FromString("dyno.torch_source"));
    PyDict_SetItemString(names.get(), "__name__", text.get());
    const Owned<> code = Owned<>::steal(Py_CompileString(torch_source, "<dyno torch source>", Py_file_input));
    const Owned<> done = Owned<>::steal(code ? PyEval_EvalCode(code.get(), names.get(), names.get()) : nullptr);
    if (!done) return false;
    state.source = names.release();
    return true;
}

/// Adds the key sets of fresh plain tensors of one device.
bool learn_plain_keys(const char* device) {
    const Owned<> name = Owned<>::steal(PyUnicode_FromString(device));
    const Owned<> list = call_source("plain_keys", {name.get()});
    if (!list || !PyList_Check(list.get())) return PyErr_Clear(), false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); i++) {
        const uint64_t keys = PyLong_AsUnsignedLongLongMask(PyList_GET_ITEM(list.get(), i));
        for (uint64_t& slot : state.plain_keys) {
            if (slot == keys) break;
            if (slot) continue;
            slot = keys;
            break;
        }
    }
    return true;
}

/// One try with samples of its own; the reason is empty if all was proved.
std::string try_layout() {
    const Owned<> dtypes = dtype_numbers(), devices = device_numbers();
    const Owned<> generator = call_source("samples", {dtypes.get(), devices.get()});
    const Owned<> list = Owned<>::steal(generator ? PyIter_Next(generator.get()) : nullptr);
    if (!list || !PyList_Check(list.get())) return PyErr_Occurred() ? error_text() : "no samples";
    state.at = probe(list.get());
    const Owned<> closed = Owned<>::steal(PyObject_CallMethod(generator.get(), "close", nullptr));
    if (!closed) PyErr_Clear();
    return state.at.refused;
}

/// What lies behind an object of the heap can agree with a fact by chance; new samples lie elsewhere. What is really ambiguous stays so.
bool prove_layout() {
    if (refuse_on_request()) return refuse("refused on request"), false;
    std::string why;
    for (int tries = 0; tries < 3; tries++)
        if (why = try_layout(); why.empty()) return true;
    return refuse(why), false;
}

/// True if torch can be used; false leaves the phase unknown, to be tried again.
bool start(PyObject* module) {
    if (!state.source && !run_source()) return PyErr_Clear(), false;
    const Owned<> ready = call_source("ready", {});
    if (ready.get() != Py_True) return PyErr_Clear(), false;
    state.call = find_torch_functions();
    if (!find_types(module)) return state.tensor_type = state.parameter_type = nullptr, false;
    find_dtypes(module);
    if (!learn_plain_keys("cpu")) return state.tensor_type = state.parameter_type = nullptr, false;
    state.by_offsets = prove_layout();
    state.module = Py_NewRef(module);
    prove_ambient();
    return true;
}

} // namespace

bool torch_ready() {
    if (state.phase == TorchState::Phase::ready) return true;
    if (state.phase == TorchState::Phase::starting) return false; // the proof's own Python
    KeepError keep;
    const Borrowed<> module = imported_torch();
    if (!module) return false;
    state.phase = TorchState::Phase::starting;
    const bool usable = start(module.get());
    PyErr_Clear();
    state.phase = usable ? TorchState::Phase::ready : TorchState::Phase::unknown;
    return usable;
}

bool torch_starting() { return state.phase == TorchState::Phase::starting; }

PyObject* torch_module() { return state.module; }
const char* refusal() { return state.refused; }

int torch_num_threads() {
    if (state.phase != TorchState::Phase::ready) return 0;
    if (state.call.num_threads) return state.call.num_threads();
    KeepError keep;
    const Owned<> n = Owned<>::steal(PyObject_CallMethod(state.module, "get_num_threads", nullptr));
    if (!n) return PyErr_Clear(), 0;
    return static_cast<int>(PyLong_AsLong(n.get()));
}

namespace {
enum class Capability : uint8_t { other, plain, avx2 };

Capability torch_capability() {
    if (state.phase != TorchState::Phase::ready) return Capability::other;
    static std::optional<Capability> known;
    if (known) return *known;
    KeepError keep;
    const Owned<> backends = Owned<>::steal(PyObject_GetAttrString(state.module, "backends"));
    const Owned<> cpu = Owned<>::steal(backends ? PyObject_GetAttrString(backends.get(), "cpu") : nullptr);
    const Owned<> name = Owned<>::steal(cpu ? PyObject_CallMethod(cpu.get(), "get_cpu_capability", nullptr) : nullptr);
    const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
    PyErr_Clear();
    const std::string_view said = text ? text : "";
    known = said == "AVX512" || said == "AVX2" ? Capability::avx2 : said == "DEFAULT" ? Capability::plain : Capability::other;
    return *known;
}
} // namespace

int64_t torch_vector_bytes() {
    return torch_capability() == Capability::other ? 0 : 32;
}

bool torch_gelu_drops_zero_sign() {
    if (state.phase != TorchState::Phase::ready) return false;
    static std::optional<bool> known;
    if (known) return *known;
    const KeepError keep;
    const Owned<> truth = call_source("gelu_drops_zero_sign", {});
    PyErr_Clear();
    known = truth.get() == Py_True;
    return *known;
}

bool torch_norms_fuse() { return torch_capability() == Capability::avx2; }

bool torch_cuda_stream(int device, void*& stream) {
    if (state.phase != TorchState::Phase::ready) return false;
    if (state.call.cuda_stream) return state.call.cuda_stream(device, &stream) == 0;
    KeepError keep;
    const Owned<> cuda = Owned<>::steal(PyObject_GetAttrString(state.module, "cuda"));
    const Owned<> current = Owned<>::steal(cuda ? PyObject_CallMethod(cuda.get(), "current_stream", "i", device) : nullptr);
    const Owned<> handle = Owned<>::steal(current ? PyObject_GetAttrString(current.get(), "cuda_stream") : nullptr);
    if (!handle) return PyErr_Clear(), false;
    stream = PyLong_AsVoidPtr(handle.get());
    return !PyErr_Occurred() || (PyErr_Clear(), false);
}

bool plain_keys_known(uint64_t keys, uint8_t device_type) {
    for (uint64_t known : state.plain_keys) {
        if (known == keys) return keys != 0;
        if (!known) break;
    }
    // The first CUDA tensor: CUDA runs already, so a fresh tensor may be asked. Not again if that fails.
    if (device_type != device_cuda || state.cuda_keys || !state.source) return false;
    state.cuda_keys = true;
    KeepError keep;
    return learn_plain_keys("cuda") && plain_keys_known(keys, device_type);
}

void* tensor_handle(PyObject* tensor) { return state.by_offsets ? reinterpret_cast<char*>(tensor) + state.at.impl : nullptr; }

PyObject* wrap_handle(void* handle) {
    PyObject* object = nullptr;
    try {
        if (state.call.wrap_move)
            object = static_cast<PyObject*>(state.call.wrap_move(handle));
        else if (void* out = nullptr; state.call.to_pyobject && state.call.to_pyobject(handle, nullptr, &out) == 0)
            object = static_cast<PyObject*>(out);
    } catch (const std::exception& error) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    if (state.call.delete_handle) state.call.delete_handle(handle);
    if (!object && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "torch gave no object for a tensor");
    return object;
}

PyObject* torch_dtype(DType dtype) { return state.dtypes[static_cast<int>(dtype)]; }

int torch_dtype_number(DType dtype) { return state.phase == TorchState::Phase::ready ? state.number_of[static_cast<int>(dtype)] : -1; }

DType dtype_of_torch(PyObject* object) {
    if (!object) return DType::none;
    for (int i = 1; i < dtype_count; i++)
        if (state.dtypes[i] == object) return static_cast<DType>(i);
    return DType::none;
}

} // namespace dyno::python
