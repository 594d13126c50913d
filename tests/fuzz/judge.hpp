// What becomes of a program that a stranger wrote: it is refused as a bad input, or every stage takes it and all
// executors end with the same results. Anything else is a finding.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plugins/loader/backend.hpp"
#include "tests/fuzz/recorded.hpp"

namespace crucible::fuzz {

struct Judgement {
  std::string finding;          // "" for none
  bool is_valid = false;        // the verifier took it
  bool is_run = false;          // the interpreters ran it
  bool is_compiled = false;     // the device ran it, too
};

/// Decoding, verification, schedule, both interpreters; `device`: also compiled and run there, in strict and fast
/// numerics.
Judgement judge(const Recorded& recorded, const std::shared_ptr<backend::Device>& device = nullptr);

/// Compiles the kernels of all of them together, so that judging them one by one finds them in the device's cache. What
/// goes wrong here goes wrong there, too.
void compile_ahead(std::span<const Recorded> all, const std::shared_ptr<backend::Device>& device);

/// The `seed`-th case of the fuzzer: made, changed. Its judgement's finding may come from making it already.
struct Case {
  Recorded recorded;
  std::string what;     // was done to it
  std::string finding;  // of its lowering
};
Case make_case(Draw draw);

}  // namespace crucible::fuzz
