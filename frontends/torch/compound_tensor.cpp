// Each kind of tensor in a few lines: where its parts lie in the framework's own objects. They are read in place.
#include "frontends/torch/compound_tensor.hpp"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>

#include <bit>
#include <string_view>
#include <utility>

#include "frontends/torch/record_reader.hpp"

namespace crucible::recorder {

namespace {

using Access = Encoder::Access;

constexpr std::uint64_t kHeadItems = 5;  // kind, dtype, requires_grad, sizes, strides

/// Kind as it stands in the file, and its plural for the summary.
struct Kind {
  const char* name;
  const char* plural;  // null: nothing to say
};

/// The head of the item. Sizes are left out where the framework has no regular ones.
void begin(Encoder& e, const at::Tensor& tensor, const char* kind, std::size_t parts) {
  const bool is_nested = tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::NestedTensor);
  const bool is_strided = !is_nested && tensor.layout() == c10::kStrided && tensor.has_storage();
  e.log().reserve(8);
  e.log().put(Tag::kCompound, parts);
  e.string(kind);
  e.dtype(tensor.scalar_type());
  e.boolean(tensor.requires_grad());
  e.integers(is_nested ? at::IntArrayRef() : tensor.sizes());
  e.integers(is_strided ? tensor.strides() : at::IntArrayRef());
}

/// The same sizes, strides and offset on the same storage, without what makes the tensor unusual.
at::Tensor plain_view(const c10::TensorImpl& impl, c10::ScalarType type) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(impl.unsafe_storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
  view.unsafeGetTensorImpl()->set_sizes_and_strides(impl.sizes(), impl.strides());
  view.unsafeGetTensorImpl()->set_storage_offset(impl.storage_offset());
  return view;
}

void part(Encoder& e, std::string_view name, const at::Tensor& tensor, Access access) {
  e.string(name);
  e.tensor(tensor, access);
}

void part(Encoder& e, std::string_view name, std::int64_t value) {
  e.string(name);
  e.integer(value);
}

void encode_sparse(Encoder& e, const at::Tensor& tensor, Access access) {
  const auto& impl = *static_cast<const at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
  begin(e, tensor, "sparse_coo", 5);
  part(e, "indices", impl.indices(), access);
  part(e, "values", impl.values(), access);
  e.string("is_coalesced");
  e.boolean(impl.coalesced());
  part(e, "sparse_dim", impl.sparse_dim());
  part(e, "dense_dim", impl.dense_dim());
}

Kind compressed_kind(c10::Layout layout, bool is_matrix) {
  switch (layout) {
    // Replay knows matrices with compressed rows or columns.
    case c10::kSparseCsr: return {"sparse_csr", is_matrix ? nullptr : "sparse_csr tensors"};
    case c10::kSparseCsc: return {"sparse_csc", is_matrix ? nullptr : "sparse_csc tensors"};
    case c10::kSparseBsr: return {"sparse_bsr", "sparse_bsr tensors"};
    default: return {"sparse_bsc", "sparse_bsc tensors"};
  }
}

const char* encode_compressed(Encoder& e, const at::Tensor& tensor, Access access) {
  const auto& impl = *static_cast<const at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
  const Kind kind = compressed_kind(tensor.layout(), tensor.dim() == 2 && impl.values().dim() == 1);
  begin(e, tensor, kind.name, 3);
  part(e, "compressed_indices", impl.compressed_indices(), access);
  part(e, "plain_indices", impl.plain_indices(), access);
  part(e, "values", impl.values(), access);
  return kind.plural;
}

const char* encode_nested(Encoder& e, const at::Tensor& tensor, Access access) {
  const auto& impl = *static_cast<const at::native::NestedTensorImpl*>(tensor.unsafeGetTensorImpl());
  begin(e, tensor, "nested", 4);
  part(e, "buffer", impl.get_unsafe_storage_as_tensor(), access);
  // Shape tables are made with the tensor by code that is no op: they enter with their bytes even when it is a result.
  part(e, "sizes", impl.get_nested_sizes(), Access::kRead);
  part(e, "strides", impl.get_nested_strides(), Access::kRead);
  part(e, "offsets", impl.get_storage_offsets(), Access::kRead);
  return "nested tensors";
}

const char* encode_quantized(Encoder& e, const at::Tensor& tensor, Access access) {
  auto& impl = *static_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl());
  const at::QuantizerPtr quantizer = impl.quantizer();
  const at::Tensor data = plain_view(impl, c10::toUnderlying(tensor.scalar_type()));
  const auto start = [&](const char* kind, std::size_t parts) {
    begin(e, tensor, kind, parts);
    part(e, "data", data, access);
    e.string("dtype");
    e.string(c10::toString(tensor.scalar_type()));
  };
  switch (quantizer->qscheme()) {
    case at::kPerTensorAffine: {
      const auto& scheme = *static_cast<const at::PerTensorAffineQuantizer*>(quantizer.get());
      start("quantized_per_tensor", 4);
      e.string("scale");
      e.real(scheme.scale());
      part(e, "zero_point", scheme.zero_point());
      break;
    }
    case at::kPerChannelAffine:
    case at::kPerChannelAffineFloatQParams: {
      const auto& scheme = *static_cast<const at::PerChannelAffineQuantizer*>(quantizer.get());
      start("quantized_per_channel", 5);
      part(e, "scales", scheme.scales(), Access::kRead);
      part(e, "zero_points", scheme.zero_points(), Access::kRead);
      part(e, "axis", scheme.axis());
      break;
    }
    default: start("quantized", 2); break;
  }
  return "quantized tensors";
}

