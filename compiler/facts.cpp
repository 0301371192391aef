// Facts by code object, freed with it by a weak reference. Under the GIL.
#include "compiler/facts.h"
#include "compiler/python/ref.h"
#include <unordered_map>

namespace dyno::compiler {
namespace {

struct Table {
    std::unordered_map<PyCodeObject*, CodeFacts> facts;
    std::unordered_map<PyCodeObject*, Owned<>> watch;
};
/// Never destroyed: code objects may die after the interpreter's end.
Table& table() {
    static auto* t = new Table;
    return *t;
}

PyObject* forget_code(PyObject* key, PyObject*) {
    auto* code = static_cast<PyCodeObject*>(PyLong_AsVoidPtr(key));
    table().facts.erase(code);
    table().watch.erase(code);
    Py_RETURN_NONE;
}
PyMethodDef forget_method = {"forget", forget_code, METH_O, nullptr};

} // namespace

CodeFacts& facts_of(PyCodeObject* code) {
    Table& t = table();
    auto [it, fresh] = t.facts.try_emplace(code);
    if (fresh) {
        const python::KeepError keep;
        auto key = Owned<>::steal(PyLong_FromVoidPtr(code));
        auto forget = Owned<>::steal(PyCFunction_New(&forget_method, key.get()));
        PyObject* weak = PyWeakref_NewRef(reinterpret_cast<PyObject*>(code), forget.get());
        t.watch.insert_or_assign(code, Owned<>::steal(weak));
    }
    return it->second;
}
CodeFacts* find_facts(PyCodeObject* code) {
    auto it = table().facts.find(code);
    return it == table().facts.end() ? nullptr : &it->second;
}

void forget_facts(PyCodeObject* code) {
    Table& t = table();
    if (code) {
        t.facts.erase(code);
        t.watch.erase(code);
        return;
    }
    t.facts.clear();
    t.watch.clear();
}

} // namespace dyno::compiler
