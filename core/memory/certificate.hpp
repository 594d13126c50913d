// The certificate of a plan: the facts that anybody may rely on, and the digest that says which plan they are about.
//
// A plan without a valid certificate does not run. The facts come from the independent checker's sweep and from the
// problem alone, not from the planner.
#pragma once

#include <string>
#include <vector>

#include "core/base/hash.hpp"
#include "core/memory/plan.hpp"

namespace crucible::memory {

struct SpaceCertificate {
  std::uint64_t lower_bound_bytes = 0;
  std::uint32_t lower_bound_time = 0;
  std::vector<std::uint32_t> witness;  // the buffers alive then: why no plan can be smaller
  std::uint64_t peak_bytes = 0;
  bool operator==(const SpaceCertificate&) const = default;
};

struct Certificate {
  ContentHash digest;                    // of the problem and all offsets
  std::vector<SpaceCertificate> spaces;  // one per space
  bool is_valid = false;                 // the independent sweep accepts the plan
  std::string verdict;                   // "valid", or what the sweep found wrong
  bool operator==(const Certificate&) const = default;
};

/// SHA-256 of everything that a problem says and of the offsets. Threads: any.
ContentHash digest(const Problem& problem, std::span<const std::uint64_t> offsets);

/// Judges a solution by check() and writes down what it found. A solution that is refused gets a certificate that is
/// not valid, with the reason. Threads: any.
Certificate certify(const Problem& problem, const Solution& solution);

/// Accepts a valid certificate of exactly this problem and these offsets; the sweep is made anew.
/// Errors: kCheckFailed, saying what the certificate was made for or what is wrong with the plan.
Result<void> check_certificate(const Problem& problem, const Solution& solution, const Certificate& certificate);

}  // namespace crucible::memory
