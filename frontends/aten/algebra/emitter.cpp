// The algebra of lowering: see emitter.hpp.
#include "frontends/aten/algebra/emitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/graph/op_table.hpp"
#include "core/graph/view.hpp"

namespace crucible::aten {

using graph::Attributes;
using graph::OpKind;
using graph::View;

void Emitter::fail(std::string message) {
  if (failure_.empty()) failure_ = std::move(message);
}

std::vector<Term> Emitter::emit_many(OpKind kind, const std::vector<Term>& inputs,
                                     const std::vector<std::pair<Sizes, DType>>& results, Attributes attributes) {
  graph::Op op;
  op.kind = kind;
  op.source = source_;
  op.attributes = std::move(attributes);
  op.inputs.reserve(inputs.size());
  is_read_.resize(program_.values.size(), false);
  for (const Term& input : inputs) {
    op.inputs.push_back(input.operand);
    if (!input.is_number()) is_read_[input.operand.value] = true;
  }
  std::vector<Term> terms;
  for (const auto& [sizes, dtype] : results) {
    if (!graph::checked_elements(sizes)) fail(fmt::format("sizes [{}] are not possible", fmt::join(sizes, ", ")));
    graph::Value value;
    value.dtype = dtype;
    value.elements = View::contiguous(sizes).elements();
    value.producer = static_cast<graph::OpId>(program_.ops.size());
    program_.values.push_back(value);
    Term term;
    term.dtype = dtype;
    term.operand.value = static_cast<graph::ValueId>(program_.values.size() - 1);
    term.operand.view = View::contiguous(sizes);
    op.outputs.push_back(term.operand);
    if (graph::is_reduction(kind)) {
      for (auto dim : op.attributes.dims) {
        if (static_cast<std::size_t>(dim) < sizes.size())
          op.outputs.back().view.strides[static_cast<std::size_t>(dim)] = 0;
      }
    }
    terms.push_back(std::move(term));
  }
  program_.ops.push_back(std::move(op));
  return terms;
}

Expression Emitter::emit(OpKind kind, const std::vector<Term>& inputs, const Sizes& sizes, DType dtype,
                   Attributes attributes) {
  return in(emit_many(kind, inputs, {{sizes, dtype}}, std::move(attributes)).front());
}

Expression Emitter::elementwise(OpKind kind, const std::vector<Term>& inputs, DType dtype) {
  Sizes sizes;
  for (const Term& input : inputs) {
    if (input.is_number()) continue;
    auto both = graph::broadcast_sizes(sizes, input.sizes());
    if (!both) {
      fail(fmt::format("sizes [{}] and [{}] do not broadcast", fmt::join(sizes, ", "), fmt::join(input.sizes(), ", ")));
      return in(input);
    }
    sizes = *both;
  }
  std::vector<Term> wide;
  for (const Term& input : inputs) wide.push_back(input.is_number() ? input : expand(input, sizes));
  return emit(kind, wide, sizes, dtype);
}

Expression Emitter::unary(OpKind kind, const Term& x) {
  const auto op_class = graph::info(kind).op_class;
  const bool truth = op_class == graph::OpClass::kTest || op_class == graph::OpClass::kLogic;
  return elementwise(kind, {x}, truth ? DType::kBool : x.dtype);
}

Expression Emitter::binary(OpKind kind, const Term& a, const Term& b) {
  const auto op_class = graph::info(kind).op_class;
  const DType common = promote({a, b});
  if (op_class == graph::OpClass::kComparison) {
    // The program compares in the first operand's dtype, so the first one is brought to the common dtype.
    Term first = a.is_number() ? fill(a, {}, common) : cast(a, common);
    return elementwise(kind, {first, b}, DType::kBool);
  }
  if (op_class == graph::OpClass::kLogic) return elementwise(kind, {a, b}, DType::kBool);
  return elementwise(kind, {a, b}, common);
}

Expression Emitter::select(const Term& condition, const Term& a, const Term& b) {
  return elementwise(OpKind::kSelect, {cast(condition, DType::kBool), a, b}, promote({a, b}));
}

Expression Emitter::cast(const Term& x, DType dtype) {
  if (x.is_number() || x.dtype == dtype) return in(x);
  return elementwise(OpKind::kCopy, {x}, dtype);
}

Expression Emitter::copy(const Term& x) { return elementwise(OpKind::kCopy, {x}, x.dtype); }

Expression Emitter::fill(const Term& number, const Sizes& sizes, DType dtype) {
  if (!number.is_number()) return expand(cast(number, dtype), sizes);
  return emit(OpKind::kFill, {number}, sizes, dtype);
}

Expression Emitter::coordinate(std::int64_t dim, const Sizes& sizes, DType dtype) {
  Attributes attributes;
  attributes.dims = {wrap_dim(dim, static_cast<std::int64_t>(sizes.size()))};
  if (attributes.dims[0] < 0 || attributes.dims[0] >= static_cast<std::int64_t>(sizes.size())) {
    fail(fmt::format("dimension {} of a tensor with {}", dim, sizes.size()));
  }
  return emit(OpKind::kCoordinate, {}, sizes, dtype, attributes);
}

Expression Emitter::reduce(OpKind kind, const Term& x, const std::vector<std::int64_t>& dims, DType dtype) {
  Attributes attributes;
  Sizes sizes = x.sizes();
  for (auto dim : dims) attributes.dims.push_back(wrap_dim(dim, x.rank()));
  std::sort(attributes.dims.begin(), attributes.dims.end());
  if (x.rank() == 0) attributes.dims.clear();
  for (auto dim : attributes.dims) {
    if (dim < 0 || dim >= x.rank()) {
      fail(fmt::format("dimension {} of a tensor with {}", dim, x.rank()));
      return in(x);
    }
    sizes[static_cast<std::size_t>(dim)] = 1;
  }
  return emit(kind, {x}, sizes, dtype, attributes);
}

Expression Emitter::sum(const Term& x, const std::vector<std::int64_t>& dims) {
  return reduce(OpKind::kReduceSum, x, dims, x.dtype);
}

Expression Emitter::max(const Term& x, const std::vector<std::int64_t>& dims) {
  return reduce(OpKind::kReduceMax, x, dims, x.dtype);
}

Expression Emitter::mean(const Term& x, const std::vector<std::int64_t>& dims) {
  double count = 1;
  for (auto dim : dims) count *= x.rank() == 0 ? 1.0 : static_cast<double>(x.size(dim));
  return binary(OpKind::kDivide, sum(x, dims), Term::number(count));
}

Expression Emitter::reshape(const Term& x, const Sizes& sizes) {
  if (auto view = graph::reshaped(x.operand.view, sizes)) {
    Term result = x;
    result.operand.view = *view;
    return in(result);
  }
  if (View::contiguous(sizes).elements() != x.elements()) {
    fail(fmt::format("[{}] cannot become [{}]", fmt::join(x.sizes(), ", "), fmt::join(sizes, ", ")));
    return in(x);
  }
  Term dense = copy(x);
  dense.operand.view = View::contiguous(sizes);
  return in(dense);
}

Expression Emitter::permute(const Term& x, const std::vector<std::int64_t>& dims) {
  Term result = x;
  const auto is_wrong = [&](std::int64_t dim) {
    return wrap_dim(dim, x.rank()) < 0 || wrap_dim(dim, x.rank()) >= x.rank();
  };
  if (static_cast<std::int64_t>(dims.size()) != x.rank() || std::ranges::any_of(dims, is_wrong)) {
    fail(fmt::format("dimensions [{}] do not order a tensor with {}", fmt::join(dims, ", "), x.rank()));
    return in(x);
  }
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto from = static_cast<std::size_t>(wrap_dim(dims[d], x.rank()));
    result.operand.view.sizes[d] = x.operand.view.sizes[from];
    result.operand.view.strides[d] = x.operand.view.strides[from];
  }
  return in(result);
}

