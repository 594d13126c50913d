// One kernel template per C++ signature: records the arguments, runs the operator below our key, records the results.
// Instantiated by the sources that resolve_ops.py writes. The boxed kernel does the same for the rest.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/BoxedKernel.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "frontends/torch/op_scope.hpp"

namespace crucible::recorder {

using Access = Encoder::Access;

inline void encode(Encoder& e, const at::Tensor& value, Access access) { e.tensor(value, access); }
inline void encode(Encoder& e, const at::Storage& value, Access access) { e.storage(value, access); }
inline void encode(Encoder& e, bool value, Access) { e.boolean(value); }
inline void encode(Encoder& e, double value, Access) { e.real(value); }
inline void encode(Encoder& e, std::int64_t value, Access) { e.integer(value); }
inline void encode(Encoder& e, at::DeviceIndex value, Access) { e.integer(value); }
inline void encode(Encoder& e, const c10::SymInt& value, Access) { e.symbolic(value); }
inline void encode(Encoder& e, const at::Scalar& value, Access) { e.scalar(value); }
inline void encode(Encoder& e, at::ScalarType value, Access) { e.dtype(value); }
inline void encode(Encoder& e, at::Layout value, Access) {
  e.log().put(Tag::kLayout, static_cast<std::uint64_t>(value));
}
inline void encode(Encoder& e, at::MemoryFormat value, Access) {
  e.log().put(Tag::kMemoryFormat, static_cast<std::uint64_t>(value));
}
inline void encode(Encoder& e, const at::Device& value, Access) { e.device(value); }
inline void encode(Encoder& e, const at::Generator& value, Access) { e.generator(value); }
inline void encode(Encoder& e, std::string_view value, Access) { e.string(value); }
inline void encode(Encoder& e, at::IntArrayRef value, Access) { e.integers(value); }
inline void encode(Encoder& e, c10::SymIntArrayRef value, Access) { e.symbolic_list(value); }

/// Any sequence: a list of its elements.
template <class List>
void encode_list(Encoder& e, const List& values, Access access);

inline void encode(Encoder& e, at::TensorList value, Access access) { encode_list(e, value, access); }
inline void encode(Encoder& e, const at::ITensorListRef& value, Access access) { encode_list(e, value, access); }
inline void encode(Encoder& e, const std::vector<at::Tensor>& value, Access access) { encode_list(e, value, access); }
inline void encode(Encoder& e, at::ArrayRef<double> value, Access access) { encode_list(e, value, access); }
inline void encode(Encoder& e, at::ArrayRef<at::Scalar> value, Access access) { encode_list(e, value, access); }
template <std::size_t N>
void encode(Encoder& e, const std::array<bool, N>& value, Access access) {
  encode_list(e, value, access);
}

template <class T>
concept Encodable = requires(Encoder& e, const T& value) { encode(e, value, Access::kRead); };

template <class T>
void encode(Encoder& e, const std::optional<T>& value, Access access) {
  if (!value.has_value()) return e.none();
  if constexpr (Encodable<T>) {
    encode(e, *value, access);
  } else {
    e.opaque(typeid(T).name());
  }
}
inline void encode(Encoder& e, const at::OptionalIntArrayRef& value, Access access) {
  value.has_value() ? encode(e, *value, access) : e.none();
}
inline void encode(Encoder& e, const at::OptionalSymIntArrayRef& value, Access access) {
  value.has_value() ? encode(e, *value, access) : e.none();
}
inline void encode(Encoder& e, const c10::List<std::optional<at::Tensor>>& value, Access access) {
  e.list(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::optional<at::Tensor> element = value.get(i);
    encode(e, element, access);
  }
}

template <class List>
void encode_list(Encoder& e, const List& values, Access access) {
  e.list(values.size());
  for (const auto& value : values) encode(e, value, access);
}

template <class T>
[[gnu::always_inline]] inline void encode_argument(OpScope& scope, std::size_t index, const T& value) {
  if constexpr (Encodable<T>) {
    encode(scope.encoder(), value, scope.access(index));
  } else {
    scope.encoder().opaque(typeid(T).name());
  }
}

template <class T>
[[gnu::always_inline]] inline void encode_result(OpScope& scope, std::uint32_t index, const T& value) {
  if constexpr (Encodable<T>) {
    encode(scope.encoder(), value, Access::kResult);
  } else {
    scope.encoder().opaque(typeid(T).name());
  }
  if constexpr (std::is_same_v<T, at::Tensor>) scope.drawn(index, value);
}

template <class... T>
void encode_results(OpScope& scope, const std::tuple<T...>& values) {
  std::uint32_t index = 0;
  std::apply([&](const auto&... value) { (encode_result(scope, index++, value), ...); }, values);
}
template <class T>
void encode_results(OpScope& scope, const T& value) {
  encode_result(scope, 0, value);
}

/// True when the op is not ours to record: Python takes it over (and the ops it calls come to us again), or nobody
/// records.
inline bool passes_by(c10::DispatchKeySet keys) {
  return keys.has(c10::DispatchKey::Python) || !Recorder::instance().is_recording();
}

/// Whether the results of ops are hashed (op_hashes.hpp).
inline bool hashes_ops() { return Recorder::instance().hashes_ops(); }

/// A kernel for ops that pass by: a subclass or mode of Python gets them with our key still on.
const c10::BoxedKernel& passing_kernel();

/// A kernel of one signature, for one operator. Threads: any.
template <class Signature>
class TypedKernel;
template <class Result, class... Arguments>
class TypedKernel<Result(Arguments...)> final : public c10::OperatorKernel {
 public:
  explicit TypedKernel(const Operator& op) : op_(op), handle_(op.handle.typed<Result(Arguments...)>()) {}

