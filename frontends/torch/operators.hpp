// What the recorder needs to know about an operator, found out once from its schema: which arguments it writes, whether
// it draws random numbers, whether it is recorded at all. It knows nothing of what the operator computes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

namespace crucible::recorder {

/// What an op does with an argument, or that it is a result.
enum class Usage : std::uint8_t { kRead, kView, kWrite, kResult };  // kView: the elements are not read

struct Operator {
  explicit Operator(const c10::OperatorHandle& operator_handle) : handle(operator_handle) {}
  c10::OperatorHandle handle;
  std::uint32_t id = 0;
  std::uint64_t written_arguments = 0;  // bit i: argument i is written in place
  std::uint64_t viewed_arguments = 0;   // bit i: a result is a view of argument i, whose elements are not read
  std::uint64_t accesses = 0;           // both for the first 32 arguments, two bits each: a Usage
  bool special_results = false;         // unfilled or random
  bool unfilled = false;                // it returns memory as it was found (empty)
  bool random = false;                  // its results are drawn values
  std::int8_t drawn_result = -1;        // the only one of them that is; -1: all are
  bool draws_inside = false;            // it draws values that are not among its results (attention with dropout)
  std::uint64_t told_draws = 0;         // bit i: result i says which ones they are: the seed
  bool only_reads = false;              // it gives Python something else than tensors, and writes none
  bool control = false;                 // profiler marks and the like: never recorded
  bool composite = false;               // it has a composite kernel: run again in inference mode (see boxed_kernel.cpp)
  std::string name, overload;           // "aten::add", "Tensor"
  std::string text;                     // the whole schema
  bool is_drawn(std::uint32_t result) const { return drawn_result < 0 || drawn_result == static_cast<int>(result); }
  bool tells_draws(std::uint32_t result) const { return result < 64 && (told_draws >> result & 1) != 0; }
  std::string full_name() const { return overload.empty() ? name : name + "." + overload; }
  Usage usage(std::size_t argument) const {
    if (argument < 32) return static_cast<Usage>(accesses >> (2 * argument) & 3);
    return writes(argument) ? Usage::kWrite : views(argument) ? Usage::kView : Usage::kRead;
  }
  bool views(std::size_t argument) const { return argument < 64 && (viewed_arguments >> argument & 1) != 0; }
  bool writes(std::size_t argument) const { return argument < 64 && (written_arguments >> argument & 1) != 0; }
};

/// Owns: the entries, for the life of the process, so that references stay valid. Threads: any.
class Operators {
 public:
  const Operator& find_or_add(const c10::OperatorHandle& handle);
  const Operator& operator[](std::uint32_t id) const;
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;  // guards the three
  std::deque<Operator> operators_;
  std::unordered_map<std::string, const Operator*> by_name_;
  std::unordered_map<const c10::OperatorName*, const Operator*> by_address_;  // without building a text per op
};

}  // namespace crucible::recorder
