// Alias resolution: see storage_map.hpp.
#include "frontends/aten/storage_map.hpp"

#include <fmt/format.h>

#include "core/graph/reference_numbers.hpp"
#include "core/graph/view.hpp"
#include "frontends/aten/complex.hpp"
#include "frontends/aten/index_plan.hpp"

namespace crucible::aten {

using graph::View;

StorageMap::StorageMap(const trace::Trace& trace, const Alignment& alignment, Emitter& emitter)
    : trace_(trace), alignment_(alignment), emitter_(emitter) {
  std::map<std::uint32_t, std::size_t> place_of;
  for (std::size_t i = 0; i < alignment.iterations.size(); ++i) place_of.emplace(alignment.iterations[i], i);
  for (const trace::External& external : trace.externals) {
    const auto [at, is_new] = externals_.emplace(std::pair{external.iteration, external.storage}, &external);
    const auto place = place_of.find(external.iteration);
    if (is_new || at->second->blob == external.blob || place == place_of.end()) continue;
    const auto first = alignment.to_first[place->second].find(external.storage);
    if (first != alignment.to_first[place->second].end()) changing_.insert(first->second);
  }
}

const trace::External* StorageMap::external(trace::StorageId storage, std::size_t i) const {
  const auto found = externals_.find({alignment_.iterations[i], storage});
  return found == externals_.end() ? nullptr : found->second;
}

trace::BlobId StorageMap::external_blob(trace::StorageId storage, std::size_t i) const {
  const trace::External* found = external(storage, i);
  return found ? found->blob : trace::kNone;
}

const StorageMap::Entry* StorageMap::find(trace::StorageId storage) const {
  const auto found = entries_.find(storage);
  return found == entries_.end() ? nullptr : &found->second;
}

bool StorageMap::same_storage(trace::TensorId a, trace::TensorId b) const {
  const auto storage = trace_.tensors[alignment_.base_of(a)].storage;
  return storage != trace::kNone && storage == trace_.tensors[alignment_.base_of(b)].storage;
}

StorageMap::Entry* StorageMap::open(const trace::Tensor& tensor) {
  if (tensor.storage == trace::kNone) {
    emitter_.fail("a tensor without a storage (sparse or opaque) is not supported");
    return nullptr;
  }
  const std::uint64_t bytes = trace_.storages[tensor.storage].size_bytes;
  const std::uint32_t width = size_bytes(tensor.dtype);
  if (width == 0 || is_complex(tensor.dtype)) {
    emitter_.fail(fmt::format("tensors of dtype {} are not supported", name(tensor.dtype)));
    return nullptr;
  }
  if (changing_.contains(tensor.storage)) {
    emitter_.fail("memory that something other than an op changes between two ops that read it is not supported");
    return nullptr;
  }
  auto [at, is_new] = entries_.try_emplace(tensor.storage);
  Entry& entry = at->second;
  if (is_new) {
    entry.dtype = tensor.dtype;
    entry.elements = static_cast<std::int64_t>(bytes / width);
  } else if (entry.dtype != tensor.dtype) {
    emitter_.fail(fmt::format("a storage of {} is read as {}: views that reinterpret bits are not supported",
                              name(entry.dtype), name(tensor.dtype)));
    return nullptr;
  }
  return &entry;
}

bool StorageMap::view_of(const trace::Tensor& tensor, const Entry& entry, View& view) {
  view = View{tensor.offset, tensor.sizes, tensor.strides};
  const auto last = graph::last_index(view);
  if (!last || *last >= entry.elements) {
    emitter_.fail(fmt::format("tensor [{}] with strides [{}] and offset {} does not fit its storage of {} elements",
                              fmt::join(tensor.sizes, ", "), fmt::join(tensor.strides, ", "), tensor.offset,
                              entry.elements));
    return false;
  }
  view = graph::normalized(std::move(view));
  return true;
}

Term StorageMap::read_number(const trace::Tensor& tensor) {
  std::vector<double> values;
  bool same = true;
  Term term;
  for (std::size_t i = 0; i < alignment_.count(); ++i) {
    const auto storage = alignment_.from_first[i].at(tensor.storage);
    auto blob = external_blob(storage, i);
    if (blob == trace::kNone) blob = external_blob(storage, 0);  // one number object that every iteration uses
    auto bytes = trace_.blob_store && blob != trace::kNone ? trace_.blob_store->load(blob) : Error{};
    const std::size_t at = static_cast<std::size_t>(tensor.offset) * size_bytes(tensor.dtype);
    if (!bytes || bytes->size() < at + size_bytes(tensor.dtype)) {
      emitter_.fail(fmt::format("the bytes of a Python number are not in the recording (iteration {})", i));
      return Term::number(0);
    }
    const bool floating = is_floating(tensor.dtype);
    const Term one = floating ? Term::number(graph::load_real(tensor.dtype, bytes->data() + at))
                              : Term::integer(graph::load_integer(tensor.dtype, bytes->data() + at));
    values.push_back(emitter_.number_values(one)[0]);
    if (i == 0) term = one;
    same = same && (one.operand.scalar == term.operand.scalar);
  }
  if (!same) term = emitter_.slot("a Python number", values, !is_floating(tensor.dtype));
  if (tensor.dtype == DType::kBool) term.dtype = DType::kBool;
  return term;
}

const std::vector<std::int64_t>* StorageMap::offsets_of(trace::TensorId id) const {
  const auto found = alignment_.moved.find({position_, id});
  return found == alignment_.moved.end() ? nullptr : &found->second;
}

Term StorageMap::places(const View& view, const Entry& entry, const std::vector<std::int64_t>& offsets) {
  std::vector<double> values;
  for (const std::int64_t offset : offsets) {
    View moved = view;
    moved.offset = offset;
    const auto last = graph::last_index(moved);
    if (!last || *last >= entry.elements) {
      emitter_.fail(fmt::format("a view that starts at element {} in another iteration does not fit its storage of {}",
                                offset, entry.elements));
    }
    values.push_back(static_cast<double>(offset));
  }
  Term place = emitter_.fill(emitter_.slot("offset of a view", values, true), {}, DType::kI64);
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 1) continue;
    const Term step =
        emitter_.binary(graph::OpKind::kMultiply, emitter_.position(static_cast<std::int64_t>(d), view.sizes),
                        Term::integer(view.strides[d]));
    place = emitter_.binary(graph::OpKind::kAdd, place, step);
  }
  return emitter_.expand(place, view.sizes);
}

