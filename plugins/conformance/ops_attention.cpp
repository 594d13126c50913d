// See ops_attention.hpp.
#include "plugins/conformance/ops_attention.hpp"

#include <fmt/format.h>

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
  AttentionWriter(const Shape& s, DType dtype, bool is_causal, bool is_packed, std::uint64_t seed)
      : shape_(s),
        dtype_(dtype),
        writer_(OpKind::kMatMul,
                fmt::format("attention {} {}x{}x{}x{}, {} keys{}{}", name(dtype), s.batch, s.heads, s.rows, s.width,
                            s.keys, is_causal ? ", causal" : "", is_packed ? ", packed" : ""),
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
    writer_.program.program.meanings.push_back(std::move(meaning));
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
    const Operand weights = copied(copied(powers, dtype_), DType::kF32);
    const Operand divided = op(OpKind::kDivide, {op(OpKind::kMatMul, {weights, v}, out), broadcast(total, out)}, out);
    const Operand result = copied(divided, dtype_);
    writer_.program.program.outputs.push_back({.name = "result", .operand = result, .recorded = {}, .blobs = {0}});
    writer_.program.is_random = true;  // of many ops
    return result;
  }

  static constexpr double kScale = 0.5;
  const Shape shape_;
  const DType dtype_;
  OpsWriter writer_;
};

}  // namespace

std::vector<OpsProgram> attention_programs(const DtypeChoice& dtypes) {
  std::vector<OpsProgram> programs;
  std::uint64_t seed = 1;
  for (const Shape& shape : {Shape{2, 3, 5, 5, 16}, Shape{1, 2, 17, 9, 64}, Shape{1, 1, 33, 33, 128}}) {
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
      if ((dtype == DType::kF16 && !dtypes.f16) || (dtype == DType::kBF16 && !dtypes.bf16)) continue;
      for (const bool is_causal : {false, true}) {
        for (const bool is_packed : {false, true})
          programs.push_back(AttentionWriter(shape, dtype, is_causal, is_packed, ++seed).take());
      }
    }
  }
  return programs;
}

}  // namespace crucible::conformance