const char* encode_lazy_view(Encoder& e, const at::Tensor& tensor, Access access) {
  const bool conjugate = tensor.is_conj(), negative = tensor.is_neg();
  begin(e, tensor, conjugate && negative ? "conjugate_negative" : conjugate ? "conjugate" : "negative", 1);
  part(e, "base", plain_view(*tensor.unsafeGetTensorImpl(), tensor.scalar_type()), access);
  return nullptr;  // as good as any other: who reads the recording knows how it is read
}

std::uint64_t hash_of(const trace::Arg& arg) {
  std::uint64_t hash = static_cast<std::uint64_t>(arg.kind) * 0x9E3779B97F4A7C15ull ^ arg.tensor ^
                       static_cast<std::uint64_t>(arg.integer) << 32 ^ std::bit_cast<std::uint64_t>(arg.real);
  for (const trace::Arg& element : arg.list) hash = hash * 31 + hash_of(element);
  return hash;
}

std::vector<std::int64_t> numbers(const trace::Arg& list) {
  std::vector<std::int64_t> values;
  for (const trace::Arg& element : list.list) values.push_back(element.integer);
  return values;
}

}  // namespace

const char* encode_compound(Encoder& e, const at::Tensor& tensor, Access access) {
  const auto keys = tensor.key_set();
  if (keys.has(c10::DispatchKey::NestedTensor)) return encode_nested(e, tensor, access);
  if (tensor.layout() == c10::kSparse) {
    encode_sparse(e, tensor, access);
    return nullptr;  // replay reads its parts
  }
  if (tensor.layout() == c10::kSparseCsr || tensor.layout() == c10::kSparseCsc || tensor.layout() == c10::kSparseBsr ||
      tensor.layout() == c10::kSparseBsc) {
    return encode_compressed(e, tensor, access);
  }
  if (keys.has(c10::DispatchKey::Quantized) && tensor.has_storage()) return encode_quantized(e, tensor, access);
  if (tensor._is_zerotensor()) {
    begin(e, tensor, "zero", 0);
    return nullptr;  // says all that there is to know
  }
  if ((tensor.is_conj() || tensor.is_neg()) && tensor.has_storage()) return encode_lazy_view(e, tensor, access);
  begin(e, tensor, "opaque", 0);
  return "tensors without a storage";
}

trace::Arg CompoundTensors::skip(RecordReader& reader, std::uint64_t parts) {
  for (std::uint64_t items = kHeadItems + 2 * parts; items > 0 && !reader.at_end(); --items) (void)reader.read();
  return {};
}

trace::Arg CompoundTensors::read(RecordReader& reader, std::uint64_t parts, TensorSink& sink) {
  trace::CompoundTensor compound;
  compound.kind = reader.read().text;
  trace::Tensor own;
  own.dtype = static_cast<DType>(reader.read().integer);
  own.requires_grad = reader.read().integer != 0;
  own.sizes = numbers(reader.read());
  own.strides = numbers(reader.read());
  own.strides.resize(own.sizes.size());
  std::uint64_t hash = own.sizes.size() + 2 * (own.requires_grad ? 1u : 0u);
  for (std::uint64_t i = 0; i < parts; ++i) {
    std::string name = reader.read().text;
    compound.parts.emplace_back(std::move(name), reader.read());
    hash = hash * 31 + hash_of(compound.parts.back().second);
  }
  trace::Arg arg;
  arg.kind = trace::Arg::Kind::kTensor;
  const auto [first, last] = known_.equal_range(hash);
  for (auto known = first; known != last; ++known) {
    const auto& [other_own, other] = known->second;
    if (other.kind != compound.kind || other.parts != compound.parts || other_own != own) continue;
    arg.tensor = other.tensor;
    return arg;
  }
  arg.tensor = compound.tensor = sink.add(own);
  sink.add(compound);
  known_.emplace(hash, Known{std::move(own), std::move(compound)});
  return arg;
}

}  // namespace crucible::recorder
