// Alias resolution: see storage_map.hpp.
#include "frontends/aten/recording/storage_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "core/base/words.hpp"
#include "core/graph/reference_numbers.hpp"
#include "core/graph/view.hpp"
#include "frontends/aten/complex/complex.hpp"
#include "frontends/aten/indexing/index_plan.hpp"

namespace crucible::aten {

using graph::View;

StorageMap::StorageMap(const trace::Trace& trace, const Alignment& alignment, Emitter& emitter)
    : trace_(trace), alignment_(alignment), emitter_(emitter) {
  // What other iterations alone touch is theirs: of a thousand groups each would keep the bytes of all. Parts of
  // compound tensors may be touched where no op names them.
  std::unordered_set<trace::StorageId> own;
  for (const auto& storages : alignment.to_first) {
    for (const auto& [storage, first] : storages) own.insert(storage);
  }
  for (const auto& ops : alignment.ops) {
    for (const std::uint32_t op : ops) {
      for (const auto* args : {&trace.ops[op].args, &trace.ops[op].outputs}) {
        for (const auto id : tensors_in(*args)) own.insert(trace.tensors[id].storage);
      }
    }
  }
  for (const trace::External& external : trace.externals) {
    if (trace.compounds.empty() && !own.contains(external.storage)) continue;
    const auto [at, is_new] = externals_.emplace(std::pair{external.storage, external.iteration}, &external);
    if (!is_new && external.op < at->second->op) at->second = &external;
  }
  if (const auto late = alignment.changes->find(trace::kNone); late != alignment.changes->end()) {
    for (const ChangedMemory& change : late->second) {
      const auto place = std::ranges::find(alignment.iterations, change.bytes->iteration);
      if (place == alignment.iterations.end()) continue;
      const auto& roles = alignment.to_first[static_cast<std::size_t>(place - alignment.iterations.begin())];
      if (const auto role = roles.find(change.storage); role != roles.end()) changing_.insert(role->second);
    }
  }
  std::map<trace::StorageId, std::set<DType>> dtypes;
  for (const auto op : alignment.ops[0]) {
    for (const auto* args : {&trace.ops[op].args, &trace.ops[op].outputs}) {
      for (const auto id : tensors_in(*args)) dtypes[trace.tensors[id].storage].insert(trace.tensors[id].dtype);
    }
  }
  for (const auto& [storage, seen] : dtypes) {
    if (seen.size() > 1 && seen.contains(DType::kBool)) half_bool_.insert(storage);
  }
}

void StorageMap::at_op(std::uint32_t position) {
  position_ = position;
  if (position == trace::kNone || !alignment_.changes->contains(alignment_.ops[0][position])) return;
  if (changed_.insert(position).second) change_before(position);
}

void StorageMap::change_before(std::uint32_t position) {
  for (const ChangedMemory& first : alignment_.changes->at(alignment_.ops[0][position])) {
    const auto found = entries_.find(first.storage);
    // Memory that an op returned without filling it has held nothing until now.
    if (found == entries_.end() || found->second.value == graph::kNone) continue;
    Entry& entry = found->second;
    graph::Input input;
    for (std::size_t i = 0; i < alignment_.count(); ++i) {
      const trace::StorageId own = alignment_.from_first[i].at(first.storage);
      const std::vector<ChangedMemory>& changed = alignment_.changes->at(alignment_.ops[i][position]);
      const auto change = std::ranges::find(changed, own, &ChangedMemory::storage);
      const trace::BlobId blob = change->bytes->blob;
      const std::uint64_t wanted = static_cast<std::uint64_t>(entry.elements) * size_bytes(entry.dtype);
      if (blob < trace_.blobs.size() && trace_.blobs[blob].size_bytes != wanted) {
        return emitter_.fail(fmt::format("memory that was changed before it has {} bytes, the recording holds {}",
                                         wanted, trace_.blobs[blob].size_bytes));
      }
      input.blobs.push_back(blob);
      const auto start = externals_.find({own, alignment_.iterations[i]});
      if (start != externals_.end() && start->second->op == change->bytes->op) externals_.erase(start);
    }
    input.value =
        emitter_.outside_value(graph::ValueKind::kInput, entry.dtype, entry.elements, printable(first.bytes->name));
    emitter_.program().inputs.push_back(input);
    entry.value = input.value;
    entry.written = true;
    entry.casts.clear();
  }
}

const trace::External* StorageMap::external(trace::StorageId storage, std::size_t i) const {
  const auto found = externals_.find({storage, alignment_.iterations[i]});
  return found == externals_.end() ? nullptr : found->second;
}

trace::BlobId StorageMap::known_blob(trace::StorageId storage, std::size_t i) const {
  const auto later = externals_.upper_bound({storage, alignment_.iterations[i]});
  if (later == externals_.begin()) return trace::kNone;
  const auto& [key, external] = *std::prev(later);
  return key.first == storage ? external->blob : trace::kNone;
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
    if (width != 0) {
      emitter_.fail(fmt::format("tensors of dtype {} are not supported", name(tensor.dtype)));
    } else {
      emitter_.fail(
          "a tensor has a dtype that recordings have no name for (complex numbers of two f16, f8, u16 to u64, "
          "quantized ones): "
          "compute it in another one, complex64 for instance");
    }
    return nullptr;
  }
  if (changing_.contains(tensor.storage)) {
    emitter_.fail(
        "memory that something other than an op changes when the last op of the iteration has read it is not "
        "supported: fill another tensor, or say with crucible.step() that the iteration ends before it");
    return nullptr;
  }
  auto [at, is_new] = entries_.try_emplace(tensor.storage);
  Entry& entry = at->second;
  if (is_new) {
    // Python copies a storage as bytes (`copy.deepcopy`): what other ops take it for is what it is.
    const auto real = alignment_.read_as_real->find(tensor.storage);
    const bool is_bytes = tensor.dtype == DType::kU8 && real != alignment_.read_as_real->end();
    const DType wanted = is_bytes ? real->second : tensor.dtype;
    const bool is_whole = bytes % size_bytes(wanted) == 0 && !half_bool_.contains(tensor.storage);
    entry.dtype = is_whole ? wanted : DType::kU8;
    entry.elements = static_cast<std::int64_t>(bytes / size_bytes(entry.dtype));
  }
  return &entry;
}

