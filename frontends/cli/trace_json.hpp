// The JSON form of ops and arguments, which `crucible trace ops --json` and `crucible trace export` share. `compounds`
// are those of the recording. docs/crtrace.md has the keys.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/trace/compounds.hpp"
#include "core/trace/trace.hpp"

namespace crucible::cli {

/// A number as JSON; NaN and the infinities, which JSON lacks, as texts.
nlohmann::ordered_json number_json(double number);

/// The members of an object whose names a file chooses, in their order; of two of one name the later value is in the
/// first's place. An ordered_json itself looks for each name from the front.
class JsonMembers {
 public:
  void add(const std::string& name, nlohmann::ordered_json value);
  nlohmann::ordered_json take() { return std::move(members_); }

 private:
  nlohmann::ordered_json::object_t members_;
  std::unordered_map<std::string, std::size_t> places_;
};

/// A tensor has "tensor", "dtype", "sizes", "strides", "offset" and "storage" (null: has none); with `is_whole` also
/// "requires_grad", "is_wrapped_number", "device" and "storage_bytes" (null without a storage), and "compound" where it
/// is one: "kind" and "parts", an object of arguments.
nlohmann::ordered_json arg_json(const trace::Compounds& compounds, const trace::Arg& arg, bool is_whole = false);

/// The op with index `index` in trace.ops, which belongs to iteration `iteration`.
nlohmann::ordered_json op_json(const trace::Compounds& compounds, std::size_t iteration, std::uint32_t index,
                               bool is_whole = false);

}  // namespace crucible::cli
