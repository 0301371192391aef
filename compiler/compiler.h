// The Compiler: the circle closes here (frame arrives -> look up -> replay, or record -> compile -> install). One per process,
// made by dyno._core; what bindings and reports may ask of it.
#pragma once
#include "compiler/cache/cache.h"
#include "compiler/capture/segment.h"
#include <Python.h>
#include <map>
#include <string>
#include <vector>

namespace dyno {

struct Config {
    bool enabled = true;
    bool debug_break_everywhere = false;
    bool debug_force_miss = false;
    int check = 0;
    bool reproducible = false;
};

/// What is remembered of a code object beside its entries: why it is not compiled, which lines were seen.
struct CodeFacts {
    bool asked = false;      // dyno.compile or %dyno on
    bool refused = false;    // %dyno off
    bool cold = false;       // met no tensor or array
    uint32_t cold_tries = 0;
    uint8_t mentions = 0;    // of a tensor or array source, by constant names: 0 not looked, 1 no, 2 yes
    uint32_t looked_at = 0;  // the call in which that was found out
    uint32_t visits = 0;     // times the driver was asked in the middle of a frame
    uint64_t hits = 0;       // replays in frames of this code
    bool on_gpu = false;     // part of it runs on a GPU, whose work the host's clock does not see
    bool slow = false;       // whole calls, breaks and walking included, turned out slower than interpreted ones
    // Whole calls of this code as the outermost evaluated frame, seconds.
    std::vector<float> compiled_seconds, interpreted_seconds;
    uint32_t calls = 0, interpreted_calls = 0;
    std::string why;         // the last reason for not compiling
    std::map<std::pair<std::string, int>, capture::LineNote> lines; // by (name of code, line)
    struct Recompile {
        int line = 0;
        std::string guard, was, now;
        std::vector<std::string> stack;
    };
    std::vector<Recompile> recompiles;
    std::vector<std::string> bugs;
};

class CompileQueue;

namespace compiler {

Config& config();
/// Starts everything once: installs the driver. False with an error set if this interpreter is not for us.
bool start();
CodeFacts& facts_of(PyCodeObject* code);
/// Null if nothing is known of the code.
CodeFacts* find_facts(PyCodeObject* code);

/// Transparent mode: counted.
void install();
void uninstall();
bool installed();
/// dyno.off(): frames run interpreted while the count is above zero.
void off_enter();
void off_exit();
/// Runs a function with the hook on and its code armed. Contract of PyObject_Vectorcall.
PyObject* call_armed(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames);
/// A hit without a frame, if one is possible now; null without an error: go the other way.
PyObject* call_without_frame(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames);
/// Contract of PyEval_EvalCode; loops and calls in it are compiled.
PyObject* run_cell(PyObject* code, PyObject* globals, const char* content_key);
/// Until background compiling is done and installed. May run other threads.
void wait();
size_t reset(PyCodeObject* code);
void interrupt();
void quiesce();
void set_event_listener(void (*post)(void*, const char*), void* context);
/// strict=True: records until one graph covers the call. Null with dyno.GraphBreak set.
extern PyObject* graph_break_error;

} // namespace compiler
} // namespace dyno