Term StorageMap::base_of(const trace::Tensor& tensor, Entry& entry) {
  Term base;
  base.dtype = entry.dtype;
  base.operand.view = View::contiguous({entry.elements});
  const bool is_external = entry.value == graph::kNone && external(tensor.storage, 0) != nullptr;
  if (is_external) {
    entry.outside = emitter_.outside_value(graph::ValueKind::kInput, entry.dtype, entry.elements, "");
    entry.value = entry.outside;
  }
  base.operand.value = entry.value;
  if (entry.value == graph::kNone) base = emitter_.fill(Term::integer(0), {entry.elements}, entry.dtype);
  return base;
}

Term StorageMap::read(trace::TensorId id) {
  if (const auto lazy = alignment_.lazy.find(id); lazy != alignment_.lazy.end()) {  // of real numbers: a negative view
    return emitter_.unary(graph::OpKind::kNegate, read(lazy->second.base));
  }
  const trace::Tensor& tensor = trace_.tensors[id];
  if (alignment_.zeros.contains(id)) return emitter_.fill(Term::integer(0), tensor.sizes, tensor.dtype);
  const bool untouched = tensor.storage != trace::kNone && !entries_.contains(tensor.storage);
  if (tensor.is_wrapped_number && tensor.sizes.empty() && untouched && external(tensor.storage, 0)) {
    return read_number(tensor);
  }
  return read_view(id, tensor);
}

