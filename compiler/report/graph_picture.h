// Graph pictures: lays out a graph in DOT text and draws it as SVG.
// Input: DOT text whose labels are escaped. Output: SVG text, or nothing. Graphviz's library is loaded when first asked for; the build
// and the start need none. It must not read or write files of the user's, nor print.
#pragma once

#include <optional>
#include <string>

namespace dyno::report {

/// The picture of `dot` as one `<svg>` element without prolog, or nothing where Graphviz's library is missing or refuses the text.
/// Layered, top to bottom. One picture is drawn at a time; callers on any thread wait for their turn. The result depends on the text
/// alone, since labels are measured by built-in font metrics.
[[nodiscard]] std::optional<std::string> draw(const std::string& dot);

} // namespace dyno::report