Term StorageMap::whole_as(Entry& entry, DType dtype) {
  Term term;
  term.dtype = dtype;
  if (const auto found = entry.casts.find(dtype); found != entry.casts.end()) {
    // Of an op that was given up the ops have become fills (Emitter::abandon).
    const graph::OpId producer = emitter_.program().values[found->second].producer;
    if (producer == graph::kNone || emitter_.program().ops[producer].kind != graph::OpKind::kFill) {
      term.operand.value = found->second;
      term.operand.view = View::contiguous({entry.elements_as(dtype)});
      return term;
    }
  }
  term.dtype = entry.dtype;
  term.operand.value = entry.value;
  term.operand.view = View::contiguous({entry.elements});
  if (dtype == entry.dtype) return term;
  term = emitter_.bitcast(term, dtype);
  entry.casts.insert_or_assign(dtype, term.operand.value);
  return term;
}

Term StorageMap::whole(trace::StorageId storage, DType dtype) { return whole_as(entries_.at(storage), dtype); }

bool StorageMap::view_of(const trace::Tensor& tensor, const Entry& entry, View& view) {
  view = View{tensor.offset, tensor.sizes, tensor.strides};
  const auto last = graph::last_index(view);
  const std::int64_t elements = entry.elements_as(tensor.dtype);
  if (!last || *last >= elements) {
    emitter_.fail(fmt::format("tensor [{}] with strides [{}] and offset {} does not fit its storage of {} elements",
                              fmt::join(tensor.sizes, ", "), fmt::join(tensor.strides, ", "), tensor.offset, elements));
    return false;
  }
  view = graph::normalized(std::move(view));
  return true;
}

