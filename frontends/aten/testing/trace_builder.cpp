// Traces by hand: see trace_builder.hpp.
#include "frontends/aten/testing/trace_builder.hpp"

#include <cstring>

namespace crucible::aten {

using trace::Arg;

trace::StorageId TraceBuilder::storage(std::int64_t elements, DType dtype) {
  trace_.storages.push_back({static_cast<std::uint64_t>(elements) * size_bytes(dtype), "cpu"});
  return static_cast<trace::StorageId>(trace_.storages.size() - 1);
}

trace::TensorId TraceBuilder::view(trace::StorageId storage, std::vector<std::int64_t> sizes,
                                   std::vector<std::int64_t> strides, std::int64_t offset, DType dtype) {
  trace::Tensor t;
  t.storage = storage;
  t.dtype = dtype;
  t.offset = offset;
  t.strides = strides.empty() ? graph::View::contiguous(sizes).strides : std::move(strides);
  t.sizes = std::move(sizes);
  trace_.tensors.push_back(std::move(t));
  return static_cast<trace::TensorId>(trace_.tensors.size() - 1);
}

trace::TensorId TraceBuilder::fresh(std::vector<std::int64_t> sizes, DType dtype) {
  const auto elements = graph::View::contiguous(sizes).elements();
  return view(storage(elements, dtype), std::move(sizes), {}, 0, dtype);
}

trace::TensorId TraceBuilder::sparse(std::vector<std::int64_t> sizes, trace::TensorId indices, trace::TensorId values,
                                     std::int64_t sparse_dims) {
  trace::Tensor whole;
  whole.dtype = trace_.tensors[values].dtype;
  whole.strides.resize(sizes.size());
  whole.sizes = std::move(sizes);
  trace_.tensors.push_back(std::move(whole));
  const auto id = static_cast<trace::TensorId>(trace_.tensors.size() - 1);
  trace_.compounds.push_back(
      {id,
       "sparse_coo",
       {{"indices", tensor(indices)}, {"values", tensor(values)}, {"sparse_dim", integer(sparse_dims)}}});
  return id;
}

trace::TensorId TraceBuilder::python_number(double value) {
  const auto id = fresh({}, DType::kF64);
  trace_.tensors[id].is_wrapped_number = true;
  external_bytes(storage_of(id), std::as_bytes(std::span(&value, 1)), trace::Role::kUnknown, "");
  return id;
}

trace::TensorId TraceBuilder::python_integer(std::int64_t value) {
  const auto id = fresh({}, DType::kI64);
  trace_.tensors[id].is_wrapped_number = true;
  external_bytes(storage_of(id), std::as_bytes(std::span(&value, 1)), trace::Role::kUnknown, "");
  return id;
}

Arg TraceBuilder::tensor(trace::TensorId id) {
  Arg arg;
  arg.kind = Arg::Kind::kTensor;
  arg.tensor = id;
  return arg;
}

Arg TraceBuilder::number(double value) {
  Arg arg;
  arg.kind = Arg::Kind::kDouble;
  arg.real = value;
  return arg;
}

Arg TraceBuilder::integer(std::int64_t value) {
  Arg arg;
  arg.kind = Arg::Kind::kInt;
  arg.integer = value;
  return arg;
}

Arg TraceBuilder::boolean(bool value) {
  Arg arg;
  arg.kind = Arg::Kind::kBool;
  arg.integer = value;
  return arg;
}

Arg TraceBuilder::none() { return {}; }

Arg TraceBuilder::list(std::vector<Arg> items) {
  Arg arg;
  arg.kind = Arg::Kind::kList;
  arg.list = std::move(items);
  return arg;
}

Arg TraceBuilder::integers(const std::vector<std::int64_t>& values) {
  std::vector<Arg> items;
  for (auto value : values) items.push_back(integer(value));
  return list(std::move(items));
}

std::uint32_t TraceBuilder::op(const std::string& schema, std::vector<Arg> args, std::vector<Arg> outputs,
                               trace::Phase phase) {
  const auto [known, is_new] = schemas_.emplace(schema, static_cast<trace::SchemaId>(trace_.schemas.size()));
  if (is_new) {
    trace::Schema s;
    s.text = schema;
    s.name = schema.substr(0, schema.find('('));
    if (const auto dot = s.name.find('.'); dot != std::string::npos) {
      s.overload = s.name.substr(dot + 1);
      s.name.resize(dot);
    }
    trace_.schemas.push_back(std::move(s));
  }
  trace_.sites.push_back({"train.py", static_cast<std::uint32_t>(trace_.ops.size() + 1 - present_.first_op), "main"});
  trace::Op o;
  o.schema = known->second;
  o.module = module_;
  o.site = static_cast<trace::SiteId>(trace_.sites.size() - 1);
  o.phase = phase;
  o.args = std::move(args);
  o.outputs = std::move(outputs);
  trace_.ops.push_back(std::move(o));
  return static_cast<std::uint32_t>(trace_.ops.size() - 1);
}

void TraceBuilder::external_bytes(trace::StorageId storage, std::span<const std::byte> content, trace::Role role,
                                  const std::string& name) {
  trace::External e;
  e.storage = storage;
  e.iteration = static_cast<std::uint32_t>(trace_.iterations.size());
  e.op = static_cast<std::uint32_t>(trace_.ops.size());
  e.role = role;
  e.name = name;
  e.blob = blobs_->add(content);
  trace_.externals.push_back(std::move(e));
}

void TraceBuilder::external(trace::StorageId storage, const std::vector<float>& content, trace::Role role,
                            const std::string& name) {
  external_bytes(storage, std::as_bytes(std::span(content)), role, name);
}

void TraceBuilder::draw(std::uint32_t op, std::uint32_t output, const std::vector<float>& content) {
  trace_.draws.push_back({op, output, blobs_->add(std::as_bytes(std::span(content)))});
}

void TraceBuilder::module(const std::string& name) {
  trace_.modules.push_back(name);
  module_ = static_cast<trace::ModuleId>(trace_.modules.size() - 1);
}

void TraceBuilder::loss(trace::TensorId tensor, double value) { present_.losses.push_back({tensor, value}); }

void TraceBuilder::output(trace::TensorId tensor, const std::vector<float>& content, const std::string& name) {
  const auto iteration = static_cast<std::uint32_t>(trace_.iterations.size());
  trace_.outputs.push_back({iteration, name, tensor, blobs_->add(std::as_bytes(std::span(content)))});
}

void TraceBuilder::final_state(trace::StorageId storage, const std::vector<float>& content, const std::string& name) {
  trace_.final_states.push_back({storage, trace::Role::kUnknown, name, blobs_->add(std::as_bytes(std::span(content)))});
}

void TraceBuilder::end_iteration(bool complete) {
  present_.op_count = static_cast<std::uint32_t>(trace_.ops.size()) - present_.first_op;
  present_.complete = complete;
  trace_.iterations.push_back(present_);
  present_ = {};
  present_.first_op = static_cast<std::uint32_t>(trace_.ops.size());
}

const trace::Trace& TraceBuilder::trace() {
  trace_.blobs = blobs_->blobs();
  trace_.blob_store = blobs_;
  return trace_;
}

std::vector<float> floats(const graph::Bytes& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), values.size() * 4);
  return values;
}

}  // namespace crucible::aten
