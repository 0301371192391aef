// The table of reasons: how capture's own phrases are said to the user, and what helps.
#include "compiler/report/reasons.h"
#include <utility>

namespace dyno::report {
namespace {

enum class How { exact, starts, ends };

/// `text` empty: the recorded phrase itself. `*` in it: what stands beside the pattern.
struct Row {
    How how;
    std::string_view pattern, text, hint;
};

constexpr Row rows[] = {
    {How::exact, "needs autograd", "gradients are recorded for it, which torch itself does", "call it under torch.no_grad() to have it compiled"},
    {How::exact, "a call of print, which is not known to be free of effects", "print writes text, whose place among other output is kept", "print after the function if the break matters"},
    {How::exact, "a call of input, which is not known to be free of effects", "input waits for the user", ""},
    {How::exact, "a conversion of tensor data to a Python number", "a number is taken out of a tensor or array", "work on with the tensor itself, and take the number at the end"},
    {How::exact, "a loop over the rows of a tensor or array", "", "write it as one operation on the whole tensor or array"},
    {How::exact, "a list of a tensor's rows", "", "write it as one operation on the whole tensor or array"},
    {How::exact, "a with statement", "", "put the with statement around the call"},
    {How::exact, "an in-place store into a tensor or array", "a part of a tensor or array is written in place", "torch.where or numpy.where make a new one"},
    {How::exact, "a value of unknown origin", "a value comes from code that was not followed", ""},
    {How::exact, "an argument of unknown origin", "an argument comes from code that was not followed", ""},
    {How::exact, "the result is of unknown origin", "its result comes from code that was not followed", ""},
    {How::exact, "a value of unknown origin is in use", "a value in use comes from code that was not followed", ""},
    {How::ends, " of unknown origin", "* comes from code that was not followed", ""},
    {How::ends, " of unknown origin is stored", "* that comes from code that was not followed is stored", ""},
    {How::ends, " of unknown origin is changed", "* that comes from code that was not followed is changed", ""},
    {How::ends, " of unknown origin is called", "* that comes from code that was not followed is called", ""},
    {How::ends, " of unknown origin grows", "* that comes from code that was not followed grows", ""},
    {How::ends, " with parts of unknown origin", "* with parts that come from code that was not followed", ""},
    {How::exact, "a call of unknown native code", "a call of a library whose effects are not known", ""},
    {How::ends, ", which is not known to be free of effects", "*, whose effects are not known", ""},
    {How::ends, " draws random numbers", "", "draw the numbers before, and hand them in"},
    {How::ends, " writes in place", "", "the variant that returns its result can be compiled"},
    {How::ends, " writes in place (out=)", "", "the variant that returns its result can be compiled"},
    {How::exact, "an in-place operator that is not lowered", "an in-place operator that is not compiled", ""},
    {How::ends, "that is not known before run time", "* known only while it runs", ""},
    {How::ends, "is not known before run time", "* is known only while it runs", ""},
    {How::starts, "the instruction PRINT_EXPR", "the value of an expression is displayed", ""},
    {How::starts, "the instruction MATCH", "a match statement", ""},
    {How::starts, "the instruction DELETE", "a del statement", ""},
    {How::starts, "the instruction BEFORE_ASYNC", "an async statement", ""},
    {How::starts, "the instruction GET_A", "an async statement", ""},
    {How::starts, "the instruction IMPORT_STAR", "an import of all names", "import at the top of the notebook"},
    {How::starts, "the instruction ", "a kind of statement that is not compiled: *", ""},
    {How::exact, "the next instruction raised or needs CPython's own words", "the next step raises an error", ""},
    {How::starts, "Python code ran inside an instruction: ", "an operator ran Python code of its own: *", ""},
    {How::exact, "Python code ran inside the instruction", "an operator ran Python code of its own", ""},
    {How::exact, "no tensor or array work before the end", "no tensor or array work was met in it", ""},
    {How::exact, "nothing was captured", "no tensor or array work was met in it", ""},
    {How::exact, "it met no tensor or array", "no tensor or array work was met in it", ""},
    {How::exact, "debug_break_everywhere", "the setting debug_break_everywhere is on", ""},
    {How::exact, "it was recorded 8 times and still changes from call to call", "it was compiled anew 8 times and still changes from call to call", ""},
    {How::exact, "a function is called, which has compiled code of its own", "a function is called that is compiled by itself", ""},
    {How::exact, "a function without vectorcall", "a function of an unusual kind is called", ""},
    {How::starts, "a bug of dyno's: ", "of a bug of dyno's, which is no fault of the program: *", ""},
};

/// Words of ours inside a phrase, and the user's.
constexpr std::pair<std::string_view, std::string_view> words[] = {
    {"run-time values", "values known only while it runs"},
    {"a run-time value", "a value known only while it runs"},
    {"run-time numbers", "numbers known only while it runs"},
    {"a run-time number", "a number known only while it runs"},
    {"before run time", "before it runs"},
};
std::string reworded(std::string text) {
    for (const auto& [ours, theirs] : words)
        if (const auto at = text.find(ours); at != text.npos) text.replace(at, ours.size(), theirs);
    return text;
}

constexpr std::string_view before_break = "no tensor or array work before the break: ";

} // namespace

Reason in_words(std::string_view recorded, std::string_view hint) {
    if (recorded.starts_with(before_break)) {
        Reason rest = in_words(recorded.substr(before_break.size()), hint);
        rest.text = "there is no tensor or array work before this: " + rest.text;
        return rest;
    }
    for (const Row& row : rows) {
        std::string_view beside;
        if (row.how == How::exact) {
            if (recorded != row.pattern) continue;
        } else if (row.how == How::starts) {
            if (!recorded.starts_with(row.pattern)) continue;
            beside = recorded.substr(row.pattern.size());
            if (const auto end = beside.find(" is not captured"); end != beside.npos) beside = beside.substr(0, end);
        } else {
            if (!recorded.ends_with(row.pattern)) continue;
            beside = recorded.substr(0, recorded.size() - row.pattern.size());
            while (beside.ends_with(' ')) beside.remove_suffix(1);
        }
        std::string text(row.text.empty() ? recorded : row.text);
        if (const auto star = row.text.find('*'); star != row.text.npos) text.replace(star, 1, beside);
        return {reworded(std::move(text)), std::string(hint.empty() ? row.hint : hint)};
    }
    return {reworded(std::string(recorded)), std::string(hint)};
}

} // namespace dyno::report