Complex StorageMap::read_complex(trace::TensorId id) {
  const auto lazy = alignment_.lazy.find(id);
  const bool is_lazy = lazy != alignment_.lazy.end();
  const Term pairs = read_pairs(is_lazy ? lazy->second.base : id);
  const auto part = [&](std::int64_t k, bool negative) {
    const Term half = emitter_.drop(narrow(pairs, -1, k, 1), {-1});
    return negative ? emitter_.unary(graph::OpKind::kNegate, half) : half;
  };
  const bool negative = is_lazy && lazy->second.negative;
  return {part(0, negative), part(1, is_lazy && lazy->second.conjugate != negative)};
}

Term StorageMap::read_pairs(trace::TensorId id) {
  if (alignment_.zeros.contains(id)) {
    const trace::Tensor pairs = as_pairs(trace_.tensors[id]);
    return emitter_.fill(Term::integer(0), pairs.sizes, pairs.dtype);
  }
  if (offsets_of(id) != nullptr) emitter_.fail("a view of complex numbers that starts elsewhere in another iteration is not supported");
  return read_view(id, as_pairs(trace_.tensors[id]));
}

Term StorageMap::read_view(trace::TensorId id, const trace::Tensor& tensor) {
  // After a failure too a term has the tensor's sizes, which lowering functions read by their places.
  const auto harmless = [&] { return emitter_.fill(Term::integer(0), tensor.sizes, DType::kF32); };
  Entry* entry = open(tensor);
  if (!entry) return harmless();
  if (entry->value == graph::kNone) {
    entry->outside = emitter_.outside_value(graph::ValueKind::kInput, entry->dtype, entry->elements, "");
    entry->value = entry->outside;
  }
  Term term;
  if (!view_of(tensor, *entry, term.operand.view)) return harmless();
  term.dtype = tensor.dtype;
  term.operand.value = entry->value;
  if (const auto* offsets = offsets_of(id)) {
    const Term place = places(term.operand.view, *entry, *offsets);
    term.operand.view = View::contiguous({entry->elements});
    term = emitter_.take(term, place);
  }
  term.is_wrapped_number = tensor.is_wrapped_number;
  return term;
}

graph::ValueId StorageMap::outside_value(trace::StorageId storage) {
  Entry& entry = entries_.at(storage);
  if (entry.outside == graph::kNone) {
    entry.outside = emitter_.outside_value(graph::ValueKind::kInput, entry.dtype, entry.elements, "");
  }
  return entry.outside;
}

void StorageMap::write(trace::TensorId id, const Term& written, graph::OpId first_op) {
  if (alignment_.zeros.contains(id)) return;  // its readers know what is there
  const bool complex = is_complex(trace_.tensors[id].dtype);
  trace::Tensor pairs;
  if (complex) pairs = as_pairs(trace_.tensors[id]);
  const trace::Tensor& tensor = complex ? pairs : trace_.tensors[id];
  Entry* entry = open(tensor);
  View view;
  if (!entry || !view_of(tensor, *entry, view)) return;
  Term term = written.is_number() ? emitter_.fill(written, tensor.sizes, tensor.dtype)
                                  : emitter_.expand(emitter_.cast(written, tensor.dtype), tensor.sizes);
  if (!emitter_.failure().empty()) return;
  if (!graph::is_injective(view)) {
    emitter_.fail("a tensor whose elements overlap is written");
    return;
  }
  auto& values = emitter_.program().values;
  entry->written = true;
  if (const auto* offsets = offsets_of(id)) {
    if (complex) return emitter_.fail("a view of complex numbers that starts elsewhere in another iteration is not supported");
    const Term base = base_of(tensor, *entry);
    term = emitter_.put(graph::OpKind::kPutSet, base, places(view, *entry, *offsets), term);
  } else if (graph::covers(view, entry->elements)) {
    const bool same =
        graph::same_map(term.operand.view, view) && values[term.operand.value].elements == entry->elements;
    if (!same && !emitter_.relay(term, view, first_op)) {
      term = emitter_.copy(term);
      emitter_.relay(term, view, emitter_.next_op() - 1);
    }
  } else {
    const Term base = base_of(tensor, *entry);
    graph::Attributes attributes;
    attributes.region = view;
    term = emitter_.emit(graph::OpKind::kUpdate, {base, term}, {entry->elements}, entry->dtype, attributes);
  }
  entry->value = term.operand.value;
}

}  // namespace crucible::aten