Expression Emitter::transpose(const Term& x, std::int64_t a, std::int64_t b) {
  if (x.rank() == 0) return in(x);
  const std::int64_t first = wrap_dim(a, x.rank()), second = wrap_dim(b, x.rank());
  if (first < 0 || first >= x.rank() || second < 0 || second >= x.rank()) {
    fail(fmt::format("dimensions {} and {} of {} cannot be exchanged", a, b, x.rank()));
    return in(x);
  }
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[static_cast<std::size_t>(first)], dims[static_cast<std::size_t>(second)]);
  return permute(x, dims);
}

Expression Emitter::expand(const Term& x, const Sizes& sizes) {
  if (x.is_number()) return fill(x, sizes, x.dtype);
  auto view = graph::broadcast(x.operand.view, sizes);
  if (!view) {
    fail(fmt::format("[{}] does not expand to [{}]", fmt::join(x.sizes(), ", "), fmt::join(sizes, ", ")));
    return in(x);
  }
  Term result = x;
  result.operand.view = graph::normalized(std::move(*view));
  return in(result);
}

Expression Emitter::unsqueeze(const Term& x, std::int64_t dim) {
  Term result = x;
  const auto at = wrap_dim(dim, x.rank() + 1);
  if (at < 0 || at > x.rank()) {
    fail(fmt::format("a dimension at {} of a tensor with {}", dim, x.rank()));
    return in(x);
  }
  result.operand.view.sizes.insert(result.operand.view.sizes.begin() + at, 1);
  result.operand.view.strides.insert(result.operand.view.strides.begin() + at, 0);
  result.operand.view = graph::normalized(std::move(result.operand.view));
  return in(result);
}

