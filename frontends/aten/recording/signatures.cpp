// See signatures.hpp.
#include "frontends/aten/recording/signatures.hpp"

#include <map>
#include <span>

#include "frontends/aten/recording/align.hpp"

namespace crucible::aten {
namespace {

using Kind = trace::Arg::Kind;

void add_number(Checksum64& sum, std::uint64_t number) { sum.update(std::as_bytes(std::span(&number, 1))); }

}  // namespace

std::uint64_t Signatures::of(const std::vector<std::uint32_t>& ops) {
  std::map<std::uint32_t, Checksum64> by_thread;
  for (const auto index : ops) add(by_thread[trace_.ops[index].thread], trace_.ops[index]);
  std::uint64_t all = ops.size();
  for (const auto& [thread, sum] : by_thread) all += sum.value();
  return all;
}

std::uint64_t Signatures::of(const trace::Op& op) {
  Checksum64 sum;
  add(sum, op);
  return sum.value();
}

std::uint64_t Signatures::of(const trace::Arg& arg) const {
  Checksum64 sum;
  add(sum, arg);
  return sum.value();
}

std::uint64_t Signatures::name_of(trace::SchemaId schema) {
  std::optional<std::uint64_t>& name = names_[schema];
  if (!name) {
    const std::string text = trace_.schemas[schema].full_name();
    name = checksum64(std::as_bytes(std::span(text)));
  }
  return *name;
}

void Signatures::add(Checksum64& sum, const trace::Op& op) {
  add_number(sum, name_of(op.schema));
  for (const auto* args : {&op.args, &op.outputs}) {
    add_number(sum, args->size());
    for (const trace::Arg& arg : *args) add(sum, arg);
  }
}

void Signatures::add(Checksum64& sum, const trace::Arg& arg) const {
  if (is_number(arg)) return add_number(sum, 1000);  // numbers may differ
  add_number(sum, static_cast<std::uint64_t>(arg.kind));
  if (arg.kind == Kind::kTensor) return add(sum, trace_.tensors[arg.tensor]);
  add_number(sum, arg.list.size());
  for (const trace::Arg& item : arg.list) add(sum, item);
  if (arg.kind != Kind::kList && !arg.text.empty()) sum.update(std::as_bytes(std::span(arg.text)));
}

void Signatures::add(Checksum64& sum, const trace::Tensor& tensor) const {
  // A number of Python that entered as a tensor may have another type.
  add_number(sum, tensor.is_wrapped_number ? 1000 : static_cast<std::uint64_t>(tensor.dtype));
  for (const auto* extents : {&tensor.sizes, &tensor.strides}) {
    add_number(sum, extents->size());
    sum.update(std::as_bytes(std::span(*extents)));
  }
  const bool has_size = tensor.storage != trace::kNone && !tensor.is_wrapped_number;
  add_number(sum, has_size ? trace_.storages[tensor.storage].size_bytes : 0);
}

}  // namespace crucible::aten