Term StorageMap::read_number(const trace::Tensor& tensor) {
  std::vector<graph::Number> values;
  bool is_truth = true;
  for (std::size_t i = 0; i < alignment_.count(); ++i) {
    const auto storage = alignment_.from_first[i].at(tensor.storage);
    const auto blob = known_blob(storage, i);  // one number object may be used by many iterations
    auto bytes = trace_.blob_store && blob != trace::kNone ? trace_.blob_store->load(blob) : Error{};
    const DType dtype = alignment_.number_dtype(i, tensor);
    // In elements, so that no offset of a file's own choice wraps to a place inside.
    const std::size_t width = size_bytes(dtype), held = bytes && width > 0 ? bytes->size() / width : 0;
    if (tensor.offset < 0 || static_cast<std::uint64_t>(tensor.offset) >= held) {
      emitter_.fail(fmt::format("the bytes of a Python number are not in the recording (iteration {})", i));
      return Term::number(0);
    }
    const std::size_t at = static_cast<std::size_t>(tensor.offset) * width;
    values.push_back(is_floating(dtype) ? graph::Number(graph::load_real(dtype, bytes->data() + at))
                                        : graph::Number(graph::load_integer(dtype, bytes->data() + at)));
    is_truth = is_truth && dtype == DType::kBool;
  }
  const graph::Number first = values.front();
  const bool same = std::ranges::all_of(values, [&](const graph::Number& value) { return value == first; });
  const bool is_freed = alignment_.frees_numbers && position_ < alignment_.ops[0].size() && !first.is_integer() &&
                        is_free(first.real()) &&
                        trace_.ops[alignment_.ops[0][position_]].phase == trace::Phase::kOptimizer;
  Term term = !same || is_freed    ? emitter_.slot("a Python number", std::move(values))
              : first.is_integer() ? Term::integer(first.integer())
                                   : Term::number(first.real());
  if (is_truth) term.dtype = DType::kBool;
  return term;
}

std::optional<std::vector<std::int64_t>> StorageMap::offsets_of(trace::TensorId id) const {
  const auto found = alignment_.moved.find({position_, id});
  if (found == alignment_.moved.end()) return std::nullopt;
  std::vector<std::int64_t> offsets = found->second;
  if (is_complex(trace_.tensors[id].dtype)) {
    for (auto& offset : offsets) offset *= 2;  // in components
  }
  return offsets;
}

Term StorageMap::places(const View& view, std::int64_t elements, const std::vector<std::int64_t>& offsets) {
  std::vector<graph::Number> values;
  for (const std::int64_t offset : offsets) {
    View moved = view;
    moved.offset = offset;
    const auto last = graph::last_index(moved);
    if (!last || *last >= elements) {
      emitter_.fail(fmt::format("a view that starts at element {} in another iteration does not fit its storage of {}",
                                offset, elements));
    }
    values.emplace_back(offset);
  }
  Term place = emitter_.fill(emitter_.slot("offset of a view", std::move(values)), {}, DType::kI64);
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
  const bool is_external = entry.value == graph::kNone && is_from_outside(tensor.storage);
  if (is_external) {
    entry.outside = emitter_.outside_value(graph::ValueKind::kInput, entry.dtype, entry.elements, "");
    entry.value = entry.outside;
  }
  base.operand.value = entry.value;
  if (entry.value == graph::kNone) base = emitter_.fill(Term::integer(0), {entry.elements}, entry.dtype);
  return base;
}

bool StorageMap::is_made_of_number(const trace::Tensor& tensor) const {
  if (!alignment_.frees_numbers || position_ >= alignment_.ops[0].size() || !tensor.sizes.empty() ||
      !is_floating(tensor.dtype) || trace_.ops[alignment_.ops[0][position_]].phase != trace::Phase::kOptimizer)
    return false;
  std::set<trace::StorageId> storages;
  for (std::size_t i = 0; i < alignment_.count(); ++i) {
    const trace::StorageId own = alignment_.from_first[i].at(tensor.storage);
    const trace::External* const found = external(own, i);
    if (found == nullptr || !found->name.empty() || found->blob >= trace_.blobs.size() ||
        trace_.blobs[found->blob].size_bytes != size_bytes(tensor.dtype))
      return false;
    storages.insert(own);
  }
  return storages.size() == alignment_.count();
}