Expression Emitter::drop(const Term& x, const std::vector<std::int64_t>& dims) {
  std::vector<bool> gone(static_cast<std::size_t>(x.rank()), false);
  for (auto dim : dims) {
    if (x.rank() > 0 && (wrap_dim(dim, x.rank()) < 0 || wrap_dim(dim, x.rank()) >= x.rank())) {
      fail(fmt::format("dimension {} of a tensor with {}", dim, x.rank()));
      return in(x);
    }
    if (x.rank() > 0) gone[static_cast<std::size_t>(wrap_dim(dim, x.rank()))] = true;
  }
  Term result = x;
  result.operand.view.sizes.clear();
  result.operand.view.strides.clear();
  for (std::size_t d = 0; d < gone.size(); ++d) {
    if (gone[d]) continue;
    result.operand.view.sizes.push_back(x.operand.view.sizes[d]);
    result.operand.view.strides.push_back(x.operand.view.strides[d]);
  }
  return in(result);
}

Expression Emitter::matmul(const Term& a, const Term& b, double alpha) {
  const auto batch_of = [](const Term& t) { return Sizes(t.sizes().begin(), t.sizes().end() - 2); };
  if (a.rank() < 2 || b.rank() < 2 || a.size(-1) != b.size(-2)) {
    fail(fmt::format("matrices [{}] and [{}] do not fit", fmt::join(a.sizes(), ", "), fmt::join(b.sizes(), ", ")));
    return in(a);
  }
  auto batch = graph::broadcast_sizes(batch_of(a), batch_of(b));
  if (!batch) {
    fail("the batches of a matrix product do not broadcast");
    return in(a);
  }
  const auto with = [&](std::int64_t rows, std::int64_t columns) {
    Sizes sizes = *batch;
    sizes.push_back(rows);
    sizes.push_back(columns);
    return sizes;
  };
  const Term left = expand(a, with(a.size(-2), a.size(-1))), right = expand(b, with(b.size(-2), b.size(-1)));
  if (!is_floating(a.dtype)) {  // the op is for floats; whole numbers wrap in sums of products
    const Term products = binary(OpKind::kMultiply, unsqueeze(left, -1), unsqueeze(right, -3));
    const auto inner = products.rank() - 2;
    const Term total = drop(sum(products, {inner}), {inner});
    return in(alpha == 1.0 ? total : binary(OpKind::kMultiply, total, Term::integer(static_cast<std::int64_t>(alpha))));
  }
  Attributes attributes;
  attributes.alpha = alpha;
  return emit(OpKind::kMatMul, {left, right}, with(a.size(-2), b.size(-1)), a.dtype, attributes);
}

Expression Emitter::gather_rows(const Term& table, const Term& ids) {
  if (table.rank() != 2) {
    fail(fmt::format("a table of rows has {} dimensions, needs 2", table.rank()));
    return in(table);
  }
  Sizes sizes = ids.sizes();
  sizes.push_back(table.size(1));
  return emit(OpKind::kGatherRows, {table, ids}, sizes, table.dtype);
}

Expression Emitter::scatter_add_rows(const Term& rows, const Term& ids, std::int64_t row_count,
                                     std::int64_t skipped_row) {
  if (rows.rank() != 2) {
    fail(fmt::format("rows have {} dimensions, need 2", rows.rank()));
    return in(rows);
  }
  Attributes attributes;
  attributes.index = skipped_row;
  return emit(OpKind::kScatterAddRows, {rows, ids}, {row_count, rows.size(1)}, rows.dtype, attributes);
}

