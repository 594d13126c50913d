// "Did you mean": the known word that is closest to a mistyped one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::config {

/// Fewest insertions, deletions, replacements and swaps of neighbours that make `b` of `a`; case counts.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The closest of `known` when it is close enough to be meant (a third of the word, at least one edit), else "".
/// Of equally close ones the first.
std::string closest(std::string_view word, const std::vector<std::string>& known);

/// "; did you mean 'threads'?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace crucible::config
