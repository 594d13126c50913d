// What a recording tells of whoever made it: paths, names of people and machines, the command, names that they gave,
// data. For `crucible trace info --private`; strip.hpp makes a copy without.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::trace {

struct PrivateContent {
  /// Bytes of one kind that are in the file as they were.
  struct Data {
    std::string what;  // "parameters", "inputs", "what random ops drew", ...
    std::uint64_t count = 0, size_bytes = 0;
  };
  std::string command, created, reason;  // reason: why iterations are missing, with what an exception said
  std::vector<std::string> paths;        // absolute ones, in any text
  std::vector<std::string> users;        // from those, from NAME@HOST, and `user` where a text has that word
  std::vector<std::string> hosts;        // of addresses, and `host` where a text has that word
  std::vector<std::string>
      secrets;  // options of the command whose name says that their value is none of anybody's business
  std::vector<std::string> modules, functions, tensors, outputs, operators,
      texts;  // names, each once; operators: none of PyTorch's; texts: arguments
  std::vector<Data> data;
  std::uint64_t results = 0;  // numbers that ops gave to the program, and losses
  std::uint64_t hashes = 0;   // of ops' results, by which content can be recognised
};

/// `user` and `host`: of this machine, "" where they are not known. `trace` must be valid.
PrivateContent private_content(const Trace& trace, const std::string& user, const std::string& host);

}  // namespace crucible::trace