Expression Emitter::concat(const std::vector<Term>& pieces, std::int64_t dim) {
  const std::int64_t rank = pieces.empty() ? 0 : pieces.front().rank();
  Attributes attributes;
  attributes.dims = {wrap_dim(dim, rank)};
  if (attributes.dims[0] < 0 || attributes.dims[0] >= rank) {
    fail(pieces.empty() ? "a concatenation of nothing"
                        : fmt::format("pieces with {} dimensions have no dimension {}", rank, dim));
    return in(pieces.empty() ? Term::number(0) : pieces.front());
  }
  const DType dtype = promote(pieces);
  const auto at = static_cast<std::size_t>(attributes.dims[0]);
  Sizes sizes = pieces.front().sizes();
  sizes[at] = 0;
  std::vector<Term> same;
  for (const Term& piece : pieces) {
    if (piece.rank() != pieces.front().rank()) {
      fail("pieces of a concatenation differ in their number of dimensions");
      return in(pieces.front());
    }
    sizes[at] += piece.sizes()[at];
    if (piece.sizes()[at] > 0) same.push_back(cast(piece, dtype));  // a cache of keys that is empty yet, for one
  }
  if (same.size() == 1) return copy(same.front());
  if (same.empty()) same.push_back(cast(pieces.front(), dtype));
  const std::size_t most = graph::kMostPieces;
  while (same.size() > most) {
    std::vector<Term> joined;
    for (std::size_t first = 0; first < same.size(); first += most) {
      const std::vector<Term> part(same.begin() + static_cast<std::ptrdiff_t>(first),
                                   same.begin() + static_cast<std::ptrdiff_t>(std::min(first + most, same.size())));
      joined.push_back(concat(part, attributes.dims[0]));
    }
    same = std::move(joined);
  }
  return emit(OpKind::kConcat, same, sizes, dtype, attributes);
}

std::vector<graph::Number> Emitter::number_values(const Term& number) const {
  const graph::Scalar& scalar = number.operand.scalar;
  if (scalar.slot != graph::kNone) return program_.slots[scalar.slot].values;
  return {scalar.is_integer ? graph::Number(scalar.integer) : graph::Number(scalar.real)};
}

Expression Emitter::slot(const std::string& name, std::vector<graph::Number> values) {
  const bool is_integer = std::ranges::all_of(values, &graph::Number::is_integer);
  for (graph::Number& value : values) {
    if (is_integer || !value.is_integer()) continue;
    const graph::Number real(value.real());
    if (real.integer() != value.integer()) {
      fail(fmt::format("{} is a real number in one iteration and in another the whole number {}, which no double holds",
                       name, value.integer()));
    }
    value = real;
  }
  Term term;
  term.dtype = is_integer ? DType::kI64 : DType::kF32;
  term.operand.scalar.is_integer = is_integer;
  const auto [found, is_new] =
      slots_.emplace(std::pair{name, values}, static_cast<graph::SlotId>(program_.slots.size()));
  term.operand.scalar.slot = found->second;
  if (is_new) program_.slots.push_back({name, std::move(values), is_integer});
  return in(term);
}

Expression Emitter::map_number(const Term& number, const std::string& name,
                               const std::function<graph::Number(graph::Number)>& function) {
  auto values = number_values(number);
  for (graph::Number& value : values) value = function(value);
  if (number.operand.scalar.slot != graph::kNone) {
    return slot(name + " of (" + program_.slots[number.operand.scalar.slot].name + ")", std::move(values));
  }
  return in(values.front().is_integer() ? Term::integer(values.front().integer())
                                        : Term::number(values.front().real()));
}

graph::ValueId Emitter::outside_value(graph::ValueKind kind, DType dtype, std::int64_t elements, std::string name) {
  graph::Value value;
  value.kind = kind;
  value.dtype = dtype;
  value.elements = elements;
  value.name = std::move(name);
  program_.values.push_back(std::move(value));
  return static_cast<graph::ValueId>(program_.values.size() - 1);
}

std::string Emitter::abandon(graph::OpId first_op) {
  bounds_.forget();
  std::vector<graph::Operand> results;
  for (std::size_t i = first_op; i < program_.ops.size(); ++i) {
    results.insert(results.end(), program_.ops[i].outputs.begin(), program_.ops[i].outputs.end());
  }
  program_.ops.resize(first_op);
  for (graph::Operand& result : results) {
    program_.values[result.value].elements = 0;
    program_.values[result.value].producer = static_cast<graph::OpId>(program_.ops.size());
    result.view = View::contiguous({0});
    graph::Op op;
    op.kind = OpKind::kFill;
    op.source = source_;
    op.inputs = {Term::integer(0).operand};
    op.outputs = {result};
    program_.ops.push_back(std::move(op));
  }
  return std::exchange(failure_, {});
}

bool Emitter::relay(const Term& term, const View& layout, graph::OpId first_op) {
  if (term.is_number() || program_.values[term.operand.value].kind != graph::ValueKind::kTemporary) return false;
  const graph::OpId producer = program_.values[term.operand.value].producer;
  if (producer < first_op || (term.operand.value < is_read_.size() && is_read_[term.operand.value])) return false;
  graph::Op& op = program_.ops[producer];
  if (op.kind == OpKind::kUpdate || graph::is_put(op.kind) || graph::is_reduction(op.kind)) return false;
  for (auto& output : op.outputs) {
    if (output.value != term.operand.value) continue;
    if (!graph::same_map(output.view, term.operand.view)) return false;
    output.view = layout;
    return true;
  }
  return false;
}

}  // namespace crucible::aten
