// Arguments and results of one recorded op: see op_call.hpp.
#include "frontends/aten/call/op_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/graph/view.hpp"
#include "frontends/aten/algebra/formulas.hpp"
#include "frontends/aten/call/preconditions.hpp"
#include "frontends/aten/call/schema.hpp"
#include "frontends/aten/call/signature.hpp"
#include "frontends/aten/complex/complex.hpp"
#include "frontends/aten/reduction/reducing.hpp"
#include "frontends/aten/sparse/sparse.hpp"

namespace crucible::aten {

using Kind = trace::Arg::Kind;

namespace {

/// Whether a number of this name is an element of the result, and no place and no factor.
bool is_element_value(std::string_view entry, std::string_view name) {
  const bool is_range = entry.starts_with("aten::linspace") && (name == "start" || name == "end");
  return is_range || name == "value" || name == "fill_value" || name == "fill" || name == "other" || name == "src";
}

}  // namespace

OpCall::OpCall(const trace::Trace& trace, const Alignment& alignment, std::uint32_t position, Emitter& emitter,
               StorageMap& storages, Draws& draws)
    : trace_(trace),
      alignment_(alignment),
      position_(position),
      emitter_(emitter),
      storages_(storages),
      draws_(draws),
      op_(trace.ops[alignment.ops[0][position]]),
      full_name_(trace.schemas[op_.schema].full_name()),
      names_(argument_names(trace.schemas[op_.schema].text)),
      results_(tensors_in(op_.outputs, true)),
      first_op_(emitter.next_op()) {
  storages_.at_op(position);
}

std::uint32_t OpCall::index_of(std::string_view name) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  const auto index = static_cast<std::size_t>(at - names_.begin());
  return index < op_.args.size() && at != names_.end() ? static_cast<std::uint32_t>(index) : trace::kNone;
}

const trace::Arg* OpCall::find(std::string_view name) const {
  const auto index = index_of(name);
  return index == trace::kNone ? nullptr : &op_.args[index];
}

bool OpCall::expect(bool condition, std::string_view name, std::string_view what) {
  if (!condition) emitter_.fail(fmt::format("argument {} is not {}", name, what));
  return condition;
}

bool OpCall::has(std::string_view name) const {
  if (items_) return item_terms(name) != nullptr;
  const trace::Arg* arg = find(name);
  return arg && arg->kind != Kind::kNone && arg->kind != Kind::kUndefinedTensor;
}

Term OpCall::number(const trace::Arg& arg, const ArgumentPath& path, std::string_view name) {
  used_.insert(path);
  const bool is_value = part_ != Part::kAll && is_element_value(entry_name_, name);
  if (arg.kind == Kind::kTensor) return part_of(arg.tensor, is_value);
  if (is_value && part_ != Part::kMagnitude && arg.kind == Kind::kComplex) {
    require_fixed(path, name);
    return Term::number(part_ == Part::kReal ? arg.real : arg.imaginary);
  }
  if (is_value && part_ == Part::kImaginary) return Term::number(0);
  if (!expect(is_number(arg), name, "a number")) return Term::number(0);
  Term term = arg.kind == Kind::kDouble ? Term::number(arg.real) : Term::integer(arg.integer);
  bool is_truth = arg.kind == Kind::kBool;
  if (alignment_.differing.contains(path)) {
    std::vector<graph::Number> values;
    for (std::size_t i = 0; i < alignment_.count(); ++i) {
      const trace::Arg& other = alignment_.argument(trace_, i, path);
      values.push_back(other.kind == Kind::kDouble ? graph::Number(other.real) : graph::Number(other.integer));
      is_truth = is_truth && other.kind == Kind::kBool;
    }
    const std::string& base = trace_.schemas[op_.schema].name;
    term = emitter_.slot(fmt::format("{}.{} at {}", base, name, trace_.site_text(op_.site)), std::move(values));
  }
  if (is_truth) term.dtype = DType::kBool;
  return term;
}

