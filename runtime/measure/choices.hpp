// Which candidate runs a product or a convolution on a device: the library, or the generated kernel cut in one of its
// ways. Scored by a model, measured once, kept in the store of the device's plugin: the samples of winners and losers
// as tuning records, and their medians as an entry, which others can have.
//
// A choice belongs to one call (sizes, strides, attributes), one text of the generated kernel and the ways to cut it,
// numerics, one device with its threads, driver and library, and one version of the plugin: with any other of these it
// is not found. In strict numerics the library is no candidate; ways to cut change no bit, so a tuned program and an
// untuned one end with the same ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/loader/backend.hpp"
#include "runtime/plan/library_calls.hpp"
#include "store/key.hpp"

namespace crucible::runtime {

/// Medians of rounds in which all candidates ran in turns, warm. Units: nanoseconds per call.
struct Choice {
  std::uint64_t library_ns = 0;            // 0: the library was no candidate
  std::vector<std::uint64_t> generated_ns;  // per way to cut the kernel, as in Candidates; one at least
  std::uint32_t rounds = 0;

  /// Of the generated kernels, the fastest.
  std::size_t best_cut() const;
  std::uint64_t best_generated_ns() const { return generated_ns[best_cut()]; }
  bool is_generated() const { return library_ns == 0 || best_generated_ns() < library_ns; }
};

/// Not thread-safe.
class Choices {
 public:
  /// Reads nothing yet. The device is shared: see plugins/loader.
  explicit Choices(std::shared_ptr<backend::Device> device, kernel::Numerics numerics = kernel::Numerics::kFast);

  /// What was measured for this call, here or by another process; null when nothing was. An entry that is not a choice
  /// counts as none.
  const Choice* find(const kernel::LibraryCall& call);

  /// Runs the candidates in turns and keeps the result: the ways to cut the generated kernel, and the library where it
  /// takes the call. Errors: those of compiling and running. That the result cannot be kept is no error: see failure().
  Result<Choice> measure(LibraryClaims& claims, const kernel::LibraryCall& call);

  /// Whether `call` becomes a library call: the library takes it, and is not known to be slower.
  bool takes(LibraryClaims& claims, const kernel::LibraryCall& call);

  /// The way to cut the generated kernel of this call: the fastest that was measured, else the one with the best score
  /// (0).
  std::size_t cut(const kernel::LibraryCall& call);

  /// The ways to cut the generated kernel, best score first; empty where there is one. The reference lives as long as
  /// this object.
  const std::vector<kernel::ProductCut>& cuts(const kernel::LibraryCall& call) { return entry_of(call).cuts; }

  /// What the choice for this call is kept under. The reference lives as long as this object.
  const store::ActionKey& key_of(const kernel::LibraryCall& call) { return entry_of(call).key; }
  /// What its candidates are called, those of a generated kernel by the way to cut it. Threads: any.
  static std::string name_of(const std::vector<kernel::ProductCut>& cuts, std::size_t cut);
  static constexpr const char* kLibrary = "library";

  /// Of the calls asked for so far, the distinct ones.
  struct Summary {
    std::size_t calls = 0, measured = 0,
                generated = 0;  // of the measured ones, those that a generated kernel runs fastest
    std::size_t recut = 0;      // of these, those whose fastest cut is not the one with the best score
  };
  Summary summary() const;

  /// Why the last choice could not be kept; "" when all were.
  const std::string& failure() const { return failure_; }

 private:
  struct Entry {
    store::ActionKey key;
    std::vector<kernel::ProductCut> cuts;
    bool is_looked_for = false;  // in the store
    std::optional<Choice> choice;
  };
  Entry& entry_of(const kernel::LibraryCall& call);
  std::optional<Choice> look_for(const Entry& entry) const;
  /// `times`: of each round, of the generated kernels and then the library's. Units: nanoseconds.
  Result<void> keep(const Entry& entry, const std::vector<std::vector<std::uint64_t>>& times) const;

  std::shared_ptr<backend::Device> device_;
  kernel::Numerics numerics_;
  std::shared_ptr<store::Store> store_;   // null: nothing is kept
  store::ActionKey about_;                // what all keys begin with
  std::map<std::string, Entry> entries_;  // by the bytes of the call's description
  std::string failure_;
};

/// The claims and cuts of a schedule for `device`: as `choices` says, else all that the library takes and the best
/// score. What is referred to has to live as long as the options. Null choices: none count.
void ask(kernel::Options& options, LibraryClaims& claims, Choices* choices);

/// The distinct products and convolutions that a schedule of the program has, by the library or generated, in the order
/// of the program.
Result<std::vector<kernel::LibraryCall>> products_of(const graph::Program& program, LibraryClaims& claims, bool fuse,
                                                     kernel::Numerics numerics);

/// A program of this call alone: two inputs, one op, one output.
graph::Program program_of(const kernel::LibraryCall& call);

/// In words: "12 x 32 tiles, items of 384 x 384".
std::string words(const kernel::ProductCut& cut);

}  // namespace crucible::runtime
