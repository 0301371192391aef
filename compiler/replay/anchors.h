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
    /// Classifies segment.anchors, sets the watches and fills segment.anchor_names. The segment's stale flag is set when an anchor dies, or at
    /// once if it can be neither watched nor kept; segment.codes is emptied then. The segment must stay where it is.
    explicit Anchors(capture::Segment& segment);
    Anchors(const Anchors&) = delete;
    Anchors& operator=(const Anchors&) = delete;
    ~Anchors();
    /// Gives up the references of segment.anchors.
    void let_go(capture::Segment& segment);
    /// The objects, borrowed: valid while the stale flag is down.
    std::span<PyObject* const> objects() const { return objects_; }
    /// Neither kept nor watched (a property, a descriptor of a user's class): its address proves something only while the type that it was found
    /// on is unchanged.
    bool fragile(uint32_t index) const { return fragile_[index]; }
    int traverse(visitproc visit, void* arg) const;
    /// The name of the first anchor that died, or empty.
    std::string died() const;

  private:
    enum class Keep : uint8_t { strongly, weakly, not_at_all };
    Keep how_to_keep(PyObject* object, const capture::Segment& segment) const;
    std::vector<PyObject*> objects_;
    std::vector<bool> fragile_;
    std::vector<Owned<>> kept_, watches_;
    std::shared_ptr<struct AnchorWatch> watch_;
};

/// The qualified name of a function, type, module or code object: "torch.relu", "Net.forward"; else "a T object". Runs no user code.
std::string name_of_object(PyObject* object);

} // namespace dyno::replay