Term StorageMap::read(trace::TensorId id) {
  if (const auto lazy = alignment_.lazy.find(id); lazy != alignment_.lazy.end()) {  // of real numbers: a negative view
    return emitter_.unary(graph::OpKind::kNegate, read(lazy->second.base));
  }
  const trace::Tensor& tensor = trace_.tensors[id];
  if (alignment_.zeros.contains(id)) return emitter_.fill(Term::integer(0), tensor.sizes, tensor.dtype);
  const bool untouched = tensor.storage != trace::kNone && !entries_.contains(tensor.storage);
  if (tensor.is_wrapped_number && tensor.sizes.empty() && untouched && known_blob(tensor.storage, 0) != trace::kNone) {
    return read_number(tensor);
  }
  if (untouched && is_made_of_number(tensor)) return read_number(tensor);
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
  View view;
  if (!view_of(tensor, *entry, view)) return harmless();
  Term term = whole_as(*entry, tensor.dtype);
  if (const auto offsets = offsets_of(id)) {
    term = emitter_.take(term, places(view, entry->elements_as(tensor.dtype), *offsets));
  } else {
    term.operand.view = view;
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
  if (const auto lazy = alignment_.lazy.find(id); lazy != alignment_.lazy.end()) {
    const auto signed_as = [&](const Term& term, bool negative) {
      return negative ? emitter_.unary(graph::OpKind::kNegate, term) : term;
    };
    const bool negative = lazy->second.negative;
    if (!complex) return write(lazy->second.base, signed_as(written, negative), first_op);
    const Term real = signed_as(narrow(written, -1, 0, 1), negative);
    const Term imaginary = signed_as(narrow(written, -1, 1, 1), lazy->second.conjugate != negative);
    return write(lazy->second.base, emitter_.concat({real, imaginary}, written.rank() - 1), first_op);
  }
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
  entry->written = true;
  if (tensor.dtype != entry->dtype) return write_cast(id, tensor, *entry, view, std::move(term), first_op);
  if (const auto offsets = offsets_of(id)) {
    const Term base = base_of(tensor, *entry);
    term = emitter_.put(graph::OpKind::kPutSet, base, places(view, entry->elements, *offsets), term);
  } else if (graph::covers(view, entry->elements)) {
    term = laid_out(std::move(term), view, entry->elements, first_op);
  } else {
    const Term base = base_of(tensor, *entry);
    graph::Attributes attributes;
    attributes.region = view;
    term = emitter_.emit(graph::OpKind::kUpdate, {base, term}, {entry->elements}, entry->dtype, attributes);
  }
  entry->value = term.operand.value;
  entry->casts.clear();
}

Term StorageMap::laid_out(Term term, const View& view, std::int64_t elements, graph::OpId first_op) {
  const bool same =
      graph::same_map(term.operand.view, view) && emitter_.program().values[term.operand.value].elements == elements;
  if (!same && !emitter_.relay(term, view, first_op)) {
    term = emitter_.copy(term);
    emitter_.relay(term, view, emitter_.next_op() - 1);
  }
  return term;
}

void StorageMap::write_cast(trace::TensorId id, const trace::Tensor& tensor, Entry& entry, const View& view, Term term,
                            graph::OpId first_op) {
  const std::int64_t elements = entry.elements_as(tensor.dtype), width = size_bytes(tensor.dtype),
                     own = size_bytes(entry.dtype);
  const auto offsets = offsets_of(id);
  const auto update = [&](const Term& base, const View& region, const Term& source) {
    graph::Attributes attributes;
    attributes.region = region;
    return emitter_.emit(graph::OpKind::kUpdate, {base, source}, {base.elements()}, base.dtype, attributes);
  };
  const auto base = [&](DType dtype) {
    Term before = base_of(tensor, entry);
    if (dtype == entry.dtype) return before;
    return entry.value == graph::kNone ? emitter_.fill(Term::integer(0), {elements}, dtype) : whole_as(entry, dtype);
  };
  const bool is_all = !offsets && graph::covers(view, elements);
  if (!offsets && !is_all && width >= own) {  // each written element is a few of the storage's, which stand in turn
    View region = view;
    region.offset *= width / own;
    for (auto& stride : region.strides) stride *= width / own;
    region.sizes.push_back(width / own);
    region.strides.push_back(1);
    const Term pieces = emitter_.reshape(emitter_.bitcast(term, entry.dtype), region.sizes);
    entry.value = update(base(entry.dtype), graph::normalized(std::move(region)), pieces).operand.value;
    entry.casts.clear();
    return;
  }
  if (offsets) {
    term = emitter_.put(graph::OpKind::kPutSet, base(tensor.dtype), places(view, elements, *offsets), term);
  } else if (is_all) {
    term = laid_out(std::move(term), view, elements, first_op);
    term.operand.view = View::contiguous({elements});
  } else {
    term = update(base(tensor.dtype), view, term);
  }
  Term back = emitter_.bitcast(term, entry.dtype);
  const bool has_rest = back.elements() != entry.elements;  // bytes behind the last whole element of the tensor's dtype
  if (has_rest) back = update(base(entry.dtype), View::contiguous({back.elements()}), back);
  entry.value = back.operand.value;
  entry.casts.clear();
  entry.casts.emplace(tensor.dtype, term.operand.value);
}

}  // namespace crucible::aten
