// Branches: where the programs of a recording part, as a tree, and the guard that decides which way an iteration goes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::graph {

/// What tells the ways of a branch apart.
enum class Guard : std::uint8_t {
  kExtent,  // the size of a tensor that came from outside the iteration
  kFound,   // how many elements an op found, such as nonzero
  kValue,   // a number that left the program for Python before the branch
  kNumber,  // a number that Python gave to an op
  kCount,   // how often a row of ops runs
  kKind,    // anything else about an op's arguments or results: a type, strides, a flag
  kMemory,  // the ops are alike: which tensors share memory, or a number that shapes the program
  kPython,  // Python took another way, and the recording does not say why
};

/// "extent", "found", "value", "number", "count", "kind", "memory", "python".
std::string_view name(Guard guard);

/// One way of a branch.
struct Arm {
  std::string when;                     // the guard's outcome: "[8, 6]", "3.0 to 5.0", "9 times", an op's name
  std::vector<std::uint32_t> variants;  // ascending
  std::uint32_t iterations = 0;         // that took it
  std::uint32_t next = 0xffffffffu;     // the branch at which its variants part; kNone: there is one variant
};

/// A place where variants that ran the same ops so far part.
struct Branch {
  std::uint32_t op = 0;  // its number in the iteration, from 0: so many ops are the same before it
  std::string op_name;   // of the first arm's: "aten::addmm"; "" where its iterations end there
  std::string site;      // "train.py:31"
  Guard guard = Guard::kPython;
  std::string words;              // what is asked: "the size of what aten::addmm takes as mat1"
  std::uint32_t alike_after = 0;  // how many of the last ops are the same again, whichever way is taken
  std::vector<Arm> arms;          // two or more, in the order of their first variants
};

/// The tree: the first branch is its root, a branch stands before those that its arms lead to. Empty where there is one
/// variant.
using Branches = std::vector<Branch>;

}  // namespace crucible::graph
