// Weak keeping of identities: see anchors.h.
#include "compiler/replay/anchors.h"
#include <algorithm>
#include <string_view>

namespace dyno::replay {

/// Shared by a plan and the callbacks of its weak references, which may outlive it by a moment.
struct AnchorWatch {
    std::shared_ptr<std::atomic<bool>> stale;
    std::vector<PyCodeObject*>* codes = nullptr; // of the segment; null once the plan is gone
    std::vector<std::pair<PyObject*, std::string>> references; // to be compared only -> the anchor's name
    std::string died;                            // of the first that died
};

namespace {

constexpr const char* capsule_name = "dyno.anchor";

void free_watch(PyObject* capsule) { delete static_cast<std::shared_ptr<AnchorWatch>*>(PyCapsule_GetPointer(capsule, capsule_name)); }

/// The referent is dying: whoever relied on its address must not any more.
PyObject* on_death(PyObject* capsule, PyObject* reference) {
    auto* watch = static_cast<std::shared_ptr<AnchorWatch>*>(PyCapsule_GetPointer(capsule, capsule_name));
    if (watch) {
        (*watch)->stale->store(true, std::memory_order_release);
        for (const auto& [known, name] : (*watch)->references)
            if (known == reference && (*watch)->died.empty()) (*watch)->died = name;
        // The weak reference is cleared already, so which code object died is not known: none may be followed.
        if ((*watch)->codes) std::fill((*watch)->codes->begin(), (*watch)->codes->end(), nullptr);
    }
    Py_RETURN_NONE;
}

PyMethodDef death_method = {"dyno_anchor_died", on_death, METH_O, nullptr};

bool immutable(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented || type == &PyBool_Type || type == &PyLong_Type ||
        type == &PyFloat_Type || type == &PyComplex_Type || type == &PyUnicode_Type || type == &PyBytes_Type)
        return true;
    if (type != &PyTuple_Type) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
        if (!immutable(PyTuple_GET_ITEM(object, i))) return false;
    return true;
}

/// Kept alive by the interpreter or a library anyway, and holding nothing of the user's.
bool library_object(PyObject* object) {
    if (PyType_Check(object)) return !(reinterpret_cast<PyTypeObject*>(object)->tp_flags & Py_TPFLAGS_HEAPTYPE);
    if (PyModule_Check(object)) return true;
    PyTypeObject* type = Py_TYPE(object);
    if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type ||
        type == &PyClassMethodDescr_Type)
        return library_object(reinterpret_cast<PyObject*>(reinterpret_cast<PyDescrObject*>(object)->d_type));
    if (!PyCFunction_Check(object)) return false;
    PyObject* self = PyCFunction_GET_SELF(object);
    return !self || PyModule_Check(self) || (PyType_Check(self) && library_object(self));
}

} // namespace

Anchors::Keep Anchors::how_to_keep(PyObject* object, const capture::Segment& segment) const {
    PyTypeObject* type = Py_TYPE(object);
    if (immutable(object) || library_object(object)) return Keep::strongly;
    if (type == &PyDict_Type) {
        // The globals of an anchored function live as long as it does; keeping them would keep the user's objects.
        for (const Owned<>& other : segment.anchors)
            if (PyFunction_Check(other.get()) && PyFunction_GET_GLOBALS(other.get()) == object && !library_object(other.get())) return Keep::weakly;
        return Keep::strongly; // builtins, sys.modules, globals of a library
    }
    if (type->tp_weaklistoffset) return Keep::weakly;
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) return Keep::not_at_all;
    const bool of_numpy = std::string_view(type->tp_name).starts_with("numpy.");
    // torch.float32, dtypes, ufuncs: a library's values that hold nothing of the user's.
    return !(type->tp_flags & Py_TPFLAGS_HAVE_GC) || of_numpy ? Keep::strongly : Keep::not_at_all;
}

Anchors::Anchors(capture::Segment& segment) : watch_(std::make_shared<AnchorWatch>(AnchorWatch{segment.stale, &segment.codes})) {
    Owned<> callback;
    segment.anchor_names.clear();
    for (const Owned<>& object : segment.anchors) {
        objects_.push_back(object.get());
        segment.anchor_names.push_back(name_of_object(object.get()));
        const Keep keep = how_to_keep(object.get(), segment);
        fragile_.push_back(keep == Keep::not_at_all);
        if (keep == Keep::strongly) kept_.push_back(object.share());
        if (keep != Keep::weakly || PyDict_Check(object.get())) continue;
        if (!callback) {
            auto capsule = Owned<>::steal(PyCapsule_New(new std::shared_ptr<AnchorWatch>(watch_), capsule_name, free_watch));
            if (capsule) callback = Owned<>::steal(PyCFunction_New(&death_method, capsule.get()));
        }
        auto reference = Owned<>::steal(callback ? PyWeakref_NewRef(object.get(), callback.get()) : nullptr);
        if (!reference) {
            PyErr_Clear();
            segment.stale->store(true, std::memory_order_release);
        }
        if (reference) watch_->references.emplace_back(reference.get(), segment.anchor_names.back());
        watches_.push_back(std::move(reference));
    }
}

void Anchors::let_go(capture::Segment& segment) {
    for (Owned<>& object : segment.anchors) object.reset();
}

Anchors::~Anchors() {
    if (watch_) watch_->codes = nullptr;
}

std::string Anchors::died() const { return watch_->died; }

int Anchors::traverse(visitproc visit, void* arg) const {
    for (const auto* list : {&kept_, &watches_})
        for (const Owned<>& object : *list) Py_VISIT(object.get());
    return 0;
}

std::string name_of_object(PyObject* object) {
    auto text = [](PyObject* name) -> std::string {
        const char* utf8 = name && PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8(name) : nullptr;
        if (!utf8) PyErr_Clear();
        return utf8 ? utf8 : "?";
    };
    if (PyFunction_Check(object)) return text(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
    if (PyCode_Check(object)) return text(reinterpret_cast<PyCodeObject*>(object)->co_qualname);
    if (PyType_Check(object)) {
        const std::string name = reinterpret_cast<PyTypeObject*>(object)->tp_name;
        return name;
    }
    if (PyModule_Check(object)) {
        const char* name = PyModule_GetName(object);
        if (!name) PyErr_Clear();
        return name ? name : "a module";
    }
    if (PyCFunction_Check(object)) return reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
    if (object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object)) {
        auto repr = Owned<>::steal(PyObject_Repr(object));
        if (!repr) PyErr_Clear();
        return repr ? text(repr.get()) : "?";
    }
    return std::string("a ") + Py_TYPE(object)->tp_name;
}

} // namespace dyno::replay
