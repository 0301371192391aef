// Anchors: the identities a plan relies on, kept so that none of them lives longer because of us (law 6) and none can be mistaken for a
// later object at its address: what may die is watched by a weak reference whose callback retires the plan.
#pragma once
#include "compiler/capture/segment.h"
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dyno::replay {

class Anchors {
  public:
    Anchors() = default;
    /// Takes over the references of segment.anchors, gives them up where it can, and fills segment.anchor_names. The segment's stale flag is
    /// set when one dies, or at once if one can be neither watched nor kept; segment.codes is emptied then. The segment must stay where it is.
    explicit Anchors(capture::Segment& segment);
    Anchors(Anchors&&) = default;
    Anchors& operator=(Anchors&&) = default;
    ~Anchors();
    /// The objects, borrowed: valid while the stale flag is down.
    std::span<PyObject* const> objects() const { return objects_; }
    int traverse(visitproc visit, void* arg) const;

  private:
    std::vector<PyObject*> objects_;
    std::vector<Owned<>> kept_, watches_;
    std::shared_ptr<struct AnchorWatch> watch_;
};

/// The qualified name of a function, type, module or code object: "torch.relu", "Net.forward"; else "a T object". Runs no user code.
std::string name_of_object(PyObject* object);

} // namespace dyno::replay
