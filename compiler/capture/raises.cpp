// Exceptions that a segment raises and catches itself: `try: return torch.x() except Exception: return False`, getattr() with a default.
// The error really happens while recording; guards hold what caused it, so a replay goes on behind the handler. The exception object has
// no shadow: a segment cannot end, and nothing can be read of it, inside the handler.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"

namespace dyno::capture {

/// Whether an error raised by the next instruction of `a` meets a handler, or a getattr() that takes it, in a recorded frame.
bool Recording::is_caught(Activation& a) const {
    size_t calls = calls_.size();
    if (calls > 0 && calls_[calls - 1].caller == &a) calls--; // what raised is inside that one
    for (const Activation* f = &a;; f = f->up) {
        if (f->decoded->handler_of(f->at)) return true;
        if (calls > 0 && calls_[calls - 1].generator && calls_[calls - 1].caller == f->up) return false; // the generator would be at its end
        if (f == root_ || !f->up || calls == 0) return false;
        const Inlined& call = calls_[--calls];
        if (call.caller != f->up || call.opaque) return false;
        if (call.after == Redirect::or_default || call.after == Redirect::exists) return true;
    }
}

/// The instruction raises in every replay that passes the guards.
Recording::Before Recording::pend_raise(Activation& a, std::string reason) {
    if (!is_caught(a)) return stop(a, std::move(reason), "");
    pending_ = PendingKind::raises;
    return Before::perform;
}

bool Recording::raised(Activation& a, const Instruction& i) {
    if (finished_) return false;
    const bool returned = !calls_.empty() && calls_.back().caller == &a;
    // next() of a generator that returned: StopIteration, if anybody takes it.
    const bool stopped = returned && calls_.back().generator && generator_of(calls_.back().generator).state == Generator::ended && is_caught(a);
    const bool below = returned && (raising_ || stopped);
    if (!below && (pending_ != PendingKind::raises || foreign_)) {
        failed(a, i);
        return false;
    }
    if (below) calls_.pop_back();
    raising_ = a.decoded->handler_of(a.at) == nullptr;
    pending_ = PendingKind::none;
    return true;
}

} // namespace dyno::capture
