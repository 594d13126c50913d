// Why a replay does not end where the recording ends, asked of the reference interpreter (core/graph/reference.hpp):
// whether it ends where the replay does, and how far apart its own ends are when its arithmetic is as rough as a
// framework's. It comes after sensitivity.cpp, whose runs are the device's and shake no sum that the device takes in
// one order only.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/graph/reference.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runtime {

struct ExplainOptions {
  std::uint32_t runs = 4;       // with rough arithmetic, at most
  double seconds = 60;          // after which no other run begins, and no op is checked
  std::size_t differences = 1;  // check_ops() ends at the last of as many, and after as many iterations
  std::uint32_t iterations = std::numeric_limits<std::uint32_t>::max();
  std::function<void(const std::string&)> progress = nullptr;
};

/// About how long the interpreter takes for all iterations.
double reference_seconds(const graph::Variants& variants);

/// Ends of the interpreter: in f64, and with rough arithmetic.
struct ReferenceEnds {
  graph::ReferenceReplay exact;
  std::vector<graph::ReferenceReplay> rough;
};

/// Errors: of the blob store, of the interpreter.
Result<ReferenceEnds> run_reference(const graph::Variants& variants, const trace::BlobStore& blobs,
                                    const ExplainOptions& options);

/// Judges what `verdict` has beyond its tolerances anew, knowing the interpreter's ends: one that is not further from
/// both the replay's and the recorded one than twice kSpreads times what rough arithmetic (graph::Roughness) moves it
/// by is not determined; where it is the replay's and not the recorded one, eager is the less exact one. `variants` are
/// the recording's, of which `judged` is the replay's end. Where the interpreter cannot run them, or would take too
/// long, a note says so. Errors: of the blob store, of the interpreter.
Result<void> consider_reference(Verification& verdict, const graph::Variants& variants, const trace::BlobStore& blobs,
                                const RunEnd& judged, const ExplainOptions& options);
/// The same with ends that are known.
Result<void> consider_reference(Verification& verdict, const graph::Variants& variants, const trace::BlobStore& blobs,
                                const RunEnd& judged, const ReferenceEnds& ends);

/// Whether a loss, an output or a state is further from the recording than eight times what runs one rounding apart
/// (`spread`, with outputs where there are any) part, and than 2e-6: within its tolerance it may be an op that is a
/// little wrong. `results` and `verdict` are of one run.
bool is_far_for_roundings(const Verification& verdict, const std::vector<IterationResult>& results,
                          const Spread& spread);

/// A result of the device that the interpreter does not get from the same operands.
struct OpDifference {
  std::uint32_t iteration = 0;  // among Variants::turns
  std::uint32_t variant = 0;
  graph::OpId op = graph::kNone;  // of the variant's program
  std::uint32_t result = 0;
  double difference = 0, allowed = 0;  // shares of the result's largest element
  double lean = 0;    // not 0: each element is within a rounding, and all of them lean to one side by this share
                      // (lean_of(), compare.hpp)
  std::string words;  // words_of_difference()
};

struct OpCheck {
  std::size_t results = 0;                // that were checked
  std::uint32_t iterations = 0;           // that were checked whole
  std::string stopped;                    // why not all of them: the time was up
  std::vector<OpDifference> differences;  // in the order of the ops

  const OpDifference* first() const { return differences.empty() ? nullptr : &differences.front(); }
};

/// Runs `watched`, a session of with_every_result(variants) (side_by_side.hpp) that has not run, and has the
/// interpreter run each op alone on the operands that the device had: so an early difference does not hide a later one,
/// and a program in which small differences grow is checked as well as any other. Iterations come in the order of the
/// recording, each from the states that those before it left, and from what was given. Each result may be off by the
/// tolerance of its dtype, or by eight times what one rounding of the op's operands (of those that are not narrower)
/// and rough sums move it by; of a narrow dtype, whose roundings hide a thousandth, its elements may not all lean to
/// one side. Ends at the first that is further off (ExplainOptions::differences). Opaque ops are passed over. Errors:
/// of running and reading.
Result<OpCheck> check_ops(const graph::Variants& variants, const trace::BlobStore& blobs, Session& watched,
                          const ExplainOptions& options);

/// "iteration 0, op 12 (multiply), recorded as aten::mul at train.py:31 (blocks.0): 0.001 of its largest element"; of
/// several variants "iteration 5 (variant 2), op 12 ...".
std::string in_words(const graph::Variants& variants, const OpDifference& difference);

}  // namespace crucible::runtime
