// Calls of opaque ops: see call.hpp.
#include "backends/torch/call.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "plugins/sdk/error.hpp"

namespace crucible_torch {
namespace {

using Json = nlohmann::json;
using crucible::sdk::Failure;

[[noreturn]] void unsupported(std::string_view kernel, const std::string& why) {
  throw Failure(CRUCIBLE_E_UNSUPPORTED, why, {{"kernel", std::string(kernel)}});
}

at::ScalarType dtype_of(const std::string& name) {
  static const std::pair<const char*, at::ScalarType> kNames[] = {
      {"bool", at::kBool}, {"u8", at::kByte},    {"i8", at::kChar},          {"i16", at::kShort},
      {"i32", at::kInt},   {"i64", at::kLong},   {"f16", at::kHalf},         {"bf16", at::kBFloat16},
      {"f32", at::kFloat}, {"f64", at::kDouble}, {"c64", at::kComplexFloat}, {"c128", at::kComplexDouble}};
  for (const auto& [known, type] : kNames) {
    if (name == known) return type;
  }
  throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "unknown dtype " + name);
}

double exact(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

Place place_of(const Json& json) {
  return {dtype_of(json.at("dtype")), json.at("sizes"), json.at("strides"), json.at("offset"), json.at("buffer")};
}

at::Tensor tensor_at(const Place& place, void* const* buffers) {
  auto* data = static_cast<std::byte*>(buffers[place.buffer]) +
               place.offset * static_cast<std::int64_t>(c10::elementSize(place.dtype));
  return at::from_blob(data, place.sizes, place.strides, at::TensorOptions().dtype(place.dtype));
}

/// Tensors among the returned values, items of lists one by one, undefined ones too: as the recording counts them.
std::vector<at::Tensor> tensors_in(const std::vector<at::IValue>& values) {
  std::vector<at::Tensor> tensors;
  for (const at::IValue& value : values) {
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& item : value.toTensorVector()) tensors.push_back(item);
    }
  }
  return tensors;
}

bool is_key(const Json& arg, const char* key) { return arg.is_object() && arg.contains(key); }

double real_of(const Json& arg) {
  if (is_key(arg, "real")) return exact(arg["real"]);
  if (arg.is_boolean()) return arg.get<bool>() ? 1 : 0;
  return static_cast<double>(arg.get<std::int64_t>());
}

/// Libtorch's own namespaces whose ops reach beyond their operands: processes, networks, devices, files, other
/// programs.
constexpr std::string_view kReachBeyond[] = {"aoti",
                                             "c10d",
                                             "_c10d_functional",
                                             "_c10d_functional_autograd",
                                             "c10d_functional",
                                             "cuda",
                                             "_dtensor",
                                             "dist",
                                             "inductor",
                                             "mkl",
                                             "mkldnn_prepacked",
                                             "mobile",
                                             "prepacked",
                                             "prim",
                                             "profiler",
                                             "rpc",
                                             "static_runtime",
                                             "streams",
                                             "symm_mem",
                                             "triton",
                                             "xnnpack"};

/// "" or why the op is never run: a recording may come from anywhere, and only what it reads and writes among its
/// operands is its business.
std::string never_run(const c10::FunctionSchema& schema) {
  const std::string& name = schema.name();
  const std::string_view space = std::string_view(name).substr(0, name.find("::"));
  if (std::ranges::find(kReachBeyond, space) != std::end(kReachBeyond))
    return "ops of " + std::string(space) + " reach beyond their operands";
  for (const c10::Argument& argument : schema.arguments()) {
    const std::string& word = argument.name();
    const bool names_a_place =
        word.contains("file") || word.contains("path") || word.contains("librar") || word.contains("url");
    if (names_a_place && argument.type()->annotation_str().contains("str"))
      return "its argument " + word + " names a file";
  }
  return "";
}