Expression OpCall::operand(std::string_view name) {
  if (items_) return item_term(name);
  const trace::Arg* arg = find(name);
  if (!expect(arg != nullptr, name, "there")) return {emitter_, Term::number(0)};
  return {emitter_, number(*arg, {position_, index_of(name), -1}, name)};
}

std::vector<Term> OpCall::operands(std::string_view name) {
  const trace::Arg* arg = find(name);
  std::vector<Term> terms;
  if (!expect(arg && arg->kind == Kind::kList, name, "a list")) return terms;
  for (std::size_t i = 0; i < arg->list.size(); ++i) {
    terms.push_back(number(arg->list[i], {position_, index_of(name), static_cast<std::int32_t>(i)}, name));
  }
  return terms;
}

/// A Python number in the place of a tensor: one without dimensions, of the widest type that it has in any iteration.
Term OpCall::as_tensor(const Term& term, trace::TensorId id) {
  if (!term.is_number()) return term;
  const DType dtype = trace_.tensors[id].dtype;
  if (is_floating(term.dtype)) return emitter_.fill(term, {}, is_floating(dtype) ? dtype : DType::kF64);
  return emitter_.fill(term, {}, dtype == DType::kBool ? term.dtype : dtype);
}

Expression OpCall::tensor(std::string_view name) {
  if (items_) return item_term(name);
  const trace::Arg* arg = find(name);
  // A stand-in would have sizes that the lowering's places of dimensions know nothing of: schemas of a file can call
  // arguments otherwise.
  if (!expect(arg && arg->kind == Kind::kTensor, name, "a tensor")) throw NoSuchTensor();
  const Term term = part_of(arg->tensor, false);
  if (log_ != nullptr && !term.is_number()) log_->add_input(name, term);
  return {emitter_, as_tensor(term, arg->tensor)};
}

Expression OpCall::wide(std::string_view name) { return widened(emitter_, tensor(name)); }

Expression OpCall::floating(std::string_view name) { return as_floating(emitter_, tensor(name)); }

std::vector<Term> OpCall::tensors(std::string_view name) {
  const trace::Arg* arg = find(name);
  std::vector<Term> terms;
  if (!expect(arg && arg->kind == Kind::kList, name, "a list of tensors")) return terms;
  for (const trace::Arg& item : arg->list) {
    if (!expect(item.kind == Kind::kTensor, name, "a list of tensors")) return {};
    const Term term = part_of(item.tensor, true);
    if (log_ != nullptr && !term.is_number()) log_->add_input(name, term, terms.size(), true);
    terms.push_back(as_tensor(term, item.tensor));
  }
  return terms;
}

std::vector<std::optional<Term>> OpCall::optional_tensors(std::string_view name) {
  const trace::Arg* arg = find(name);
  std::vector<std::optional<Term>> terms;
  if (!expect(arg && arg->kind == Kind::kList, name, "a list of tensors")) return terms;
  for (const trace::Arg& item : arg->list) {
    terms.emplace_back();
    if (item.kind == Kind::kNone || item.kind == Kind::kUndefinedTensor) continue;
    if (!expect(item.kind == Kind::kTensor, name, "a list of tensors")) return {};
    terms.back() = as_tensor(storages_.read(item.tensor), item.tensor);
  }
  return terms;
}

void OpCall::require_fixed(const ArgumentPath& path, std::string_view name) {
  used_.insert(path);
  if (!alignment_.differing.contains(path)) return;
  for (std::size_t i = 1; i < alignment_.count(); ++i) {
    const trace::Arg& a = alignment_.argument(trace_, 0, path);
    const trace::Arg& b = alignment_.argument(trace_, i, path);
    if (a == b) continue;
    emitter_.fail_over(path.argument, path.element,
                       fmt::format("iterations {} and {} differ: argument {} is {} vs {}", alignment_.iterations[0],
                                   alignment_.iterations[i], name, argument_text(trace_, a), argument_text(trace_, b)));
    return;
  }
}

