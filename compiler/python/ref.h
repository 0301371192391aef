// Owned and borrowed references to Python objects. Who holds a count is said by the type, never by a comment.
// Everything here needs the GIL, moves of an empty Owned excepted.
#pragma once
#include <Python.h>
#include <utility>

namespace dyno::python {

/// A pointer that holds no count. It says so; it checks nothing. Valid as long as somebody else keeps the object.
template <class T = PyObject>
class Borrowed {
  public:
    constexpr Borrowed() noexcept = default;
    constexpr Borrowed(T* p) noexcept : p_(p) {}
    T* get() const noexcept { return p_; }
    PyObject* object() const noexcept { return reinterpret_cast<PyObject*>(p_); }
    T* operator->() const noexcept { return p_; }
    explicit operator bool() const noexcept { return p_ != nullptr; }
    friend bool operator==(Borrowed a, Borrowed b) noexcept { return a.p_ == b.p_; }

  private:
    T* p_ = nullptr;
};

/// One count of a Python object, given back by the destructor. Move-only: a second count is asked for by `share`.
template <class T = PyObject>
class [[nodiscard]] Owned {
  public:
    constexpr Owned() noexcept = default;
    Owned(Owned&& other) noexcept : p_(other.release()) {}
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    Owned& operator=(Owned&& other) noexcept {
        if (this != &other) drop(std::exchange(p_, other.release()));
        return *this;
    }
    ~Owned() { drop(p_); }

    /// Takes over a count the caller already has (the result of most C API calls). Null gives an empty Owned.
    static Owned steal(T* p) noexcept { return Owned(p); }
    /// Adds a count to an object somebody else keeps.
    static Owned borrow(T* p) noexcept {
        Py_XINCREF(reinterpret_cast<PyObject*>(p));
        return Owned(p);
    }

    T* get() const noexcept { return p_; }
    PyObject* object() const noexcept { return reinterpret_cast<PyObject*>(p_); }
    T* operator->() const noexcept { return p_; }
    explicit operator bool() const noexcept { return p_ != nullptr; }
    operator Borrowed<T>() const noexcept { return Borrowed<T>(p_); }
    /// Hands the count to the caller; this becomes empty.
    [[nodiscard]] T* release() noexcept { return std::exchange(p_, nullptr); }
    /// A second, independent count.
    Owned share() const noexcept { return borrow(p_); }
    void reset() noexcept { drop(std::exchange(p_, nullptr)); }

  private:
    explicit constexpr Owned(T* p) noexcept : p_(p) {}
    static void drop(T* p) noexcept { Py_XDECREF(reinterpret_cast<PyObject*>(p)); }
    T* p_ = nullptr;
};

/// Keeps the exception that is set, if any, and puts it back: for work that must not disturb a raise in flight.
class KeepError {
  public:
    KeepError() noexcept { PyErr_Fetch(&type_, &value_, &traceback_); }
    KeepError(const KeepError&) = delete;
    KeepError& operator=(const KeepError&) = delete;
    ~KeepError() { PyErr_Restore(type_, value_, traceback_); }

  private:
    PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

} // namespace dyno::python

namespace dyno {
using python::Borrowed;
using python::Owned;
} // namespace dyno