/// Whether what was recorded may stand for a parameter of this type. The recording's own schema is its maker's word.
bool fits(const Json& arg, const c10::TypePtr& type) {
  using Kind = c10::TypeKind;
  switch (type->kind()) {
    case Kind::OptionalType:
      return arg.is_null() || fits(arg, type->castRaw<c10::OptionalType>()->getElementType());
    case Kind::ListType: {
      const auto& element = type->castRaw<c10::ListType>()->getElementType();
      return arg.is_array() && std::ranges::all_of(arg, [&](const Json& item) { return fits(item, element); });
    }
    case Kind::TensorType:
      return arg.is_null() || is_key(arg, "tensor");
    case Kind::FloatType:
      return arg.is_number_integer() || arg.is_boolean() || is_key(arg, "real") || is_key(arg, "number");
    case Kind::IntType:
    case Kind::SymIntType:
      return arg.is_number_integer() || arg.is_boolean() || is_key(arg, "number") || is_key(arg, "dtype") ||
             is_key(arg, "layout") || is_key(arg, "memory_format");
    case Kind::BoolType:
      return arg.is_boolean() || arg.is_number_integer() || is_key(arg, "number");
    case Kind::NumberType:
      return arg.is_number_integer() || arg.is_boolean() || is_key(arg, "real") || is_key(arg, "complex") ||
             is_key(arg, "number");
    case Kind::StringType:
      return is_key(arg, "text");
    default:
      return !arg.is_array() && !is_key(arg, "tensor");
  }
}

}  // namespace

Call Call::read(std::string_view kernel, std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "the text of kernel " + std::string(kernel) + " is no opaque op");
  }
  const std::string schema = json.at("schema");
  const std::string full = schema.substr(0, schema.find('('));
  const auto dot = full.find('.', full.find("::") == std::string::npos ? 0 : full.find("::"));
  const std::string overload = dot == std::string::npos ? "" : full.substr(dot + 1);
  const auto handle = c10::Dispatcher::singleton().findSchema({full.substr(0, dot), overload});
  if (!handle) {
    const bool is_own = full.starts_with("aten::") || full.starts_with("prims::");
    unsupported(kernel, "libtorch has no op " + full + ": it belongs to " +
                            (is_own ? "another version"
                                    : "a library of its own, which the plugin torch loads when it is named: --set "
                                      "backend.torch.libraries=" +
                                          full.substr(0, full.find(':'))));
  }
  Call call(*handle);
  call.name_ = full;
  call.args_ = json.at("args").get<std::vector<Json>>();
  if (const std::string why = never_run(handle->schema()); !why.empty())
    unsupported(kernel, full + " is not run for a recording: " + why);
  const auto& arguments = call.op_.schema().arguments();
  if (call.args_.size() > arguments.size()) {
    unsupported(kernel, full + " was recorded with " + std::to_string(call.args_.size()) +
                            " arguments, this libtorch's has " + std::to_string(arguments.size()));
  }
  for (std::size_t i = call.args_.size(); i < arguments.size(); ++i) {
    if (!arguments[i].default_value())
      unsupported(kernel, full + ": argument " + arguments[i].name() + " was not recorded");
  }
  for (std::size_t i = 0; i < call.args_.size(); ++i) {
    if (fits(call.args_[i], arguments[i].type())) continue;
    unsupported(kernel, full + ": argument " + arguments[i].name() + " is recorded as " + call.args_[i].dump() +
                            ", which is no " + arguments[i].type()->annotation_str());
  }
  for (const Json& operand : json.at("operands")) {
    Operand& read = call.operands_.emplace_back();
    read.is_scalar = operand.contains("scalar");
    if (read.is_scalar) {
      read.scalar = operand["scalar"];
      read.is_integer = operand.at("is_integer");
      ++call.scalars_;
    } else {
      read.place = place_of(operand);
      ++call.buffers_;
    }
  }
  for (const Json& result : json.at("results")) {
    Result& read = call.results_.emplace_back();
    if (!result.at("written").is_null()) read.written = result["written"];
    if (!result.at("returned").is_null()) read.returned = result["returned"];
    read.place = place_of(result);
    ++call.buffers_;
  }
  return call;
}