// Preconditions hold what a schema calls an int; a recording's own schema may call it anything.
std::int64_t OpCall::within_memory(std::string_view name, std::int64_t number) {
  const std::string problem = beyond_memory(name, number);
  if (problem.empty()) return number;
  emitter_.fail(problem);
  return 0;
}

std::int64_t OpCall::integer(std::string_view name) {
  const trace::Arg* arg = find(name);
  if (!expect(arg && arg->kind == Kind::kInt, name, "an integer")) return 0;
  require_fixed({position_, index_of(name), -1}, name);
  return within_memory(name, arg->integer);
}

double OpCall::real(std::string_view name) {
  const trace::Arg* arg = find(name);
  if (!expect(arg && (arg->kind == Kind::kInt || arg->kind == Kind::kDouble || arg->kind == Kind::kBool), name,
              "a number"))
    return 0;
  require_fixed({position_, index_of(name), -1}, name);
  return arg->kind == Kind::kDouble ? arg->real : static_cast<double>(arg->integer);
}

bool OpCall::boolean(std::string_view name) {
  const trace::Arg* arg = find(name);
  return expect(arg && arg->kind == Kind::kBool, name, "a bool") && arg->integer != 0;
}

std::string OpCall::text(std::string_view name) const {
  const trace::Arg* arg = find(name);
  return arg && arg->kind == Kind::kString ? arg->text : "";
}

std::vector<std::int64_t> OpCall::integers(std::string_view name) {
  const trace::Arg* arg = find(name);
  std::vector<std::int64_t> result;
  if (arg && arg->kind == Kind::kInt) return {integer(name)};
  if (!expect(arg && arg->kind == Kind::kList, name, "a list of integers")) return result;
  for (std::size_t i = 0; i < arg->list.size(); ++i) {
    if (!expect(arg->list[i].kind == Kind::kInt, name, "a list of integers")) return {};
    require_fixed({position_, index_of(name), static_cast<std::int32_t>(i)}, name);
    result.push_back(within_memory(name, arg->list[i].integer));
  }
  return result;
}

std::vector<bool> OpCall::booleans(std::string_view name) {
  const trace::Arg* arg = find(name);
  std::vector<bool> result;
  if (!expect(arg && arg->kind == Kind::kList, name, "a list of bools")) return result;
  for (const trace::Arg& item : arg->list) result.push_back(item.integer != 0);
  return result;
}

void OpCall::set(std::size_t k, const Term& term) {
  if (items_) return set_item(term);
  if (wants(k)) set_tensor(k, results_[k], term);
}

Term OpCall::part_of(trace::TensorId id, bool is_data) {
  if (part_ == Part::kAll) return storages_.read(id);
  const trace::Tensor& tensor = trace_.tensors[id];
  if (is_complex(tensor.dtype)) {
    const Complex both = storages_.read_complex(id);
    if (part_ == Part::kMagnitude) return magnitude(emitter_, both);
    return part_ == Part::kReal ? both.real : both.imaginary;
  }
  if (part_ != Part::kImaginary || (!is_data && !is_floating(tensor.dtype))) return storages_.read(id);
  return emitter_.fill(Term::integer(0), tensor.sizes, tensor.dtype);
}

void OpCall::by_parts(const std::function<void(OpCall&)>& lower) {
  for (const Part part : {Part::kReal, Part::kImaginary}) {
    part_ = part;
    if (emitter_.failure().empty()) lower(*this);
  }
  part_ = Part::kAll;
  for (const auto& [id, both] : parts_) set_pairs(id, {both.first, both.second});
}

void OpCall::by_magnitude(const std::function<void(OpCall&)>& lower) {
  part_ = Part::kMagnitude;
  lower(*this);
  part_ = Part::kAll;
}

