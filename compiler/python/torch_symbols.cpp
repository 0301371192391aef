// Finds torch's exported functions in the libraries the user's torch has loaded. Nothing is linked; every one may be missing.
#include <dlfcn.h>
#include <type_traits>

#include "compiler/python/torch_state.h"

namespace dyno::python {

// Python loads torch's libraries locally, so the global scope does not see them; asked for by name they are there already.
void* torch_symbol(const char* name) {
    static constexpr const char* sonames[] = {"libc10.so", "libtorch_cpu.so", "libtorch_python.so", "libtorch_cuda.so", "libc10_cuda.so"};
    for (const char* soname : sonames) {
        void* library = dlopen(soname, RTLD_NOLOAD | RTLD_LAZY);
        if (!library) continue;
        void* found = dlsym(library, name);
        dlclose(library); // undoes the count of this dlopen; the library stays, torch holds it
        if (found) return found;
    }
    return nullptr;
}

TorchFunctions find_torch_functions() {
    TorchFunctions f;
    auto find = [](auto& slot, const char* name) { slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(torch_symbol(name)); };
    find(f.empty_strided, "aoti_torch_empty_strided");
    find(f.reinterpret, "aoti_torch__reinterpret_tensor");
    find(f.delete_handle, "aoti_torch_delete_tensor_object");
    find(f.to_pyobject, "torch_tensor_to_pyobject");
    find(f.wrap_move, "_Z16THPVariable_WrapON2at10TensorBaseE");
    find(f.grad_mode, "_ZN3c108GradMode10is_enabledEv");
    find(f.inference_mode, "_ZN3c1013InferenceMode10is_enabledEv");
    find(f.autograd_state, "_ZN3c1013AutogradState13get_tls_stateEv");
    find(f.function_state, "_ZN2at4impl22PythonTorchFunctionTLS9get_stateEv");
    find(f.hooks_state, "_ZN2at23SavedTensorDefaultHooks13get_tls_stateEv");
    find(f.function_modes, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv");
    find(f.function_disabled, "_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv");
    find(f.default_dtype, "_ZN3c1031get_default_dtype_as_scalartypeEv");
    find(f.context, "_ZN2at13globalContextEv");
    find(f.deterministic, "_ZNK2at7Context23deterministicAlgorithmsEv");
    find(f.deterministic_warn, "_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv");
    find(f.tf32, "_ZNK2at7Context15allowTF32CuBLASEv");
    find(f.cuda_stream, "aoti_torch_get_current_cuda_stream");
    find(f.num_threads, "_ZN2at15get_num_threadsEv");
    find(f.anomaly, "_ZN5torch8autograd11AnomalyMode8_enabledE");
    return f;
}

} // namespace dyno::python
