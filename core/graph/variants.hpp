// Variants: the programs of a recording whose iterations are not all alike, and the order in which they ran.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"

namespace crucible::graph {

/// Bytes that a state has before an iteration because the program put them there, not a recorded op; or what another
/// state holds, because the iteration reads another tensor at that place than its variant did before.
struct Given {
  std::uint32_t state = kNone;  // in Program::states, the same in all variants
  std::uint32_t blob = kNone;   // kNone: `from` instead
  bool is_seam = false;  // it was another iteration's before: something changed it where nothing was recorded
  std::uint32_t from = kNone;  // a state as it is before the iteration is given anything
};

/// One iteration of the recording.
struct Turn {
  std::uint32_t variant = 0;
  std::uint32_t index = 0;      // which of the variant's iterations
  std::uint32_t iteration = 0;  // its number in the recording
  std::vector<Given> given;
};

/// State k of each variant is the same memory. A variant that does not touch one has it as a state that nothing reads
/// and that ends as it starts. Each program counts its own iterations.
struct Variants {
  std::vector<std::shared_ptr<const Program>> programs;  // shared: sessions keep theirs
  std::vector<Turn> turns;                               // every iteration, in the order of the recording
  std::vector<std::string> differences;  // by variant: how its first iteration differs from another's; "" of the first

  /// Iterations before which something was changed where nothing was recorded.
  std::size_t seams() const;
  /// States that such changes gave anew, all together.
  std::size_t states_given() const;
  /// How many iterations change a state; 0 of one that is given bytes on the way, for then where it ends tells not by
  /// how much they changed it.
  std::uint32_t moves_of(std::size_t state) const;
};

/// A program whose iterations are all there is.
Variants alone(std::shared_ptr<const Program> program);

/// Variant `number`, or without a number the only one there is. Errors: kUsage, with what there is and how to choose.
Result<std::shared_ptr<const Program>> choose_variant(const Variants& variants, std::optional<std::uint32_t> number);

/// "3 variants: 0 ran 12 times, 1 once, 2 twice": how often each ran; of many the six that ran most often.
std::string counts_in_words(const Variants& variants);
/// The same of so many iterations each.
std::string counts_in_words(std::span<const std::uint32_t> iterations);

/// Whether every iteration is a variant of its own, of at least three: then nothing that was made for one serves
/// another.
bool shares_nothing(const Variants& variants);
inline constexpr const char* kSharesNothing =
    "nothing: every iteration runs other ops or sizes, so each is lowered, planned and compiled for itself";

/// Checks what the comments promise: equal states, each iteration of each variant once and in order, states and blobs
/// that exist. Errors: kInternal, naming the variant or the iteration and the rule.
Result<void> verify(const Variants& variants);

}  // namespace crucible::graph
