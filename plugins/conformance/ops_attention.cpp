// See ops_attention.hpp.
#include "plugins/conformance/ops_attention.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "plugins/conformance/ops_writer.hpp"

namespace crucible::conformance {
namespace {

using graph::Attributes;
using graph::Operand;
using graph::OpKind;
using graph::View;

struct Shape {
  std::int64_t batch, heads, rows, keys, width;
};

/// One program, op by op, and what it is by name; nothing but its result is kept.
class AttentionWriter {
 public:
  AttentionWriter(const Shape& s, DType dtype, bool is_causal, bool is_packed, bool is_trained, std::uint64_t seed)
      : shape_(s),
        dtype_(dtype),
        writer_(OpKind::kMatMul,
                fmt::format("attention {} {}x{}x{}x{}, {} keys{}{}{}", name(dtype), s.batch, s.heads, s.rows, s.width,
                            s.keys, is_causal ? ", causal" : "", is_packed ? ", packed" : "",
                            is_trained ? ", trained" : ""),
                seed) {
    // [batch, rows, heads, width] in memory where they are packed, as a projection leaves them.
    const auto input = [&](std::int64_t rows) {
      View view = View::contiguous({s.batch, s.heads, rows, s.width});
      if (is_packed) view.strides = {rows * s.heads * s.width, s.width, s.heads * s.width, 1};
      return writer_.input(dtype, view, Pattern::kUnit);
    };
    const Operand query = input(s.rows), key = input(s.keys), value = input(s.keys);
    const Operand q = copied(query, DType::kF32), k = copied(key, DType::kF32), v = copied(value, DType::kF32);
    Operand transposed = k;
    std::swap(transposed.view.sizes[2], transposed.view.sizes[3]);
    std::swap(transposed.view.strides[2], transposed.view.strides[3]);
    const Operand result = write(q, transposed, v, is_causal);
    graph::Meaning meaning{"attention", {}, {{"query", query}, {"key", key}, {"value", value}}, {{"output", result}}};
    meaning.attributes.push_back({"scale", false, {OpsWriter::number(kScale).scalar}});
    if (is_causal) meaning.attributes.push_back({"causal", false, {OpsWriter::number(1).scalar}});
    graph::Meaning gradient{"attention_backward", meaning.attributes, meaning.inputs, {}};
    writer_.program.program.meanings.push_back(std::move(meaning));
    if (!is_trained) return;
    const Operand of_result =
        writer_.input(dtype, View::contiguous({s.batch, s.heads, s.rows, s.width}), Pattern::kUnit);
    gradient.inputs.push_back({"out", result});
    gradient.inputs.push_back({"grad_out", of_result});
    const char* const names[] = {"grad_query", "grad_key", "grad_value"};
    const std::array<Operand, 3> gradients = write_gradient(query, key, value, v, result, of_result);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradient.outputs.push_back({names[i], gradients[i]});
      writer_.program.program.outputs.push_back(
          {.name = names[i], .operand = gradients[i], .recorded = {}, .blobs = {0}});
    }
    writer_.program.program.meanings.push_back(std::move(gradient));
  }

  OpsProgram take() { return std::move(writer_.program); }

 private:
  Operand op(OpKind kind, std::vector<Operand> inputs, const Sizes& sizes, DType dtype = DType::kF32,
             Attributes attributes = {}) {
    graph::Program& program = writer_.program.program;
    Operand result;
    result.value = static_cast<graph::ValueId>(program.values.size());
    result.view = View::contiguous(sizes);
    program.values.push_back({.kind = graph::ValueKind::kTemporary,
                              .dtype = dtype,
                              .elements = result.view.elements(),
                              .name = "",
                              .producer = static_cast<graph::OpId>(program.ops.size())});
    writer_.program.values.emplace_back();
    program.ops.push_back(
        {.kind = kind, .inputs = std::move(inputs), .outputs = {result}, .attributes = std::move(attributes)});
    return result;
  }
  Operand copied(const Operand& x, DType dtype) {
    return writer_.program.program.values[x.value].dtype == dtype ? x : op(OpKind::kCopy, {x}, x.view.sizes, dtype);
  }
  static Operand broadcast(Operand x, const Sizes& sizes) {
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (x.view.sizes[d] != sizes[d]) x.view.strides[d] = 0;
    }
    x.view.sizes = sizes;
    return x;
  }
  Operand reduce(OpKind kind, const Operand& x) {
    Sizes kept = x.view.sizes;
    kept.back() = 1;
    Attributes last;
    last.dims = {static_cast<std::int64_t>(kept.size()) - 1};
    return op(kind, {x}, kept, DType::kF32, last);
  }
  Operand masked(const Operand& scores) {
    const Sizes plane = {1, 1, shape_.rows, shape_.keys};
    Attributes rows, keys;
    rows.dims = {2}, keys.dims = {3};
    const Operand i = op(OpKind::kCoordinate, {}, plane, DType::kI32, rows),
                  j = op(OpKind::kCoordinate, {}, plane, DType::kI32, keys);
    const Operand seen = op(OpKind::kLessEqual, {j, i}, plane, DType::kBool);
    return op(OpKind::kSelect,
              {broadcast(seen, scores.view.sizes), scores, OpsWriter::number(-std::numeric_limits<double>::infinity())},
              scores.view.sizes);
  }

