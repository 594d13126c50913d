// Every tensor is dense f32; every site is a line of train.py.
#include "core/trace/trace_maker.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace crucible::trace::samples {

namespace {

std::uint64_t elements_of(const std::vector<std::int64_t>& sizes) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= static_cast<std::uint64_t>(size);
  return elements;
}

Tensor dense(StorageId storage, std::vector<std::int64_t> sizes) {
  Tensor made{storage, DType::kF32, false, false, 0, std::move(sizes), {}};
  made.strides.resize(made.sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = made.sizes.size(); i-- > 0;) {
    made.strides[i] = stride;
    stride *= made.sizes[i];
  }
  return made;
}

Arg of_kind(Arg::Kind kind) {
  Arg made;
  made.kind = kind;
  return made;
}

}  // namespace

Arg tensor_of(TensorId id) {
  Arg made = of_kind(Arg::Kind::kTensor);
  made.tensor = id;
  return made;
}

Arg number(double value) {
  Arg made = of_kind(Arg::Kind::kDouble);
  made.real = value;
  return made;
}

Arg integer(std::int64_t value) {
  Arg made = of_kind(Arg::Kind::kInt);
  made.integer = value;
  return made;
}

Arg list_of(std::vector<Arg> elements) {
  Arg made = of_kind(Arg::Kind::kList);
  made.list = std::move(elements);
  return made;
}

TraceMaker::TraceMaker() : store_(std::make_shared<MemoryBlobStore>()) {
  trace.metadata.framework = "torch 2.11.0";
  trace.metadata.device = "cpu";
}

TensorId TraceMaker::tensor(std::vector<std::int64_t> sizes) {
  const StorageId storage = static_cast<StorageId>(trace.storages.size());
  trace.storages.push_back({4 * elements_of(sizes), "cpu"});
  trace.tensors.push_back(dense(storage, std::move(sizes)));
  return static_cast<TensorId>(trace.tensors.size() - 1);
}

TensorId TraceMaker::view(TensorId other, std::vector<std::int64_t> sizes) {
  trace.tensors.push_back(dense(trace.tensors[other].storage, std::move(sizes)));
  return static_cast<TensorId>(trace.tensors.size() - 1);
}

void TraceMaker::begin_iteration() {
  trace.iterations.push_back({static_cast<std::uint32_t>(trace.ops.size()), 0, true, {}});
}

std::uint32_t TraceMaker::op(const std::string& schema, std::vector<Arg> args, std::vector<Arg> outputs) {
  const std::string full = schema.substr(0, schema.find('('));
  const std::size_t dot = full.find('.');
  const auto found = std::ranges::find(trace.schemas, schema, &Schema::text);
  const SchemaId id = static_cast<SchemaId>(found - trace.schemas.begin());
  if (found == trace.schemas.end())
    trace.schemas.push_back({full.substr(0, dot), dot == full.npos ? "" : full.substr(dot + 1), schema});
  // One site per schema, so that the same line comes again in each iteration.
  while (trace.sites.size() <= id)
    trace.sites.push_back({"train.py", static_cast<std::uint32_t>(trace.sites.size() + 10), "step"});
  trace.ops.push_back({id, id, kNone, Phase::kForward, 0, std::move(args), std::move(outputs)});
  ++trace.iterations.back().op_count;
  return static_cast<std::uint32_t>(trace.ops.size() - 1);
}

BlobId TraceMaker::blob(TensorId tensor, float first) {
  std::vector<float> elements(trace.storages[trace.tensors[tensor].storage].size_bytes / 4);
  for (float& element : elements) element = first++;
  return store_->add(std::as_bytes(std::span(elements)));
}

void TraceMaker::external(TensorId tensor, Role role, const std::string& name, float first) {
  trace.externals.push_back({trace.tensors[tensor].storage, static_cast<std::uint32_t>(trace.iterations.size() - 1),
                             static_cast<std::uint32_t>(trace.ops.size()), role, name, blob(tensor, first)});
}

void TraceMaker::final_state(TensorId tensor, Role role, const std::string& name, float first) {
  trace.final_states.push_back({trace.tensors[tensor].storage, role, name, blob(tensor, first)});
}

Trace TraceMaker::take() {
  trace.blobs = store_->blobs();
  trace.blob_store = store_;
  return std::move(trace);
}

Trace training_trace(const TrainingOptions& options) {
  TraceMaker maker;
  const TensorId w = maker.tensor({4, 2}), t = maker.tensor({2});
  for (std::uint32_t i = 0; i < options.iterations; ++i) {
    maker.begin_iteration();
    const TensorId x = maker.tensor({options.batch, 4}), h = maker.tensor({options.batch, 2});
    const TensorId y = maker.tensor({options.batch, 2}), z = maker.tensor({options.batch, 2}), s = maker.tensor({});
    maker.external(x, Role::kInput, "", static_cast<float>(i));
    if (i == 0) maker.external(w, Role::kParameter, "fc.weight", options.weight);
    maker.op("aten::mm(Tensor self, Tensor mat2) -> Tensor", {tensor_of(x), tensor_of(w)}, {tensor_of(h)});
    maker.op("aten::relu(Tensor self) -> Tensor", {tensor_of(h)}, {tensor_of(y)});
    if (options.extra_op && i == 1)
      maker.op("aten::relu(Tensor self) -> Tensor", {tensor_of(h)}, {tensor_of(maker.tensor({options.batch, 2}))});
    if (i == 0) maker.external(t, Role::kBuffer, "scale", 7);
    maker.op("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", {tensor_of(y), tensor_of(t)}, {tensor_of(z)});
    maker.op("aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", {tensor_of(z), Arg{}}, {tensor_of(s)});
    maker.op("aten::_local_scalar_dense(Tensor self) -> Scalar", {tensor_of(s)}, {number(2.5 - i)});
    maker.op("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
             {tensor_of(w), tensor_of(maker.view(h, {4, 2})), number(-options.rate)}, {tensor_of(w)});
    maker.trace.ops.back().phase = Phase::kOptimizer;
    maker.trace.iterations.back().losses.push_back({s, 2.5 - i});
  }
  maker.final_state(w, Role::kParameter, "fc.weight", 100 + options.weight);
  maker.final_state(t, Role::kBuffer, "scale", 7);
  return maker.take();
}

}  // namespace crucible::trace::samples