void OpCall::set_tensor(std::size_t k, trace::TensorId id, const Term& term) {
  const trace::Tensor& tensor = trace_.tensors[id];
  if (part_ == Part::kReal || part_ == Part::kImaginary) {
    if (is_complex(tensor.dtype)) {
      auto& both = parts_[id];
      (part_ == Part::kReal ? both.first : both.second) = term;
      return;
    }
    if (part_ == Part::kImaginary) return;  // it has none
  }
  if (is_complex(tensor.dtype))
    return emitter_.fail(fmt::format("result {} is of complex numbers, its lowering makes real ones", k));
  if (!term.is_number() && emitter_.failure().empty() && !graph::broadcast(term.operand.view, tensor.sizes)) {
    emitter_.fail(fmt::format("result {} was recorded as [{}], its lowering makes [{}]", k,
                              fmt::join(tensor.sizes, ", "), fmt::join(term.sizes(), ", ")));
    return;
  }
  writes_.emplace_back(id, term);
  if (log_ == nullptr) return;
  const auto& names = log_->row->results;
  log_->written.push_back({k < names.size() ? std::string(names[k]) : "", 0, false, term});
}

bool OpCall::is_sparse(std::string_view name) const {
  const trace::Arg* arg = find(name);
  return arg && arg->kind == Kind::kTensor && alignment_.sparse.contains(arg->tensor);
}

Sparse OpCall::sparse(std::string_view name) {
  const trace::Arg* arg = find(name);
  if (!expect(is_sparse(name), name, "a sparse tensor")) return {};
  const SparseParts& parts = alignment_.sparse.at(arg->tensor);
  Term indices = storages_.read(parts.indices);
  if (parts.begins != trace::kNone)
    indices = listed_places(emitter_, storages_.read(parts.begins), indices, parts.by_columns);
  return {indices, storages_.read(parts.values), trace_.tensors[arg->tensor].sizes};
}

const SparseParts* OpCall::sparse_result(std::size_t k) const {
  const auto found = wants(k) ? alignment_.sparse.find(results_[k]) : alignment_.sparse.end();
  if (found != alignment_.sparse.end()) return &found->second;
  emitter_.fail(fmt::format("result {} is no sparse tensor", k));
  return nullptr;
}

std::int64_t OpCall::sparse_count(std::size_t k) const {
  const SparseParts* parts = sparse_result(k);
  return parts == nullptr ? 0 : trace_.tensors[parts->indices].sizes.back();
}

std::int64_t OpCall::sparse_dims(std::size_t k) const {
  const SparseParts* parts = sparse_result(k);
  return parts == nullptr ? 0 : parts->sparse_dims;
}

bool OpCall::is_by_columns(std::size_t k) const {
  const SparseParts* parts = sparse_result(k);
  return parts != nullptr && parts->by_columns;
}

void OpCall::set_sparse(std::size_t k, const Sparse& value) {
  const SparseParts* result_parts = wants(k) ? sparse_result(k) : nullptr;
  if (result_parts == nullptr) return;
  const auto is_in = [&](trace::TensorId part, trace::TensorId id) { return storages_.same_storage(part, id); };
  const auto is_there = [&](trace::TensorId part) {
    return std::ranges::any_of(tensors_in(op_.args), [&](trace::TensorId id) { return is_in(part, id); });
  };
  // Places are never written in place: those of an argument are what they were.
  const auto are_places = [&](trace::TensorId part) {
    return is_there(part) || std::ranges::any_of(tensors_in(op_.args), [&](trace::TensorId id) {
             const auto argument = alignment_.sparse.find(id);
             if (argument == alignment_.sparse.end()) return false;
             const SparseParts& parts = argument->second;
             return is_in(part, parts.indices) || (parts.begins != trace::kNone && is_in(part, parts.begins));
           });
  };
  const SparseParts& parts = *result_parts;
  if (!is_there(parts.values)) set_tensor(k, parts.values, value.values);
  if (parts.begins == trace::kNone) {
    if (!are_places(parts.indices)) set_tensor(k, parts.indices, value.indices);
    return;
  }
  const Term along = slice(value.indices, 0, parts.by_columns ? 1 : 0, 1),
             across = slice(value.indices, 0, parts.by_columns ? 0 : 1, 1);
  if (!are_places(parts.indices)) set_tensor(k, parts.indices, emitter_.drop(across, {0}));
  if (!are_places(parts.begins))
    set_tensor(k, parts.begins, beginnings(emitter_, emitter_.drop(along, {0}), value.sizes[parts.by_columns ? 1 : 0]));
}