  Operand write(const Operand& q, const Operand& k, const Operand& v, bool is_causal) {
    const Sizes sizes = {shape_.batch, shape_.heads, shape_.rows, shape_.keys},
                out = {shape_.batch, shape_.heads, shape_.rows, shape_.width};
    Attributes scale;
    scale.alpha = kScale;
    Operand x = op(OpKind::kMatMul, {q, k}, sizes, DType::kF32, scale);
    if (is_causal) x = masked(x);
    const Operand top = reduce(OpKind::kReduceMax, x);
    const Operand powers = op(OpKind::kExp, {op(OpKind::kSubtract, {x, broadcast(top, sizes)}, sizes)}, sizes);
    const Operand total = reduce(OpKind::kReduceSum, powers);
    powers_ = powers, total_ = total;
    const Operand weights = copied(copied(powers, dtype_), DType::kF32);
    const Operand divided = op(OpKind::kDivide, {op(OpKind::kMatMul, {weights, v}, out), broadcast(total, out)}, out);
    const Operand result = copied(divided, dtype_);
    writer_.program.program.outputs.push_back({.name = "result", .operand = result, .recorded = {}, .blobs = {0}});
    writer_.program.is_random = true;  // of many ops
    return result;
  }

  static Operand turned(Operand x) {
    std::swap(x.view.sizes[2], x.view.sizes[3]);
    std::swap(x.view.strides[2], x.view.strides[3]);
    return x;
  }
  /// `v`: the values in f32.
  std::array<Operand, 3> write_gradient(const Operand& query, const Operand& key, const Operand& value,
                                        const Operand& v, const Operand& result, const Operand& of_result) {
    const Sizes sizes = powers_.view.sizes, out = result.view.sizes;
    const Operand g = copied(of_result, DType::kF32);
    const Operand inner = reduce(OpKind::kReduceSum, op(OpKind::kMultiply, {g, copied(result, DType::kF32)}, out));
    const Operand p = op(OpKind::kDivide, {powers_, broadcast(total_, sizes)}, sizes);
    Operand slopes = op(OpKind::kMatMul, {g, turned(v)}, sizes);
    slopes = op(OpKind::kSubtract, {slopes, broadcast(inner, sizes)}, sizes);
    slopes = op(OpKind::kMultiply, {op(OpKind::kMultiply, {p, slopes}, sizes), OpsWriter::number(kScale)}, sizes);
    slopes = copied(slopes, dtype_);
    return {op(OpKind::kMatMul, {slopes, key}, query.view.sizes, dtype_),
            op(OpKind::kMatMul, {turned(slopes), query}, key.view.sizes, dtype_),
            op(OpKind::kMatMul, {turned(copied(p, dtype_)), of_result}, value.view.sizes, dtype_)};
  }

  static constexpr double kScale = 0.5;
  const Shape shape_;
  const DType dtype_;
  OpsWriter writer_;
  Operand powers_, total_;  // of the softmax
};

std::vector<OpsProgram> programs_of(const DtypeChoice& dtypes, bool is_trained) {
  std::vector<OpsProgram> programs;
  std::uint64_t seed = 1;
  for (const Shape& shape : {Shape{2, 3, 5, 5, 16}, Shape{1, 2, 17, 9, 64}, Shape{1, 1, 33, 33, 128}}) {
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
      if ((dtype == DType::kF16 && !dtypes.f16) || (dtype == DType::kBF16 && !dtypes.bf16)) continue;
      for (const bool is_causal : {false, true}) {
        for (const bool is_packed : {false, true})
          programs.push_back(AttentionWriter(shape, dtype, is_causal, is_packed, is_trained, ++seed).take());
      }
    }
  }
  return programs;
}

}  // namespace

std::vector<OpsProgram> attention_programs(const DtypeChoice& dtypes) { return programs_of(dtypes, false); }
std::vector<OpsProgram> trained_attention_programs(const DtypeChoice& dtypes) { return programs_of(dtypes, true); }

}  // namespace crucible::conformance
