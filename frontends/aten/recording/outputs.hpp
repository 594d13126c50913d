// The tensors that an iteration gave back (of inference: what its outermost module returned): each becomes an output of
// the program with the recorded bytes beside it, or is named with the reason why it cannot.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/aten/algebra/emitter.hpp"
#include "frontends/aten/recording/align.hpp"
#include "frontends/aten/recording/storage_map.hpp"

namespace crucible::aten {

/// An iteration of inference ends when its module returns, so outputs are what their storages hold after the last op.
/// Of several modules called in turn, what an earlier one returned must not be written in place by what follows.
class Outputs {
 public:
  Outputs(const trace::Trace& trace, const Alignment& alignment);
  /// Reads them; call when all ops are lowered and before what enters from outside is classified.
  void read(StorageMap& storages);
  /// Puts them behind the losses; call when everything is classified. What cannot be compared goes to
  /// Program::left_out.
  void finish(Emitter& emitter);

 private:
  struct Found {
    std::string name;
    Term term;
    std::vector<trace::BlobId> blobs;  // per aligned iteration
  };
  /// Why the output cannot be one of the program, or "".
  std::string obstacle(const trace::Output& output, const StorageMap& storages) const;
  std::string find_partners(const trace::Output& output, std::size_t occurrence,
                            std::vector<trace::BlobId>& blobs) const;

  const trace::Trace& trace_;
  const Alignment& alignment_;
  std::map<std::pair<std::uint32_t, std::string_view>, std::vector<const trace::Output*>>
      named_;  // by iteration and name
  std::vector<Found> found_;
  std::vector<std::string> left_out_;
};

}  // namespace crucible::aten
