// One opaque op, ready to be called: read from its text (docs/opaque-ops.md), looked up in libtorch's dispatcher, its
// arguments brought into the types of the op's schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace crucible_torch {

/// A tensor over a plan's memory. Units: elements.
struct Place {
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;
  std::uint32_t buffer = 0;
};

/// An argument that comes from the program: a tensor in memory, or a number of the launch.
struct Operand {
  bool is_scalar = false, is_integer = false;
  std::uint32_t scalar = 0;
  Place place;
};

/// What goes into a buffer of the launch: an argument that the op writes, or a tensor that it returns.
struct Result {
  std::int64_t written = -1, returned = -1;  // one of them is not -1
  Place place;
};

class Call {
 public:
  /// Errors: UNSUPPORTED (with the payload `kernel`) when this libtorch has no such op, or one with other arguments;
  /// INVALID_ARGUMENT for a text that is none.
  static Call read(std::string_view kernel, std::string_view text);

  const std::string& name() const { return name_; }
  std::uint32_t buffers() const { return buffers_; }
  std::uint32_t scalars() const { return scalars_; }

  /// Calls the op. Shapes: buffers() addresses and scalars() numbers, of host memory. Errors: INTERNAL with libtorch's
  /// words, and when a result is of other sizes than it was recorded with.
  void run(void* const* buffers, const std::uint64_t* scalars) const;

 private:
  explicit Call(c10::OperatorHandle op) : op_(std::move(op)) {}
  at::IValue argument(const nlohmann::json& arg, const c10::TypePtr& type, const std::vector<at::Tensor>& tensors,
                      const std::uint64_t* scalars) const;
  at::IValue list(const nlohmann::json& items, const c10::TypePtr& element, const std::vector<at::Tensor>& tensors,
                  const std::uint64_t* scalars) const;
  at::Tensor number_tensor(const Operand& operand, const std::uint64_t* scalars) const;

  c10::OperatorHandle op_;
  std::string name_;
  std::vector<nlohmann::json> args_;
  std::vector<Operand> operands_;
  std::vector<Result> results_;
  std::uint32_t buffers_ = 0, scalars_ = 0;
};

}  // namespace crucible_torch
