// A recorded iteration of one op with random operands: what composites_test.cpp lowers.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/graph/reference_composite.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible::aten {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Data : std::uint8_t { kPlain, kAwkward, kPositive };

/// A recorded iteration of one op with random operands.
class Recording {
 public:
  using B = TraceBuilder;
  using Sizes = std::vector<std::int64_t>;
  using Arg = trace::Arg;
  using TensorId = trace::TensorId;

  Recording(std::uint64_t seed, DType dtype, bool is_awkward) : random_(seed), dtype_(dtype), is_awkward_(is_awkward) {}

  B& builder() { return b_; }
  std::int64_t side(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool chance() { return side(0, 1) == 1; }

  TensorId tensor(const Sizes& sizes, Data data = Data::kAwkward) {
    return typed(sizes, dtype_, [&] { return number(data); });
  }
  Arg arg(const Sizes& sizes, Data data = Data::kAwkward) { return B::tensor(tensor(sizes, data)); }
  /// The same or None.
  Arg maybe(const Sizes& sizes, Data data = Data::kPlain) { return chance() ? arg(sizes, data) : B::none(); }
  Arg whole(const Sizes& sizes, std::int64_t low, std::int64_t high) {
    return B::tensor(typed(sizes, DType::kI64, [&] { return static_cast<double>(side(low, high)); }));
  }
  Arg truths(const Sizes& sizes) {
    return B::tensor(typed(sizes, DType::kBool, [&] { return static_cast<double>(chance()); }));
  }
  Arg single(double value) {
    return B::tensor(typed({1}, DType::kF32, [&] { return value; }));
  }
  /// An operand whose elements a function of the others gives: what a forward pass kept.
  Arg filled(const Sizes& sizes, const std::function<double()>& value) {
    return B::tensor(typed(sizes, dtype_, value));
  }

  /// Records the op; results of these sizes are watched.
  void op(const std::string& schema, std::vector<Arg> args, const std::vector<Sizes>& results) {
    std::vector<Arg> outputs;
    std::vector<TensorId> made;
    for (const Sizes& sizes : results) made.push_back(b_.fresh(sizes, dtype_));
    for (const TensorId id : made) outputs.push_back(B::tensor(id));
    b_.op(schema, std::move(args), std::move(outputs));
    for (const TensorId id : made) watch(id);
  }
  /// What an op writes in place.
  Arg state(const Sizes& sizes, Data data = Data::kAwkward) {
    const TensorId id = tensor(sizes, data);
    written_.push_back(id);
    return B::tensor(id);
  }

  const trace::Trace& trace() {
    for (const TensorId id : written_) {  // what was recorded of it does not matter here, but how much there is
      const auto bytes =
          static_cast<std::size_t>(graph::View::contiguous(b_.tensor_of(id).sizes).elements()) * size_bytes(dtype_);
      b_.final_state(b_.storage_of(id), std::vector<float>(bytes / sizeof(float)));
    }
    b_.end_iteration();
    return b_.trace();
  }

 private:
  void watch(TensorId id) { b_.output(id, {}, "r" + std::to_string(watched_++)); }

  double number(Data data) {
    const double plain = std::normal_distribution<>(0, 1.5)(random_);
    if (data == Data::kPositive) return std::abs(plain) + 0.1;
    if (!is_awkward_ || data == Data::kPlain || side(0, 7) != 0) return plain;
    constexpr double kAwkward[] = {
        std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, -0.0, 0.0, 1.0, -3.0};
    return kAwkward[static_cast<std::size_t>(side(0, 6))];
  }

  TensorId typed(const Sizes& sizes, DType dtype, const std::function<double()>& next) {
    const TensorId id = b_.fresh(sizes, dtype);
    const std::size_t width = size_bytes(dtype);
    graph::Bytes bytes(static_cast<std::size_t>(graph::View::contiguous(sizes).elements()) * width);
    for (std::size_t at = 0; at < bytes.size(); at += width) {
      const double value = next();
      is_floating(dtype) ? graph::store_real(dtype, value, &bytes[at])
                         : graph::store_integer(dtype, static_cast<std::int64_t>(value), &bytes[at]);
    }
    b_.external_bytes(b_.storage_of(id), bytes, trace::Role::kUnknown, "t" + std::to_string(id));
    return id;
  }

  std::mt19937_64 random_;
  DType dtype_;
  bool is_awkward_;
  B b_;
  std::vector<TensorId> written_;
  std::size_t watched_ = 0;
};

}  // namespace crucible::aten
