// Reads the items of a record back into arguments of the trace format; the writer is Encoder in op_scope.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::recorder {

/// A position in a record. Threads: one.
class RecordReader {
 public:
  /// `intern` turns a tensor (with the recorder's storage id) into an id of the trace.
  using Intern = std::function<trace::TensorId(trace::Tensor)>;
  /// `learn` is told of a storage (the recorder's id) that is new or has grown, before `intern` is given a tensor of
  /// it.
  using Learn = std::function<void(std::uint32_t storage, std::uint64_t size_bytes, const std::string& device)>;
  /// `compound` reads a tensor of several parts, their number given.
  using Compound = std::function<trace::Arg(RecordReader&, std::uint64_t)>;
  RecordReader(const std::uint64_t* position, const std::uint64_t* end, const Intern& intern, const Learn& learn,
               const Compound& compound)
      : position_(position), end_(end), intern_(intern), learn_(learn), compound_(compound) {}

  bool at_end() const { return position_ == end_; }
  /// True and one word on when results begin here.
  bool take_outputs_mark();
  /// The next item.
  trace::Arg read();

 private:
  trace::Arg read_tensor(std::uint64_t head);
  trace::Arg read_list(std::uint64_t head, bool integers);
  std::string read_text(std::uint64_t size);

  const std::uint64_t* position_;
  const std::uint64_t* end_;
  const Intern& intern_;
  const Learn& learn_;
  const Compound& compound_;
};

}  // namespace crucible::recorder
