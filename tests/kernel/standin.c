/* A stand-in for dyno._core: the kernel's side of dyno/core_api.h is tested against it. It runs cells as plain Python and writes down
   what it was asked. Made at test time by test_compiler_link.py. */
#define PY_SSIZE_T_CLEAN
#include "dyno/core_api.h"

#include <pthread.h>
#include <unistd.h>

static PyObject* calls; /* list of (content_key, file name, name of code) */
static volatile int interrupted;
static void (*post)(void*, const char*);
static void* post_context;

static PyObject* run_cell(PyObject* code, PyObject* globals, const char* key) {
    PyObject* entry = Py_BuildValue("sO", key, ((PyCodeObject*)code)->co_filename);
    PyList_Append(calls, entry);
    Py_DECREF(entry);
    return PyEval_EvalCode(code, globals, globals);
}

static void interrupt(void) { interrupted = 1; }

static void on_event(void (*receiver)(void*, const char*), void* context) {
    post = receiver;
    post_context = context;
}

static void quiesce(void) {
    PyObject* marker = PySys_GetObject("quiesce_marker"); /* a path, set by the test */
    if (marker) {
        FILE* file = fopen(PyUnicode_AsUTF8(marker), "w");
        fputs("quiet", file);
        fclose(file);
    }
}

static struct dyno_core_api api = {DYNO_CORE_API_ABI, sizeof(struct dyno_core_api), run_cell, interrupt, on_event, quiesce};

/* A compute phase: no Python, GIL released, polls the interrupt only; gives up after 20 s. */
static PyObject* spin(PyObject* self, PyObject* unused) {
    interrupted = 0;
    Py_BEGIN_ALLOW_THREADS
    for (int i = 0; i < 20000 && !interrupted; ++i) usleep(1000);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(interrupted);
}

static void* worker(void* unused) {
    post(post_context, "{\"kind\": \"installed\"}");
    return NULL;
}

static PyObject* emit(PyObject* self, PyObject* unused) {
    pthread_t thread;
    if (!post) Py_RETURN_FALSE;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_detach(thread);
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {{"spin", spin, METH_NOARGS, ""}, {"emit", emit, METH_NOARGS, ""}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", "", -1, methods};

PyMODINIT_FUNC PyInit__core(void) {
    PyObject* module = PyModule_Create(&definition);
    if (getenv("STANDIN_ABI")) api.abi = (uint32_t)atoi(getenv("STANDIN_ABI"));
    calls = PyList_New(0);
    PyModule_AddObject(module, "calls", calls);
    PyModule_AddObject(module, "api", PyCapsule_New(&api, DYNO_CORE_API_CAPSULE, NULL));
    return module;
}
