// Test support: cases of passes that read as programs. A file of passes/ holds the program before and after, in the
// text form of docs/graph.md, so that a change of a pass shows as a change of programs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/graph/reference_numbers.hpp"
#include "core/trace/trace.hpp"

namespace crucible::graph {

/// One case of a file:
///
///     ; what a reader should see, in a sentence or several
///     case two fills of one number become one
///     passes merge_generators, eliminate_dead
///     blob 0 f32 0.25, -1.0
///     before
///     crucible program 2: ...
///     after
///     crucible program 2: ...
///
/// `unchanged` stands for an `after` with the same program. Blobs that no line states have numbers made of their id.
/// `passes all` are all of them in their order.
struct PassCase {
  std::string comment;              // its lines as they stand
  std::string name;                 // of letters, digits and blanks
  std::vector<std::string> passes;  // names of passes()
  std::string blobs;                // their lines as they stand
  std::map<trace::BlobId, Bytes> stated;
  std::string before, after;  // `after` is empty in a case that is to be filled in
  std::size_t line = 0;       // where the case begins
};

/// The cases of a file. Errors: kBadInput with file and line.
Result<std::vector<PassCase>> read_pass_cases(const std::filesystem::path& file);

/// The file's text again, with what `after` of each case is now.
std::string to_text(const std::vector<PassCase>& cases);

/// The program that the case's passes make of `before`, checked: its text is the canonical one, verify() accepts it and
/// what comes of it, a second run of the passes changes nothing, and the interpreter gives the same outputs and states,
/// bit for bit, before and after. Errors: kBadInput, kInternal with a sentence.
Result<std::string> run_pass_case(const PassCase& each);

}  // namespace crucible::graph