bool OpCall::is_nested(std::string_view name) const {
  const trace::Arg* arg = find(name);
  return arg && arg->kind == Kind::kTensor && alignment_.nested.contains(arg->tensor);
}

Nested OpCall::nested(std::string_view name) {
  const trace::Arg* arg = find(name);
  if (!expect(is_nested(name), name, "a tensor of tensors")) return {Term::number(0), {}};
  const NestedParts& parts = alignment_.nested.at(arg->tensor);
  return {storages_.read(parts.buffer), parts.sizes};
}

std::vector<Sizes> OpCall::nested_sizes(std::size_t k) const {
  const auto found = wants(k) ? alignment_.nested.find(results_[k]) : alignment_.nested.end();
  if (found != alignment_.nested.end()) return found->second.sizes;
  emitter_.fail(fmt::format("result {} is no tensor of tensors", k));
  return {};
}

void OpCall::set_nested(std::size_t k, const Term& buffer) {
  if (!wants(k)) return;
  const auto found = alignment_.nested.find(results_[k]);
  if (found == alignment_.nested.end()) return emitter_.fail(fmt::format("result {} is no tensor of tensors", k));
  set_tensor(k, found->second.buffer, buffer);
}

Complex OpCall::complex(std::string_view name) {
  const trace::Arg* arg = find(name);
  if (arg && arg->kind == Kind::kTensor && is_complex(trace_.tensors[arg->tensor].dtype)) {
    return storages_.read_complex(arg->tensor);
  }
  if (arg && arg->kind == Kind::kComplex) {
    require_fixed({position_, index_of(name), -1}, name);
    return {Term::number(arg->real), Term::number(arg->imaginary)};
  }
  return {operand(name), Term::number(0)};
}

void OpCall::set_complex(std::size_t k, const Complex& value) {
  if (!wants(k)) return;
  if (!is_complex(result(k).dtype)) return set(k, value.real);
  set_pairs(results_[k], value);
}

void OpCall::set_pairs(trace::TensorId id, const Complex& value) {
  const trace::Tensor& tensor = trace_.tensors[id];
  const auto part = [&](const Term& term) {
    const DType dtype = component_of(tensor.dtype);
    const Term wide = term.is_number() ? emitter_.fill(term, tensor.sizes, dtype)
                                       : emitter_.expand(emitter_.cast(term, dtype), tensor.sizes);
    return emitter_.unsqueeze(wide, -1);
  };
  const Term pairs = emitter_.concat({part(value.real), part(value.imaginary)}, -1);
  if (emitter_.failure().empty()) writes_.emplace_back(id, pairs);
}

void OpCall::write(std::string_view name, const Term& term, std::size_t element) {
  const trace::Arg* arg = find(name);
  const bool is_list = arg && arg->kind == Kind::kList;
  if (is_list && element < arg->list.size()) arg = &arg->list[element];
  if (!expect(arg && arg->kind == Kind::kTensor, name, "a tensor")) return;
  if (part_ != Part::kAll) return set_tensor(0, arg->tensor, term);
  writes_.emplace_back(arg->tensor, term);
  if (log_ != nullptr) log_->written.push_back({std::string(name), element, is_list, term});
}

bool OpCall::is_drawn(std::size_t k) const { return draws_.has(position_, static_cast<std::uint32_t>(k)); }

Expression OpCall::drawn(std::size_t k) {
  if (!wants(k)) return {emitter_, Term::number(0)};
  return {emitter_, draws_.read(position_, static_cast<std::uint32_t>(k), result(k))};
}

