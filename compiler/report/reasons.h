// Reasons as the user reads them. Input: what capture wrote down where it stopped. Output: a clause in plain words and what helps.
// A table of patterns; what no row names is plain already. Pure text.
#pragma once
#include <string>
#include <string_view>

namespace dyno::report {

/// `text` is one clause that can follow "because"; `hint` is one suggestion, or empty.
struct Reason {
    std::string text, hint;
};

/// The reason in plain words. A hint that was recorded with it stays.
Reason in_words(std::string_view recorded, std::string_view hint = {});

} // namespace dyno::report
