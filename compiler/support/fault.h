// Fault switches: DYNO_FAULT=law3 (or law3,law7) in the environment breaks a law of the design on purpose, so that tests can prove that
// they would notice. Only in builds with DYNO_FAULTS; elsewhere every switch is a constant false.
#pragma once
#ifdef DYNO_FAULTS
#include <cstdlib>
#include <string_view>
#endif

namespace dyno {

#ifdef DYNO_FAULTS
/// The laws named in DYNO_FAULT, one bit each. Read once.
inline unsigned faults_from_environment() {
    const char* text = std::getenv("DYNO_FAULT");
    unsigned bits = 0;
    for (std::string_view rest = text ? text : ""; !rest.empty();) {
        const size_t comma = rest.find(',');
        const std::string_view word = rest.substr(0, comma);
        if (word.size() == 4 && word.starts_with("law") && word[3] >= '1' && word[3] <= '8') bits |= 1U << (word[3] - '0');
        rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
    return bits;
}
/// True if this law (1 to 8) is to be broken.
inline bool fault(int law) {
    static const unsigned bits = faults_from_environment();
    return (bits >> law) & 1U;
}
#else
/// True if this law (1 to 8) is to be broken.
constexpr bool fault(int) { return false; }
#endif

} // namespace dyno
