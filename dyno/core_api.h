// The contract between the Jupyter kernel and the compiler. Input: the capsule "dyno._core.api", which dyno._core makes and owns;
// it points to a static dyno_core_api. Plain C, so that both sides may be built apart. The kernel includes nothing else of dyno.
// It must not grow in the middle: new members go to the end and raise `size`; a change of meaning raises `abi`.
#pragma once

#include <Python.h>

#include <stdint.h>

#define DYNO_CORE_API_CAPSULE "dyno._core.api"
#define DYNO_CORE_API_ABI 1u

#ifdef __cplusplus
extern "C" {
#endif

/// What the kernel may ask of the compiler. A reader checks `abi` for equality and `size` for "at least what I know" before any call.
struct dyno_core_api {
    uint32_t abi;  ///< DYNO_CORE_API_ABI of the maker
    uint32_t size; ///< sizeof(dyno_core_api) of the maker

    /// Runs one module code object in `globals`. GIL held. The contract is PyEval_EvalCode's: a new reference, or NULL with the
    /// exception set, whose traceback begins at the cell's own frame. `content_key` is equal for equal cell text and part of the cell.
    PyObject* (*run_cell)(PyObject* code, PyObject* globals, const char* content_key);

    /// Asks running compute phases to stop before they commit. Any thread, with or without the GIL; must not block.
    void (*interrupt)(void);

    /// Sets the receiver of compiler events (JSON text, a copy must be made). `post` is called on a worker thread without the GIL
    /// and only queues and wakes the kernel's loop. A null `post` ends it.
    void (*on_event)(void (*post)(void* context, const char* json), void* context);

    /// Stops the workers; after it returns no event is posted and no compile job runs. Called once, before the process ends. GIL held.
    void (*quiesce)(void);
};

#ifdef __cplusplus
}
#endif