  Result operator()(c10::DispatchKeySet keys, Arguments... arguments) {
    if (passes_by(keys)) [[unlikely]] return pass_by(keys, arguments...);
    OpScope scope(op_);
    if (!scope.is_open()) [[unlikely]] return pass_by(keys, arguments...);
    std::size_t index = 0;
    (encode_argument(scope, index++, arguments), ...);
    scope.before_run();
    const Unrecorded unrecorded(scope.keys());
    if constexpr (std::is_void_v<Result>) {
      handle_.redispatch(keys & kKeysBelow, arguments...);
      if (hashes_ops()) [[unlikely]] scope.keep_hashes(OpHasher(op_).hash_written(arguments...));
      if (scope.after_run()) scope.finish();
    } else {
      Result result = handle_.redispatch(keys & kKeysBelow, arguments...);
      if (hashes_ops()) [[unlikely]] scope.keep_hashes(OpHasher(op_).hash(result, arguments...));
      if (scope.after_run()) {
        encode_results(scope, result);
        scope.finish();
      }
      return result;
    }
  }

 private:
  [[gnu::noinline]] Result pass_by(c10::DispatchKeySet keys, Arguments... arguments) {
    return c10::impl::BoxedKernelWrapper<Result(Arguments...)>::call(passing_kernel(), handle_, keys, arguments...);
  }

  const Operator& op_;
  c10::TypedOperatorHandle<Result(Arguments...)> handle_;
};

/// Registrations of typed kernels, taken back when it is destroyed.
class TypedKernels {
 public:
  /// A kernel for each operator of `names` ("add.Tensor"), all of one signature. One that this process lacks is left to
  /// the boxed kernel. Errors: c10::Error when an operator has another signature than the library was built for.
  template <class Signature>
  void add(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const Operator* op = find(name);
      if (op != nullptr) {
        put(*op, c10::KernelFunction::makeFromUnboxedFunctor<false, TypedKernel<Signature>>(
                     std::make_unique<TypedKernel<Signature>>(*op)));
      }
    }
  }

 private:
  static const Operator* find(std::string_view name);
  void put(const Operator& op, c10::KernelFunction kernel);
  std::vector<c10::RegistrationHandleRAII> handles_;
};

/// Registers every typed kernel; written by resolve_ops.py.
void register_typed_kernels(TypedKernels& kernels);

}  // namespace crucible::recorder