at::Tensor Call::number_tensor(const Operand& operand, const std::uint64_t* scalars) const {
  const std::uint64_t bits = scalars[operand.scalar];
  at::Tensor tensor = operand.is_integer ? at::scalar_tensor(static_cast<std::int64_t>(bits), at::kLong)
                                         : at::scalar_tensor(std::bit_cast<double>(bits), at::kDouble);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

at::IValue Call::list(const Json& items, const c10::TypePtr& element, const std::vector<at::Tensor>& tensors,
                      const std::uint64_t* scalars) const {
  c10::impl::GenericList list(element);
  if (element->kind() == c10::TypeKind::SymIntType) list = c10::impl::GenericList(c10::IntType::get());
  for (const Json& item : items) list.push_back(argument(item, element, tensors, scalars));
  return list;
}

at::IValue Call::argument(const Json& arg, const c10::TypePtr& type, const std::vector<at::Tensor>& tensors,
                          const std::uint64_t* scalars) const {
  if (type->kind() == c10::TypeKind::OptionalType) {
    if (arg.is_null()) return {};
    return argument(arg, type->castRaw<c10::OptionalType>()->getElementType(), tensors, scalars);
  }
  const bool wants_real = type->kind() == c10::TypeKind::FloatType;
  if (arg.is_null()) return type->kind() == c10::TypeKind::TensorType ? at::IValue(at::Tensor()) : at::IValue();
  if (arg.is_array()) return list(arg, type->castRaw<c10::ListType>()->getElementType(), tensors, scalars);
  if (is_key(arg, "tensor")) return tensors.at(arg["tensor"].get<std::size_t>());
  if (is_key(arg, "number")) {
    const Operand& operand = operands_.at(arg["number"].get<std::size_t>());
    const std::uint64_t bits = scalars[operand.scalar];
    if (!operand.is_integer) return std::bit_cast<double>(bits);
    const auto integer = static_cast<std::int64_t>(bits);
    return wants_real ? at::IValue(static_cast<double>(integer)) : at::IValue(integer);
  }
  if (is_key(arg, "real") || (wants_real && !arg.is_object())) return real_of(arg);
  if (arg.is_boolean()) return arg.get<bool>();
  if (arg.is_number_integer()) return arg.get<std::int64_t>();
  if (is_key(arg, "complex")) return c10::complex<double>(exact(arg["complex"][0]), exact(arg["complex"][1]));
  if (is_key(arg, "text")) return arg["text"].get<std::string>();
  if (is_key(arg, "dtype")) return static_cast<std::int64_t>(dtype_of(arg["dtype"]));
  if (is_key(arg, "device")) return c10::Device(c10::kCPU);
  if (is_key(arg, "layout")) return arg["layout"].get<std::int64_t>();
  if (is_key(arg, "memory_format")) return arg["memory_format"].get<std::int64_t>();
  if (is_key(arg, "generator")) return {};
  throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, name_ + ": an argument of an unknown kind: " + arg.dump());
}

void Call::run(void* const* buffers, const std::uint64_t* scalars) const {
  try {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;  // as it was recorded
    std::vector<at::Tensor> tensors;
    for (const Operand& operand : operands_) {
      tensors.push_back(operand.is_scalar ? number_tensor(operand, scalars) : tensor_at(operand.place, buffers));
    }
    // What is written in place is a copy in the result's buffer: the operand itself stays as it is.
    for (const Result& result : results_) {
      if (result.written < 0) continue;
      at::Tensor copy = tensor_at(result.place, buffers);
      at::Tensor& operand = tensors[static_cast<std::size_t>(result.written)];
      copy.copy_(operand);
      operand = copy;
    }
    torch::jit::Stack stack;
    const auto& arguments = op_.schema().arguments();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      stack.push_back(i < args_.size() ? argument(args_[i], arguments[i].type(), tensors, scalars)
                                       : *arguments[i].default_value());
    }
    op_.callBoxed(stack);
    const std::vector<at::Tensor> returned = tensors_in(stack);
    for (const Result& result : results_) {
      if (result.returned < 0) continue;
      const auto k = static_cast<std::size_t>(result.returned);
      at::Tensor to = tensor_at(result.place, buffers);
      if (k >= returned.size() || !returned[k].defined() || returned[k].sizes() != to.sizes()) {
        throw Failure(CRUCIBLE_E_UNSUPPORTED, name_ + ": result " + std::to_string(k) + " is not as it was recorded");
      }
      to.copy_(returned[k]);
    }
  } catch (const c10::Error& error) {
    // The op does not take what was recorded: nothing of the plugin's is wrong.
    throw Failure(CRUCIBLE_E_UNSUPPORTED, name_ + " cannot run as it was recorded: " + error.what_without_backtrace());
  }
}

}  // namespace crucible_torch