void OpCall::set_drawn(std::size_t k) {
  if (!wants(k) || !is_complex(result(k).dtype)) return set(k, drawn(k));
  const Term pairs = draws_.read(position_, static_cast<std::uint32_t>(k), as_pairs(result(k)));
  if (emitter_.failure().empty()) writes_.emplace_back(results_[k], pairs);
}

std::optional<Term> OpCall::drawn_state(std::string_view result, std::int64_t count) {
  const std::vector<Parameter> results = parse_signature(trace_.schemas[op_.schema].text).results;
  const auto found = std::ranges::find(results, result, &Parameter::name);
  const auto output = static_cast<std::uint32_t>(found - results.begin());
  if (found == results.end() || output >= op_.outputs.size() || !draws_.has(position_, output)) return std::nullopt;
  if (op_.outputs[output].kind != Kind::kTensor) return std::nullopt;
  trace::Tensor tensor = trace_.tensors[op_.outputs[output].tensor];  // of u64, perhaps
  tensor.dtype = DType::kI64;
  tensor.sizes = {count};
  const Term term = draws_.read(position_, output, tensor);
  draws_.keep(tensor.storage, term);
  return term;
}

std::optional<Term> OpCall::state_behind(std::string_view argument) const {
  const trace::Arg* arg = find(argument);
  if (arg == nullptr || arg->kind != Kind::kTensor) return std::nullopt;
  return draws_.kept(trace_.tensors[arg->tensor].storage);
}

bool OpCall::is_of_processor(std::size_t k) const {
  const trace::StorageId storage = result(k).storage;
  return storage < trace_.storages.size() && trace_.storages[storage].device == "cpu";
}

const trace::Tensor& OpCall::result(std::size_t k) const {
  static const trace::Tensor kNothing;
  if (wants(k)) {
    const trace::Tensor& tensor = trace_.tensors[results_[k]];
    if (part_ == Part::kAll || !is_complex(tensor.dtype)) return tensor;
    const auto [at, is_new] = part_results_.try_emplace(k, tensor);
    at->second.dtype = component_of(tensor.dtype);
    return at->second;
  }
  emitter_.fail(fmt::format("result {} was not recorded", k));
  return kNothing;
}

bool OpCall::enters(std::size_t k) const { return wants(k) && storages_.is_from_outside(result(k).storage); }

bool OpCall::aliases(std::size_t k, std::string_view name) const {
  const trace::Arg* arg = find(name);
  return wants(k) && arg && arg->kind == Kind::kTensor && storages_.same_storage(results_[k], arg->tensor);
}

bool OpCall::is_row_major(std::string_view name) const {
  const trace::Arg* arg = find(name);
  if (!arg || arg->kind != Kind::kTensor) return false;
  const trace::Tensor& tensor = trace_.tensors[arg->tensor];
  return graph::View{0, tensor.sizes, tensor.strides}.is_contiguous();
}

void OpCall::finish() {
  log_end_ = emitter_.next_op();
  struct Leave {
    StorageMap& storages;
    ~Leave() { storages.at_op(trace::kNone); }
  } leave{storages_};
  if (!emitter_.failure().empty()) return;
  std::unordered_map<graph::ValueId, std::size_t> tensors_of;
  for (const auto& [tensor, term] : writes_) ++tensors_of[term.operand.value];
  for (const auto& [tensor, term] : writes_) {
    // A value that becomes two tensors keeps its layout: the second one reads it too.
    const bool alone = tensors_of[term.operand.value] == 1;
    storages_.write(tensor, term, alone ? first_op_ : emitter_.next_op());
  }
  if (numbers_ignored_) return;
  const auto first = alignment_.differing.lower_bound({position_, 0, -1});
  for (auto at = first; at != alignment_.differing.end() && at->position == position_; ++at) {
    if (used_.contains(*at)) continue;
    const auto name = at->argument < names_.size() ? names_[at->argument] : std::to_string(at->argument);
    require_fixed(*at, name);
  }
}

}  // namespace crucible::aten
